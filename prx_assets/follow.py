"""A step following its job: messages into the event log, progress, and the job's end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import dagster as dg

from prx_assets.runtime import progress_line
from prx_resources.contract import Meta
from prx_resources.errors import ClusterUnreachable
from prx_resources.jobs import JobState
from prx_resources.messages import PROGRESS, RESULT, compact, custom, pipes_metadata
from prx_resources.outcome import Outcome
from prx_resources.ray_jobs import Submission

_LOG_PROGRESS_EVERY_S = 10.0
_ASK_STATUS_EVERY_S = 3.0
_FASTEST_POLL_S, _SLOWEST_POLL_S = 0.1, 1.0
_POLL_ERRORS = 20
_STOPPING = (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED)


class Follower:
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
                if terminating(self._context):
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

    def deliver(self) -> Outcome | None:
        """Returns how the job ended, and reports its result where its messages were lost."""
        self._line.end()
        outcome = self.job.outcome()
        reported = self._handler.get_reported_results()
        lost = not any(isinstance(result, dg.MaterializeResult) for result in reported)
        if outcome and outcome.result and lost:
            self._context.log.info("the job's messages were lost; its result file is read")
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


def terminating(context: dg.AssetExecutionContext) -> bool:
    """Returns whether somebody pressed Terminate on the run."""
    run = context.instance.get_run_by_id(context.run.run_id)
    return run is not None and run.status in _STOPPING
