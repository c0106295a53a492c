from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from prx_resources.errors import BusyError
from prx_resources.jobs import JobState
from prx_resources.local_jobs import LocalJob, LocalJobs
from prx_resources.processes import Process
from prx_resources.ray_jobs import Submission
from tests.prx_assets.launching import JOBS, DummyJobs, failure, log_lines, run, spec

pytestmark = pytest.mark.usefixtures("dummy_jobs_path")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def folders(home: Path) -> list[Path]:
    return sorted(path for path in (home / "runs").glob("prx-*") if path.is_dir())


def live(home: Path) -> list[str]:
    return [found.id.text for found in LocalJobs(home).live()]


def test_success_reports_the_plan_first_then_progress_checks_and_the_result(
    prx_home: Path, instance: dg.DagsterInstance
) -> None:
    result = run(prx_home, instance, rows=5)

    assert result.success
    [folder] = folders(prx_home)
    lines = log_lines(instance, result.run_id)
    assert lines[0] == (
        "dummy of cats: 5 rows due, by dummy engine, estimated time 12 s;"
        f" job {folder.name}, run folder {folder}"
    )
    assert any(line.startswith("5 of 5 rows") for line in lines)
    [made] = result.asset_materializations_for_node("dummy")
    assert made.tags["dagster/data_version"] == "v7"
    assert made.metadata["rows_out"].value == 5
    assert made.metadata["formats"].value.records[0].data == {"format": "jpeg", "rows": 5}
    [check] = result.get_asset_check_evaluations()
    assert (check.check_name, check.passed) == ("rows_accounted", True)
    assert check.description == "every row has a fate"


def test_failure_starts_with_the_users_exception(
    prx_home: Path, instance: dg.DagsterInstance
) -> None:
    result = run(prx_home, instance, fail=True)

    text = failure(result)
    assert text.splitlines()[:2] == [
        "TableError: the table has no column 'x' (cats)",
        "  fix: run `prx doctor`",
    ]
    assert "last lines of job prx-dummy-cats-" in text
    assert "4 of 4 rows" in text


def test_a_disk_too_full_to_start_a_job_is_a_refusal(
    prx_home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "spec.json")

    monkeypatch.setattr("prx_resources.local_jobs.write_json", full)
    text = failure(run(prx_home, instance, rows=1))
    assert text.splitlines() == [
        "StoreRefused: the disk is full; what was finished before is kept (spec.json)",
        "  fix: free some space, then run it again",
    ]


def test_a_job_that_could_not_be_noted_does_not_run_on(
    prx_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[Process] = []

    def noted(path: Path, data: Any) -> None:
        if path.name == "job.json":
            started.append(Process(data["pid"], data["started"]))
            raise KeyboardInterrupt

    monkeypatch.setattr("prx_resources.local_jobs.write_json", noted)
    with pytest.raises(KeyboardInterrupt):
        DummyJobs(home=str(prx_home)).submit_or_attach(spec(gate=str(tmp_path / "never")), {})
    assert [process.alive for process in started] == [False]


def test_a_job_that_is_lost_on_a_full_disk_says_so(
    prx_home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    text = failure(run(prx_home, instance, vanish=True))
    assert text.startswith("StoreRefused: the disk is full")


def test_an_exception_that_is_not_ours_names_its_line(
    prx_home: Path, instance: dg.DagsterInstance
) -> None:
    text = failure(run(prx_home, instance, crash=True))

    assert text.startswith("KeyError: 'missing' (prx_assets/jobs/dummy_job.py:")
    assert text.splitlines()[0].endswith("in work)")


def test_a_job_that_vanishes_is_lost_and_the_next_run_starts_another(
    prx_home: Path, instance: dg.DagsterInstance
) -> None:
    text = failure(run(prx_home, instance, vanish=True))
    run(prx_home, instance, vanish=True)

    assert text.startswith("JobLost: ")
    assert [folder.name[-2:] for folder in folders(prx_home)] == ["-1", "-2"]


def test_result_file_stands_in_for_lost_messages(
    prx_home: Path, instance: dg.DagsterInstance
) -> None:
    result = run(prx_home, instance, lose_messages=True)

    assert result.success
    [made] = result.asset_materializations_for_node("dummy")
    assert made.tags["dagster/data_version"] == "v7"
    [check] = result.get_asset_check_evaluations()
    assert check.passed


def test_terminate_stops_the_job(
    prx_home: Path, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    def terminate() -> None:
        wait_for(lambda: live(prx_home))
        [record] = instance.get_run_records()
        instance.report_run_canceling(record.dagster_run)

    presses = threading.Thread(target=terminate)
    presses.start()
    result = run(prx_home, instance, gate=str(tmp_path / "never"))
    presses.join()

    assert not result.success
    [folder] = folders(prx_home)
    assert LocalJob(folder).state() is JobState.STOPPED
    assert any("finished chunks are kept" in x for x in log_lines(instance, result.run_id))


@pytest.mark.parametrize(("stops", "state"), [(True, "stopped"), (False, "running")])
def test_ctrl_c_stops_the_job_only_where_the_command_line_asked_for_it(
    prx_home: Path,
    instance: dg.DagsterInstance,
    tmp_path: Path,
    stops: bool,
    state: str,
) -> None:
    gate = tmp_path / "gate"

    def press() -> None:
        wait_for(lambda: instance.get_run_records() and live(prx_home))
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    presses = threading.Thread(target=press)
    presses.start()
    jobs = DummyJobs(home=str(prx_home), stop_on_interrupt=stops)
    result = run(prx_home, instance, jobs=jobs, gate=str(gate))
    presses.join()

    assert not result.success
    [folder] = folders(prx_home)
    assert LocalJob(folder).state().value == state
    gate.touch()
    wait_for(lambda: not live(prx_home))


@pytest.mark.parametrize("ends_by", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "drain"])
def test_killed_step_leaves_the_job_and_the_next_run_attaches(
    prx_home: Path, instance: dg.DagsterInstance, tmp_path: Path, ends_by: int
) -> None:
    gate = tmp_path / "gate"
    root = JOBS.parents[2]
    step = subprocess.Popen(
        [sys.executable, "-m", "tests.prx_assets.launching", prx_home, gate, tmp_path],
        cwd=root,
    )
    wait_for(lambda: live(prx_home))
    step.send_signal(ends_by)
    step.wait()
    threading.Timer(2, gate.touch).start()
    result = run(prx_home, instance, gate=str(gate))

    assert result.success
    [folder] = folders(prx_home)
    lines = log_lines(instance, result.run_id)
    assert lines[0].startswith("dummy of cats: 4 rows due")
    assert f"attached to job {folder.name}" in lines
    assert len([line for line in lines if line.startswith("4 of 4 rows")]) == 1


def test_another_identity_is_refused_and_names_the_job(
    prx_home: Path, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    jobs = DummyJobs(home=str(prx_home))
    first = jobs.submit_or_attach(spec(gate=str(gate)), {})

    with pytest.raises(BusyError) as refused:
        jobs.submit_or_attach(spec(gate=str(gate), rows=9), {})
    text = failure(run(prx_home, instance, gate=str(gate), rows=9))

    assert refused.value.where == first.job.id
    assert text.startswith("BusyError: another dummy job with other settings works on cats")
    assert first.job.id in text
    first.job.stop()


def test_two_submitters_that_race_have_one_job(prx_home: Path, tmp_path: Path) -> None:
    jobs = DummyJobs(home=str(prx_home))
    got: list[Submission] = []
    wanted = spec(gate=str(tmp_path / "never"))
    racers = [
        threading.Thread(target=lambda: got.append(jobs.submit_or_attach(wanted, {})))
        for _ in range(4)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()

    assert len({submission.job.id for submission in got}) == 1
    assert sorted(submission.attached for submission in got) == [False, True, True, True]
    assert jobs.live_jobs()[0].text == got[0].job.id
    assert [job.text for job in jobs.stop_all()] == [got[0].job.id]
    assert got[0].job.state() is JobState.STOPPED
