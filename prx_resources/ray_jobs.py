"""The Dagster resource that starts a stage's job, or attaches to the one that runs already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from prx_resources import keeper
from prx_resources.contract import JobSpec
from prx_resources.environment import prx_home
from prx_resources.errors import BusyError, JobError, UsageError
from prx_resources.jobs import Backend, Found, JobHandle, SubmissionId
from prx_resources.local_jobs import LocalJobs
from prx_resources.ray_rest import JobServer, SubmittedJobs

_TRIES = 5


@dataclass(frozen=True)
class Submission:
    """The job that does a spec's work.

    Attributes:
        job: The job.
        attached: Whether it was there already.
    """

    job: JobHandle
    attached: bool


class RayJobs(dg.ConfigurableResource[Any]):
    """Starts jobs, attaches to running ones, refuses a second identity beside a running one.

    Attributes:
        backend: `local`: subprocesses on this machine beside the keeper's Ray; `submission`: a
            Ray cluster's job server.
        home: PRX_HOME; empty for the environment's.
        address: The job server, `http://HOST:8265` (`submission` only).
        token_path: File with the cluster's token, empty where token authentication is off.
        runtime_env: Ray's runtime environment for every job (`submission` only).
        stop_on_interrupt: Ctrl-C in the process that runs the step stops the job: for `prx
            materialize` and `prx demo`. Elsewhere only Terminate does.
    """

    backend: Literal["local", "submission"] = "local"
    home: str = ""
    address: str = ""
    token_path: str = ""
    runtime_env: dict[str, Any] = Field(default_factory=dict)
    stop_on_interrupt: bool = False

    @property
    def home_path(self) -> Path:
        """PRX_HOME."""
        return Path(self.home).absolute() if self.home else prx_home()

    def module(self, stage: str) -> str:
        """Returns the Python module that does a stage's work."""
        return f"prx_assets.{stage}.job"

    def submit_or_attach(self, spec: JobSpec, variables: Mapping[str, str]) -> Submission:
        """Starts the job for `spec`, or returns the one that is at it.

        Args:
            spec: What is to be done.
            variables: Pipes' bootstrap variables for a new job.

        Raises:
            BusyError: A job with another fingerprint works on this stage and source.
            ClusterUnreachable: The job server doesn't answer.
        """
        backend = self._backend()
        with backend.submitting(spec.stage, spec.source):
            for _ in range(_TRIES):
                found = backend.find(spec.stage, spec.source)
                live = [job for job in found if job.live]
                for job in live:
                    if job.id.fingerprint == spec.fingerprint:
                        return Submission(backend.open(job.id, spec), attached=True)
                if live:
                    raise self._busy(spec, live[0])
                started = backend.start(
                    self._next_id(spec, found), spec, self.module(spec.stage), variables
                )
                if started is not None:
                    return Submission(started, attached=False)
        raise JobError("other submitters keep starting and ending this very job", where=spec.stage)

    def live_jobs(self) -> list[SubmissionId]:
        """Returns the ids of our jobs that run now."""
        return [found.id for found in self._backend().live()]

    def stop_job(self, submission: SubmissionId) -> None:
        """Ends a job; finished chunks stay."""
        self._backend().open(submission, JobSpec(submission.stage, submission.source, "")).stop()

    def stop_all(self) -> list[SubmissionId]:
        """Ends every running job of ours and, for `local`, the keeper; returns the jobs' ids."""
        stopped = self.live_jobs()
        for job in stopped:
            self.stop_job(job)
        if self.backend == "local":
            keeper.stop(self.home_path)
        return stopped

    def _backend(self) -> Backend:
        if self.backend == "local":
            return LocalJobs(self.home_path)
        if not self.address:
            raise UsageError(
                "the submission backend has no job server's address",
                fix="set `ray.address: http://HOST:8265` in settings.yaml",
            )
        token = Path(self.token_path).read_text().strip() if self.token_path else None
        server = JobServer(self.address, token)
        return SubmittedJobs(server, self.home_path, self.runtime_env)

    def _next_id(self, spec: JobSpec, found: list[Found]) -> SubmissionId:
        used = [job.id.n for job in found if job.id.fingerprint == spec.fingerprint]
        return SubmissionId(spec.stage, spec.source, spec.fingerprint, max(used, default=0) + 1)

    def _busy(self, spec: JobSpec, other: Found) -> BusyError:
        return BusyError(
            f"another {spec.stage} job with other settings works on {spec.source}",
            where=other.id.text,
            fix="wait for it, or press Terminate on its run, then run this again",
        )
