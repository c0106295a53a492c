from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from prx_resources.contract import JobResult, JobSpec
from prx_resources.errors import BusyError, ClusterUnreachable, JobError, UsageError
from prx_resources.jobs import JobState
from prx_resources.messages import MARK
from prx_resources.outcome import Outcome
from prx_resources.ray_jobs import RayJobs

TOKEN = "s3cret"
SPEC = JobSpec(stage="captions", source="cats", lake="/lake", tuning={"python": "/opt/py"})


class FakeServer(ThreadingHTTPServer):
    """Answers like Ray's job server, as far as a client of ours asks."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.jobs: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.broken = False
        self.before_submit: Callable[[str], None] = lambda _: None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class FakeHandler(BaseHTTPRequestHandler):
    server: FakeServer

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if not self._allowed():
            return
        _, _, name, *rest = [*self.path.removeprefix("/").split("/"), ""]
        if not name:
            self._send(200, list(self.server.jobs.values()))
        elif name not in self.server.jobs:
            self._send(404, "no such job")
        elif "logs" in rest:
            self._send(200, {"logs": self.server.logs.get(name, "")})
        else:
            self._send(200, self.server.jobs[name])

    def do_POST(self) -> None:
        if not self._allowed():
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
        if self.path.endswith("/stop"):
            self.server.jobs[self.path.split("/")[3]]["status"] = "STOPPED"
            self._send(200, {"stopped": True})
            return
        name = body["submission_id"]
        self.server.before_submit(name)
        if name in self.server.jobs:
            self._send(500, f"Traceback\nValueError: Job with submission_id {name} already exists.")
            return
        self.server.jobs[name] = {**body, "status": "PENDING"}
        self._send(200, {"submission_id": name})

    def _allowed(self) -> bool:
        if self.server.broken:
            self._send(503, "the dashboard is starting")
            return False
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._send(401, "Unauthorized")
            return False
        return True

    def _send(self, status: int, body: object) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def jobs(server: FakeServer, prx_home: Path, tmp_path: Path) -> RayJobs:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    return RayJobs(
        backend="submission",
        home=str(prx_home),
        address=server.address,
        token_path=str(token),
        runtime_env={"working_dir": "s3://code.zip", "env_vars": {"A": "1"}},
    )


def test_a_new_job_runs_the_stage_with_the_token_and_the_environment(
    server: FakeServer, jobs: RayJobs
) -> None:
    got = jobs.submit_or_attach(SPEC, {"DAGSTER_PIPES_CONTEXT": "c"})

    assert not got.attached
    assert got.job.id == f"prx-captions-cats-{SPEC.fingerprint}-1"
    sent = server.jobs[got.job.id]
    assert sent["entrypoint"] == "/opt/py -u -m prx_assets.captions.job"
    assert sent["runtime_env"]["working_dir"] == "s3://code.zip"
    variables = sent["runtime_env"]["env_vars"]
    assert variables["A"] == "1"
    assert variables["PRX_JOB_ID"] == got.job.id
    assert variables["DAGSTER_PIPES_CONTEXT"] == "c"


def test_a_running_job_is_attached_to_and_a_finished_one_leads_to_the_next_number(
    server: FakeServer, jobs: RayJobs
) -> None:
    first = jobs.submit_or_attach(SPEC, {})
    again = jobs.submit_or_attach(SPEC, {})
    server.jobs[first.job.id]["status"] = "SUCCEEDED"
    third = jobs.submit_or_attach(SPEC, {})

    assert again.attached
    assert again.job.id == first.job.id
    assert third.job.id.endswith("-2")


def test_a_submitter_that_loses_the_race_attaches(server: FakeServer, jobs: RayJobs) -> None:
    def other_wins(name: str) -> None:
        server.jobs.setdefault(name, {"submission_id": name, "status": "RUNNING"})

    server.before_submit = other_wins

    assert jobs.submit_or_attach(SPEC, {}).attached


def test_another_identity_is_refused_but_another_source_is_not(
    server: FakeServer, jobs: RayJobs
) -> None:
    first = jobs.submit_or_attach(SPEC, {})

    with pytest.raises(BusyError) as refused:
        jobs.submit_or_attach(JobSpec("captions", "cats", "/lake", {"model": "other"}), {})
    assert refused.value.where == first.job.id
    assert not jobs.submit_or_attach(JobSpec("captions", "cats-2", "/lake"), {}).attached


def test_messages_come_out_of_the_log_once_each(server: FakeServer, jobs: RayJobs) -> None:
    job = jobs.submit_or_attach(SPEC, {}).job
    source = job.messages()
    one, two = ({"method": "log", "params": {"message": text}} for text in ("one", "two"))
    server.logs[job.id] = f"hello\n(pid=7) {MARK}{json.dumps(one)}\n{MARK}{json.dumps(two)[:9]}"

    assert source.poll() == [one]
    server.logs[job.id] += json.dumps(two)[9:] + "\nbye\n"
    assert source.poll() == [two]
    assert source.poll() == []
    assert job.tail() == "hello\nbye"


def test_the_outcome_is_found_in_the_log(server: FakeServer, jobs: RayJobs) -> None:
    job = jobs.submit_or_attach(SPEC, {}).job
    outcome = Outcome(result=JobResult("v1", 3, 3))
    message = {
        "method": "report_custom_message",
        "params": {"payload": {"result": outcome.to_json()}},
    }
    server.jobs[job.id]["status"] = "SUCCEEDED"
    server.logs[job.id] = f"{MARK}{json.dumps(message)}\n"

    assert job.state() is JobState.SUCCEEDED
    assert job.outcome() == outcome


def test_a_driver_that_was_killed_is_lost(server: FakeServer, jobs: RayJobs) -> None:
    job = jobs.submit_or_attach(SPEC, {}).job
    server.jobs[job.id] |= {"status": "FAILED", "message": "driver killed\nray::X() broke"}

    assert job.state() is JobState.LOST
    assert job.tail() == "driver killed"


def test_a_server_in_trouble_is_unreachable_and_a_wrong_token_is_said(
    server: FakeServer, jobs: RayJobs, tmp_path: Path
) -> None:
    job = jobs.submit_or_attach(SPEC, {}).job
    server.broken = True
    with pytest.raises(ClusterUnreachable, match="503"):
        job.state()
    server.broken = False
    (tmp_path / "token").write_text("wrong")
    with pytest.raises(JobError, match="refused the token") as refused:
        jobs.live_jobs()
    assert "ray.token_path" in refused.value.fix


def test_without_an_address_the_edit_is_named(prx_home: Path) -> None:
    with pytest.raises(UsageError) as refused:
        RayJobs(backend="submission", home=str(prx_home)).live_jobs()
    assert "ray.address" in refused.value.fix
