"""What every kind of Ray job has in common: submission ids, states, handles. Stdlib only."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prx_resources.contract import JobSpec
from prx_resources.messages import MARK, MessageSource
from prx_resources.outcome import Outcome

_RAY_LINE = re.compile(r"ray::|[/\\](site-packages|python)[/\\]ray[/\\]|_raylet\.pyx")
_ID = re.compile(r"prx-(?P<stage>[a-z_]+)-(?P<source>[a-z0-9-]+)-(?P<fp>[0-9a-f]{16})-(?P<n>\d+)")


class JobState(enum.Enum):
    """Where a job stands."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @classmethod
    def of(cls, outcome: Outcome | None) -> JobState:
        """Returns the state of a job whose process is gone."""
        if outcome is None:
            return cls.LOST
        if outcome.failure is None:
            return cls.SUCCEEDED
        return cls.STOPPED if outcome.failure.stopped else cls.FAILED


@dataclass(frozen=True)
class SubmissionId:
    """`prx-<stage>-<source>-<fingerprint>-<n>`."""

    stage: str
    source: str
    fingerprint: str
    n: int

    @property
    def text(self) -> str:
        """The id as Ray and people see it."""
        return f"prx-{self.stage}-{self.source}-{self.fingerprint}-{self.n}"

    @classmethod
    def parse(cls, text: str) -> SubmissionId | None:
        """Returns the id that `text` spells, None if it isn't one of ours."""
        found = _ID.fullmatch(text)
        if found is None:
            return None
        return cls(found["stage"], found["source"], found["fp"], int(found["n"]))


@dataclass(frozen=True)
class Found:
    """A job that was looked up.

    Attributes:
        id: Its submission id.
        live: Whether it is running or about to.
    """

    id: SubmissionId
    live: bool


class JobHandle(Protocol):
    """One job, whoever started it."""

    id: str
    folder: Path
    log_place: str

    def state(self) -> JobState:
        """Returns where the job stands.

        Raises:
            ClusterUnreachable: It can't be told now.
        """
        ...

    def outcome(self) -> Outcome | None:
        """Returns how the job ended, if it said so."""
        ...

    def messages(self) -> MessageSource:
        """Returns the job's messages from the start."""
        ...

    def tail(self, lines: int = 15) -> str:
        """Returns the last lines of the job's log, without Ray's frames."""
        ...

    def stop(self) -> None:
        """Ends the job and waits for its end."""
        ...


class Backend(Protocol):
    """Where jobs run."""

    def submitting(self, stage: str, source: str) -> AbstractContextManager[None]:
        """Lets one submitter at a time look for and start jobs, as far as it can."""
        ...

    def find(self, stage: str, source: str) -> list[Found]:
        """Returns every job there was of this stage and source."""
        ...

    def live(self) -> list[Found]:
        """Returns the jobs that run now."""
        ...

    def open(self, submission: SubmissionId, spec: JobSpec) -> JobHandle:
        """Returns the job with this id."""
        ...

    def start(
        self, submission: SubmissionId, spec: JobSpec, module: str, variables: Mapping[str, str]
    ) -> JobHandle | None:
        """Starts a job; None if another submitter has started this very id."""
        ...


def readable_tail(log: str, lines: int) -> str:
    """Returns the last `lines` of a job's log without messages and without Ray's frames."""
    kept: list[str] = []
    in_ray_frame = False
    for line in log.splitlines():
        # A frame's source lines are indented deeper than its "File" line.
        in_ray_frame = in_ray_frame and line.startswith("    ")
        if _RAY_LINE.search(line):
            in_ray_frame = True
        elif not in_ray_frame and MARK not in line and line.strip():
            kept.append(line.rstrip())
    return "\n".join(kept[-lines:])
