"""Jobs of a Ray cluster through its job server's REST interface; never imports ray."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import requests
from dagster_pipes import DAGSTER_PIPES_MESSAGES_ENV_VAR, encode_param

from prx_resources.contract import JobSpec
from prx_resources.environment import JobEnvironment
from prx_resources.errors import ClusterUnreachable, JobError
from prx_resources.jobs import Found, JobState, SubmissionId, readable_tail
from prx_resources.messages import MARKED_LINES, RESULT, LogSource, MessageSource, custom
from prx_resources.outcome import Outcome, write_json

_TIMEOUT_S = 30
_STOP_WAIT_S = 60
_STATES = {
    "PENDING": JobState.RUNNING,
    "RUNNING": JobState.RUNNING,
    "STOPPED": JobState.STOPPED,
    "SUCCEEDED": JobState.SUCCEEDED,
    "FAILED": JobState.FAILED,
}


class JobServer:
    """A Ray job server.

    Args:
        address: `http://HOST:8265`.
        token: What Ray's token authentication asks for; None where it is off.
    """

    def __init__(self, address: str, token: str | None) -> None:
        self.address = address.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Makes one request and returns the JSON answer, None for "no such job".

        Raises:
            ClusterUnreachable: No answer, or the server is in trouble.
            JobError: The server refused the request.
        """
        try:
            answer = requests.request(
                method,
                f"{self.address}/api/jobs/{path}",
                json=body,
                headers=self._headers,
                timeout=_TIMEOUT_S,
                allow_redirects=False,
            )
        except requests.RequestException as error:
            raise self._unreachable(type(error).__name__) from error
        if answer.status_code == 200:
            return answer.json()
        if answer.status_code == 404:
            return None
        if answer.status_code in (401, 403):
            raise JobError(
                f"Ray's job server refused the token (HTTP {answer.status_code})",
                where=self.address,
                fix="set `ray.token_path` in settings.yaml to a file with the cluster's token",
            )
        reason = next((x for x in reversed(answer.text.splitlines()) if x.strip()), "")
        if answer.status_code < 500 or "already exists" in answer.text:
            raise JobError(f"Ray's job server refused: {reason}", where=self.address)
        raise self._unreachable(f"HTTP {answer.status_code} {reason}")

    def _unreachable(self, reason: str) -> ClusterUnreachable:
        return ClusterUnreachable(
            f"Ray's job server doesn't answer: {reason}",
            where=self.address,
            fix="check the address in settings.yaml and that the cluster is up",
        )


class SubmittedJob:
    """A job on a cluster.

    Args:
        server: Its job server.
        id: Its submission id.
        folder: Where this side keeps what it learns of the job.
    """

    def __init__(self, server: JobServer, id: str, folder: Path) -> None:  # noqa: A002
        self.id = id
        self.folder = folder
        self.log_place = f"{server.address}/#/jobs/{id}"
        self._server = server

    def state(self) -> JobState:
        """Returns where the job stands."""
        info = self._server.call("GET", self.id)
        if info is None:
            return JobState.LOST
        state = _STATES.get(info["status"], JobState.RUNNING)
        # A driver that was killed is FAILED to Ray; without an outcome we call it lost.
        if state is JobState.FAILED and self.outcome() is None:
            return JobState.LOST
        return state

    def outcome(self) -> Outcome | None:
        """Returns how the job ended, from the messages in its log."""
        known = Outcome.read(self.folder)
        if known is None:
            for message in self.messages().poll():
                if data := custom(message, RESULT):
                    known = Outcome.from_json(data)
                    known.write(self.folder)
        return known

    def messages(self) -> MessageSource:
        """Returns the job's messages from the start."""
        return LogSource(self._log)

    def tail(self, lines: int = 15) -> str:
        """Returns the last lines of the job's log, without Ray's frames."""
        text = readable_tail(self._log(), lines)
        if text:
            return text
        info = self._server.call("GET", self.id) or {}
        return readable_tail(str(info.get("message") or ""), lines)

    def stop(self) -> None:
        """Ends the job; Ray asks it to end first and kills it three seconds later."""
        self._server.call("POST", f"{self.id}/stop")
        deadline = time.monotonic() + _STOP_WAIT_S
        while self.state() is JobState.RUNNING and time.monotonic() < deadline:
            time.sleep(0.5)

    def _log(self) -> str:
        answer = self._server.call("GET", f"{self.id}/logs")
        return "" if answer is None else str(answer.get("logs") or "")


class SubmittedJobs:
    """The jobs of one cluster that are ours.

    Args:
        server: The cluster's job server.
        home: PRX_HOME, whose run folders mirror what this side learns.
        runtime_env: Ray's runtime environment for every job.
    """

    def __init__(self, server: JobServer, home: Path, runtime_env: Mapping[str, Any]) -> None:
        self._server = server
        self._runs = home / "runs"
        self._runtime_env = runtime_env

    @contextlib.contextmanager
    def submitting(self, stage: str, source: str) -> Iterator[None]:  # noqa: ARG002
        """Does nothing: on a cluster the job server's "already exists" settles a race."""
        yield

    def find(self, stage: str, source: str) -> list[Found]:
        """Returns every job the server remembers of this stage and source."""
        return [f for f in self._all() if (f.id.stage, f.id.source) == (stage, source)]

    def live(self) -> list[Found]:
        """Returns the jobs that run now."""
        return [found for found in self._all() if found.live]

    def _all(self) -> list[Found]:
        return [
            Found(job, _STATES.get(info["status"]) is JobState.RUNNING)
            for info in self._server.call("GET", "") or []
            if (job := SubmissionId.parse(info.get("submission_id") or ""))
        ]

    def open(self, submission: SubmissionId, spec: JobSpec) -> SubmittedJob:
        """Returns the job with this id."""
        folder = self._runs / submission.text
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "spec.json", spec.to_json())
        return SubmittedJob(self._server, submission.text, folder)

    def start(
        self,
        submission: SubmissionId,
        spec: JobSpec,
        module: str,
        variables: Mapping[str, str],
    ) -> SubmittedJob | None:
        """Submits a job; None if another submitter has started this very id."""
        told = JobEnvironment(submission.text, Path("/tmp/prx-runs") / submission.text, None)  # noqa: S108
        environment = {
            **self._runtime_env.get("env_vars", {}),
            **variables,
            **told.variables(),
            DAGSTER_PIPES_MESSAGES_ENV_VAR: encode_param(MARKED_LINES),
        }
        python = str(spec.tuning.get("python") or "python")
        body = {
            "submission_id": submission.text,
            "entrypoint": shlex.join([python, "-u", "-m", module]),
            "runtime_env": {**self._runtime_env, "env_vars": environment},
            "metadata": {"stage": spec.stage, "source": spec.source, "row_fp": spec.row_fp},
        }
        try:
            self._server.call("POST", "", body)
        except JobError as error:
            if "already exists" in error.what:
                return None
            raise
        return self.open(submission, spec)
