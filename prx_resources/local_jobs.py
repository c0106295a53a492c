"""Jobs as subprocesses of this machine, known by their run folders. Stdlib only.

A run folder `PRX_HOME/runs/<submission id>/` holds `spec.json`, `job.json` (process, identity),
`messages.jsonl`, `log.txt`, `progress.json` and, at the end, `result.json`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dagster_pipes import DAGSTER_PIPES_MESSAGES_ENV_VAR, PipesDefaultMessageWriter, encode_param

from prx_resources.contract import JobSpec
from prx_resources.environment import JobEnvironment, child_environment
from prx_resources.jobs import Found, JobState, SubmissionId, readable_tail
from prx_resources.messages import FileSource, MessageSource
from prx_resources.outcome import JobFailure, Outcome, read_json, write_json
from prx_resources.processes import Process, file_lock, spawn

_STOP_WAIT_S = 30.0
_LEAVE_WAIT_S = 60.0
_TAIL_BYTES = 64 * 1024


class LocalJob:
    """A job of this machine, running or not.

    Args:
        folder: Its run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name
        self.log_place = str(folder / "log.txt")

    @property
    def process(self) -> Process | None:
        """Its process, None where its submitter died before it had one."""
        data = read_json(self.folder / "job.json")
        return Process(data["pid"], data["started"]) if data else None

    def state(self) -> JobState:
        """Returns where the job stands; `result.json` decides, not an exit code."""
        process = self.process
        alive = process is not None and process.alive
        # Read after the process was seen dead, or a result written in between is missed.
        outcome = self.outcome()
        if alive and not (outcome and self._overdue()):
            return JobState.RUNNING
        return JobState.of(outcome)

    def _overdue(self) -> bool:
        written = (self.folder / "result.json").stat().st_mtime
        return time.time() - written > _LEAVE_WAIT_S

    def outcome(self) -> Outcome | None:
        """Returns what the job's `result.json` says, if there is one."""
        return Outcome.read(self.folder)

    def messages(self) -> MessageSource:
        """Returns the job's messages from the start."""
        return FileSource(self.folder / "messages.jsonl")

    def tail(self, lines: int = 15) -> str:
        """Returns the last lines of the job's log, without Ray's frames."""
        path = self.folder / "log.txt"
        if not path.exists():
            return ""
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return readable_tail(file.read().decode(errors="replace"), lines)

    def stop(self) -> None:
        """Ends the job: its own way first, so that leases are given back."""
        process = self.process
        if process is not None:
            process.end(_STOP_WAIT_S)
        if self.outcome() is None:
            # It was too early or too busy to say so itself.
            Outcome(failure=JobFailure.of_stop()).write(self.folder)


class LocalJobs:
    """Every job of one PRX_HOME.

    Args:
        home: PRX_HOME.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._runs = home / "runs"

    @contextlib.contextmanager
    def submitting(self, stage: str, source: str) -> Iterator[None]:
        """Lets one submitter at a time look for and start jobs of a stage and source."""
        with file_lock(self._runs / f".lock-{stage}-{source}"):
            yield

    def find(self, stage: str, source: str) -> list[Found]:
        """Returns every job there was of this stage and source."""
        return self._found(lambda job: (job.stage, job.source) == (stage, source))

    def live(self) -> list[Found]:
        """Returns the jobs that run now."""
        return [found for found in self._found(lambda _: True) if found.live]

    def _found(self, wanted: Callable[[SubmissionId], bool]) -> list[Found]:
        if not self._runs.is_dir():
            return []
        names = sorted(path.name for path in self._runs.iterdir() if path.is_dir())
        ids = [found for name in names if (found := SubmissionId.parse(name)) and wanted(found)]
        return [Found(i, LocalJob(self._runs / i.text).state() is JobState.RUNNING) for i in ids]

    def open(self, submission: SubmissionId, spec: JobSpec) -> LocalJob:  # noqa: ARG002
        """Returns the job with this id."""
        return LocalJob(self._runs / submission.text)

    def start(
        self, submission: SubmissionId, spec: JobSpec, module: str, variables: Mapping[str, str]
    ) -> LocalJob:
        """Starts a job.

        Args:
            submission: Its submission id; new.
            spec: What it is to do.
            module: Python module to run.
            variables: Pipes' bootstrap variables.
        """
        folder = self._runs / submission.text
        folder.mkdir(parents=True)
        write_json(folder / "spec.json", spec.to_json())
        messages = folder / "messages.jsonl"
        messages.touch()
        environment = {
            **variables,
            **JobEnvironment(submission.text, folder, self._home).variables(),
            DAGSTER_PIPES_MESSAGES_ENV_VAR: encode_param(
                {PipesDefaultMessageWriter.FILE_PATH_KEY: str(messages)}
            ),
        }
        python = spec.tuning.get("python") or sys.executable
        process = spawn(
            [python, "-u", "-m", module],
            folder / "log.txt",
            child_environment(environment),
            folder,
        )
        identity: dict[str, Any] = {
            **asdict(process),
            "stage": spec.stage,
            "source": spec.source,
            "fingerprint": spec.fingerprint,
            "row_fp": spec.row_fp,
        }
        try:
            write_json(folder / "job.json", identity)
        except BaseException:
            # A job that nobody can find would run beside its successor.
            process.end(_STOP_WAIT_S)
            raise
        return LocalJob(folder)
