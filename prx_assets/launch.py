"""Where an asset and its job meet: start or attach, follow, report, stop when told to."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import dagster as dg
from dagster_pipes import PipesParams

from prx_assets.runtime import progress_line
from prx_resources.contract import JobSpec, Meta
from prx_resources.errors import ClusterUnreachable, JobError, PrxError
from prx_resources.jobs import JobHandle, JobState
from prx_resources.messages import PROGRESS, RESULT, compact, custom, pipes_metadata
from prx_resources.outcome import JobFailure, Outcome
from prx_resources.ray_jobs import RayJobs, Submission

_LOG_PROGRESS_EVERY_S = 10.0
_ASK_STATUS_EVERY_S = 3.0
_FASTEST_POLL_S, _SLOWEST_POLL_S = 0.1, 1.0
_POLL_ERRORS = 20
_STOPPING = (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED)


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
            follower = _Follower(context, submission, session.message_handler)
            state = follower.follow()
            outcome = follower.deliver(state)
        except PrxError as error:
            raise _refused(error) from None
        except BaseException as error:
            _interrupted(context, follower, ray_jobs, error)
            raise
        finally:
            reader.close()
    if outcome is None or outcome.result is None:
        _fail(submission.job, state, outcome)
    return _result(context, session)


class _Reader(dg.PipesMessageReader):
    """Lets the step feed the session itself: a job's messages outlive any one session."""

    _handler: Any = None

    @contextmanager
    def read_messages(self, handler: Any) -> Iterator[PipesParams]:
        self._handler = handler
        yield {}

    def close(self) -> None:
        """Opens and closes the session for a job that didn't, which would only warn of it."""
        if not self._handler.received_opened_message:
            self._handler._opened_count = 1
        if not self._handler.received_closed_message:
            self._handler.handle_message({"method": "closed", "params": {}})

    def no_messages_debug_text(self) -> str:
        return "Messages come from the job's run folder or log."


class _Follower:
    """Follows one job to its end.

    Args:
        context: The asset's.
        submission: The job.
        handler: The Pipes session's.
    """

    def __init__(
        self, context: dg.AssetExecutionContext, submission: Submission, handler: Any
    ) -> None:
        self._context = context
        self.job = submission.job
        self._handler = handler
        self._messages = submission.job.messages()
        self._held: list[dict[str, Any]] = []
        self._note = f"attached to job {self.job.id}" if submission.attached else ""
        self._progress: dict[str, float] | None = None
        self._logged_at = time.monotonic()
        self._logged: dict[str, float] | None = None
        self._line = _LiveLine()
        self._slow_until = 0.0

    def follow(self) -> JobState:
        """Returns the job's final state.

        Raises:
            ClusterUnreachable: 20 polls in a row got no answer.
        """
        errors, wait = 0, _FASTEST_POLL_S
        asked = time.monotonic()
        while True:
            try:
                state = self.job.state()
                if state is not JobState.RUNNING:
                    self._read(final=True)
                    self._log_progress(final=True)
                    return state
                self._read()
                errors = 0
            except ClusterUnreachable:
                errors += 1
                if errors >= _POLL_ERRORS:
                    raise
            self._log_progress()
            now = time.monotonic()
            if now - asked > _ASK_STATUS_EVERY_S:
                asked = now
                if _terminating(self._context):
                    self.stop("the run is being terminated")
            time.sleep(wait)
            wait = min(wait * 1.3, _SLOWEST_POLL_S)

    def stop(self, why: str) -> None:
        """Stops the job and says what stays."""
        self._line.end()
        self._context.log.info(f"{why}: stopping job {self.job.id}")
        self.job.stop()
        self._context.log.info(
            f"job {self.job.id} is stopped; finished chunks are kept and the next run goes on"
        )

    def deliver(self, state: JobState) -> Outcome | None:
        """Returns how the job ended, and reports its result where its messages were lost."""
        self._line.end()
        outcome = self.job.outcome()
        reported = self._handler.get_reported_results()
        lost = not any(isinstance(result, dg.MaterializeResult) for result in reported)
        if outcome and outcome.result and lost:
            self._context.log.info(
                f"the job's messages were lost; its result file is read ({state.value})"
            )
            for message in _as_messages(outcome, self._context.asset_key.to_user_string()):
                self._handler.handle_message(message)
        return outcome

    def _read(self, *, final: bool = False) -> None:
        now = time.monotonic()
        if now < self._slow_until and not final:
            return
        messages = compact(self._messages.poll())
        # A log is fetched whole: the longer it gets, the less often.
        self._slow_until = time.monotonic() + 10 * (time.monotonic() - now)
        for message in messages:
            self._handle(message)

    def _handle(self, message: dict[str, Any]) -> None:
        if progress := custom(message, PROGRESS):
            self._progress = progress
            self._line.show(progress_line(progress))
        elif custom(message, RESULT) is None:
            if message["method"] == "opened":
                # Pipes logs a line of its own at this; the plan is to be the first.
                self._held = [message]
                return
            self._line.end()
            self._handler.handle_message(message)
            for held in self._held:
                self._handler.handle_message(held)
            self._held = []
            if self._note and message["method"] == "log":
                self._context.log.info(self._note)
                self._note = ""

    def _log_progress(self, *, final: bool = False) -> None:
        if self._progress is None or self._progress == self._logged:
            return
        if final or time.monotonic() - self._logged_at >= _LOG_PROGRESS_EVERY_S:
            self._line.end()
            self._context.log.info(progress_line(self._progress))
            self._logged, self._logged_at = self._progress, time.monotonic()


class _LiveLine:
    """One line of a terminal that is written over; nothing where stderr is a file."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._width = 0

    def show(self, text: str) -> None:
        if self._on:
            sys.stderr.write("\r" + text.ljust(self._width))
            sys.stderr.flush()
            self._width = len(text)

    def end(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0


def _as_messages(outcome: Outcome, asset_key: str) -> Iterator[dict[str, Any]]:
    result = outcome.result
    assert result is not None
    for check in result.checks:
        yield {
            "method": "report_asset_check",
            "params": {
                "asset_key": asset_key,
                "check_name": check.name,
                "passed": check.passed,
                "severity": "WARN" if check.warn else "ERROR",
                "metadata": pipes_metadata(
                    {"description": Meta(check.description, "text"), **check.metadata}
                ),
            },
        }
    yield {
        "method": "report_asset_materialization",
        "params": {
            "asset_key": asset_key,
            "metadata": pipes_metadata(result.metadata),
            "data_version": result.data_version,
        },
    }


def _result(
    context: dg.AssetExecutionContext, session: dg.PipesSession
) -> dg.MaterializeResult[Any]:
    results = session.get_results(implicit_materializations=False)
    [materialized] = [r for r in results if isinstance(r, dg.MaterializeResult)]
    selected = {key.name for key in context.selected_asset_check_keys}
    declared = {spec.name for spec in context.assets_def.check_specs}
    checks = [
        _with_description(check)
        for check in results
        if isinstance(check, dg.AssetCheckResult)
        # A check that the asset declares but this run leaves out may not be reported.
        and (check.check_name in selected or check.check_name not in declared)
    ]
    return cast("dg.MaterializeResult[Any]", materialized._replace(check_results=checks))


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


def _terminating(context: dg.AssetExecutionContext) -> bool:
    run = context.instance.get_run_by_id(context.run_id)
    return run is not None and run.status in _STOPPING


def _interrupted(
    context: dg.AssetExecutionContext,
    follower: _Follower | None,
    ray_jobs: RayJobs,
    error: BaseException,
) -> None:
    if follower is None:
        return
    by_hand = ray_jobs.stop_on_interrupt and isinstance(
        error, KeyboardInterrupt | dg.DagsterExecutionInterruptedError
    )
    if by_hand or _terminating(context):
        follower.stop("Ctrl-C" if by_hand else "the run is being terminated")


def _refused(error: PrxError) -> dg.Failure:
    text = f"{type(error).__name__}: {error}"
    return dg.Failure(text, allow_retries=isinstance(error, JobError))


def _fail(job: JobHandle, state: JobState, outcome: Outcome | None) -> NoReturn:
    failure = outcome.failure if outcome else None
    if failure is None and state is JobState.STOPPED:
        failure = JobFailure("Stopped", "the job was stopped; finished chunks are kept")
    if failure is None:
        failure = JobFailure(
            "JobLost",
            "the job's process is gone without a result",
            job.id,
            "run it again: finished chunks are kept; memory is the usual reason",
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
