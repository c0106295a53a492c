"""Jobs on real Rays: the keeper's, and a cluster with a job server."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import requests

from prx_resources import keeper
from tests.prx_assets.launching import JOBS, DummyJobs, failure, log_lines, run, spec

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("dummy_jobs_path")]


def test_the_keepers_ray_is_shared_private_and_on_the_loopback(local_ray_home: Path) -> None:
    first = keeper.ensure(local_ray_home)
    second = keeper.ensure(local_ray_home)

    assert first == second == keeper.running(local_ray_home)
    assert first.address.startswith("127.0.0.1:")
    assert Path(first.token).stat().st_mode & 0o077 == 0


def test_a_local_job_works_on_the_keepers_ray(
    local_ray_home: Path, instance: dg.DagsterInstance
) -> None:
    assert run(local_ray_home, instance, ray=True).success


def test_an_exception_in_a_worker_is_the_users_own(
    local_ray_home: Path, instance: dg.DagsterInstance
) -> None:
    text = failure(run(local_ray_home, instance, ray=True, fail=True))

    assert text.startswith("TableError: row 3 is broken (cats)\n  fix: remove it\n")
    assert "ray::" not in text
    assert "site-packages/ray" not in text


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A Ray with a job server, ended by the end of its own process."""
    folder = tmp_path_factory.mktemp("cluster")
    token = folder / "token"
    token.write_text("0123456789abcdef" * 4)
    port, gcs, agent, client = free_ports(4)
    temp = Path(f"/tmp/prx-test-{os.getpid()}")
    command = [
        *(str(Path(sys.executable).with_name("ray")), "start", "--head", "--block"),
        *("--node-ip-address=127.0.0.1", f"--port={gcs}", f"--ray-client-server-port={client}"),
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={port}"),
        # Every Ray of a machine wants the same one.
        f"--dashboard-agent-listen-port={agent}",
        *("--num-cpus=2", f"--object-store-memory={100 * 2**20}", f"--temp-dir={temp}"),
        "--disable-usage-stats",
    ]
    with (folder / "log").open("wb") as log:
        head = subprocess.Popen(
            command,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "RAY_AUTH_MODE": "token",
                "RAY_AUTH_TOKEN_PATH": str(token),
                "PYTHONPATH": f"{JOBS}{os.pathsep}{JOBS.parents[2]}",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 180
        while True:
            assert head.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            try:
                headers = {"Authorization": f"Bearer {token.read_text()}"}
                if requests.get(f"{address}/api/jobs/", headers=headers, timeout=5).ok:
                    break
            except requests.RequestException:
                pass
            time.sleep(0.5)
        yield {"address": address, "token_path": str(token), "backend": "submission"}
    finally:
        head.send_signal(signal.SIGTERM)
        head.wait(60)
        shutil.rmtree(temp, ignore_errors=True)


def test_a_job_on_a_cluster_reports_through_its_log(
    cluster: dict[str, Any], prx_home: Path, instance: dg.DagsterInstance
) -> None:
    result = run(
        prx_home, instance, jobs=DummyJobs(home=str(prx_home), **cluster), ray=True, rows=4
    )

    assert result.success
    assert log_lines(instance, result.run_id)[0].startswith("dummy of cats: 4 rows due")
    [made] = result.asset_materializations_for_node("dummy")
    assert made.tags["dagster/data_version"] == "v7"


def test_a_failed_job_on_a_cluster_says_why(
    cluster: dict[str, Any], prx_home: Path, instance: dg.DagsterInstance
) -> None:
    jobs = DummyJobs(home=str(prx_home), **cluster)
    text = failure(run(prx_home, instance, jobs=jobs, fail=True))

    assert text.startswith("TableError: the table has no column 'x' (cats)\n  fix: run")


def test_a_job_on_a_cluster_is_stopped(
    cluster: dict[str, Any], prx_home: Path, tmp_path: Path
) -> None:
    jobs = DummyJobs(home=str(prx_home), **cluster)
    wanted = spec(gate=str(tmp_path / "never"))
    first = jobs.submit_or_attach(wanted, {})
    second = jobs.submit_or_attach(wanted, {})
    assert (first.attached, second.attached) == (False, True)
    assert second.job.id == first.job.id
    assert [job.text for job in jobs.stop_all()] == [first.job.id]
    assert first.job.state().value == "stopped"
    assert jobs.live_jobs() == []
