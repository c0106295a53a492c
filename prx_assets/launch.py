"""Where an asset and its job meet: start or attach, follow, report, stop when told to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import dagster as dg
from dagster_pipes import PipesParams

from prx_assets.follow import Follower, terminating
from prx_resources.contract import JobSpec
from prx_resources.errors import JobError, PrxError, StoreRefused
from prx_resources.jobs import JobHandle, JobState
from prx_resources.object_store import disk_full
from prx_resources.outcome import JobFailure, Outcome
from prx_resources.ray_jobs import RayJobs

_LEAST_FREE_BYTES = 1 << 20


def launch(
    context: dg.AssetExecutionContext, spec: JobSpec, ray_jobs: RayJobs
) -> dg.MaterializeResult[Any]:
    """Has a job do an asset's work and returns what it reported.

    If a job of the same fingerprint runs already, this follows that one. The job is stopped only
    when the run is being terminated, or at Ctrl-C where `ray_jobs.stop_on_interrupt` says so;
    however else this process ends, the job goes on and the next run attaches.

    Args:
        context: The asset's.
        spec: What is to be done.
        ray_jobs: Where.

    Raises:
        dg.Failure: The job failed or was refused; the message starts with the user's exception.
    """
    reader = _Reader()
    with dg.open_pipes_session(
        context=context,
        context_injector=dg.PipesEnvContextInjector(),
        message_reader=reader,
        extras={"spec": spec.to_json()},
    ) as session:
        follower = None
        try:
            submission = ray_jobs.submit_or_attach(spec, session.get_bootstrap_env_vars())
            follower = Follower(context, submission, session.message_handler)
            state = follower.follow()
            outcome = follower.deliver()
        except PrxError as error:
            raise _refused(error) from None
        except OSError as error:
            if not disk_full(error):
                raise
            raise _refused(_full(str(error.filename or ""))) from None
        except BaseException as error:
            _interrupted(context, follower, ray_jobs, spec, error)
            raise
    if outcome is None or outcome.result is None:
        _fail(submission.job, state, outcome)
    return _result(session)


class _Reader(dg.PipesMessageReader):
    """Lets the step feed the session itself: a job's messages outlive any one session."""

    @contextmanager
    def read_messages(self, handler: Any) -> Iterator[PipesParams]:  # noqa: ARG002
        yield {}

    @property
    def expected_writer_count(self) -> int:
        # Dagster's own property warns that it is a preview.
        return 1

    def no_messages_debug_text(self) -> str:
        return "Messages come from the job's run folder or log."


def _result(session: dg.PipesSession) -> dg.MaterializeResult[Any]:
    results = session.get_results(implicit_materializations=False)
    [materialized] = [r for r in results if isinstance(r, dg.MaterializeResult)]
    checks = [_with_description(r) for r in results if isinstance(r, dg.AssetCheckResult)]
    return materialized._replace(check_results=checks)


def _with_description(check: dg.AssetCheckResult) -> dg.AssetCheckResult:
    metadata = dict(check.metadata)
    description = metadata.pop("description", None)
    return dg.AssetCheckResult(
        passed=check.passed,
        asset_key=check.asset_key,
        check_name=check.check_name,
        severity=check.severity,
        metadata=metadata,
        description=str(description.value) if description and description.value else None,
    )


def _interrupted(
    context: dg.AssetExecutionContext,
    follower: Follower | None,
    ray_jobs: RayJobs,
    spec: JobSpec,
    error: BaseException,
) -> None:
    by_hand = ray_jobs.stop_on_interrupt and isinstance(
        error, KeyboardInterrupt | dg.DagsterExecutionInterruptedError
    )
    if not by_hand and not terminating(context):
        return
    if follower is not None:
        follower.stop("Ctrl-C" if by_hand else "the run is being terminated")
        return
    # The interrupt came while the job was being submitted: it may be there or not.
    for job in ray_jobs.live_jobs():
        if (job.stage, job.source, job.fingerprint) == (
            spec.stage,
            spec.source,
            spec.fingerprint,
        ):
            ray_jobs.stop_job(job)


def _refused(error: PrxError) -> dg.Failure:
    text = f"{type(error).__name__}: {error}"
    return dg.Failure(text, allow_retries=isinstance(error, JobError))


def _full(place: str) -> StoreRefused:
    return StoreRefused(
        "the disk is full; what was finished before is kept",
        where=place,
        fix="free some space, then run it again",
    )


def _has_no_room(folder: Path) -> bool:
    return folder.exists() and shutil.disk_usage(folder).free < _LEAST_FREE_BYTES


def _fail(job: JobHandle, state: JobState, outcome: Outcome | None) -> NoReturn:
    failure = outcome.failure if outcome else None
    if failure is None and state is JobState.STOPPED:
        failure = JobFailure.of_stop()
    if failure is None and _has_no_room(job.folder):
        # Then the job can't leave a result either.
        failure = JobFailure.of(_full(str(job.folder)))
    if failure is None:
        failure = JobFailure(
            "JobLost",
            "the job's process is gone without a result",
            job.id,
            "read the log, then run it again: finished chunks are kept; where the log just stops,"
            " memory is the usual reason",
        )
    try:
        tail = job.tail()
    except JobError as error:
        tail = str(error)
    said = "\n".join(f"  {line}" for line in tail.splitlines())
    raise dg.Failure(
        f"{failure}\nlast lines of job {job.id} ({job.log_place}):\n{said}",
        metadata={"job": job.id, "log": job.log_place, "run_folder": str(job.folder)},
        allow_retries=state is JobState.LOST,
    )
