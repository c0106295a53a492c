"""The job side of an asset: spec in, progress and result out. Stdlib and dagster_pipes.

A stage's job module ends with `if __name__ == "__main__": run_job(STAGE, work)`.
"""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from dagster_pipes import DAGSTER_PIPES_CONTEXT_ENV_VAR, PipesContext, open_dagster_pipes

from prx_resources import environment, keeper
from prx_resources.contract import JobResult, JobSpec, Meta
from prx_resources.errors import PrxError, UsageError
from prx_resources.messages import PROGRESS, RESULT, MessageWriter, pipes_metadata
from prx_resources.outcome import JobFailure, Outcome, read_json, write_json

_MESSAGE_EVERY_S = 1.0
_PRINT_EVERY_S = 10.0


class Job:
    """What a stage's `work` function gets: its spec and its voice.

    Args:
        spec: What to do.
        run_dir: The run folder; exists.
        id: Submission id; the holder's name in leases and holds.
        home: PRX_HOME whose keeper runs the Ray to use; None inside a Ray cluster.
        pipes: Where messages to Dagster go, if there is a Dagster.
    """

    def __init__(
        self,
        spec: JobSpec,
        run_dir: Path,
        id: str = "by-hand",  # noqa: A002 (the design's name for it)
        *,
        home: Path | None = None,
        pipes: PipesContext | None = None,
    ) -> None:
        self.spec = spec
        self.run_dir = run_dir
        self.id = id
        self._home = home
        self._pipes = pipes
        self._started = time.monotonic()
        self._said = self._printed = 0.0

    def log(self, text: str) -> None:
        """Tells the person who watches the run."""
        print(text, flush=True)
        if self._pipes is not None:
            self._pipes.log.info(text)

    def plan(self, rows_due: int, identity: str, seconds: float | None = None) -> None:
        """Logs the run's first line: what is going to be done, by what, in which time.

        Args:
            rows_due: Rows (files, samples) to compute; 0 means nothing is due.
            identity: Model, engine or code version that makes the values.
            seconds: Estimated time, if known.
        """
        self._started = time.monotonic()
        estimate = "unknown" if seconds is None else _estimate(seconds)
        rows = f"{rows_due:,} {'row' if rows_due == 1 else 'rows'} due"
        takes = f", estimated time {estimate}" if rows_due else ""
        self.log(
            f"{self.spec.stage} of {self.spec.source}: {rows if rows_due else 'nothing due'}, by"
            f" {identity}{takes}; job {self.id}, run folder {self.run_dir}"
        )

    def progress(self, done: int, total: int) -> None:
        """Reports that `done` of `total` due rows are finished. Cheap: call it at every chunk."""
        now = time.monotonic()
        end = done >= total
        if now - self._said < _MESSAGE_EVERY_S and not end:
            return
        self._said = now
        elapsed = max(now - self._started, 1e-3)
        data = {"done": done, "total": total, "rate": done / elapsed, "seconds": elapsed}
        write_json(self.run_dir / "progress.json", data)
        if self._pipes is not None:
            self._pipes.report_custom_message({PROGRESS: data})
        if end or now - self._printed >= _PRINT_EVERY_S:
            self._printed = now
            print(progress_line(data), flush=True)

    def connect_ray(self) -> None:
        """Connects this process to Ray: the keeper's, started if need be, or the job's cluster."""
        if self._home is not None:
            # Before the import: Ray reads its authentication and network settings there.
            environment.export(environment.own_ray_variables(self._home))
        import ray

        if ray.is_initialized():
            return
        address = "auto" if self._home is None else keeper.ensure(self._home).address
        python = self.spec.tuning.get("python")
        ray.init(
            address=address,
            namespace=self.id,
            # Workers are the keeper's interpreter unless told otherwise.
            runtime_env={"py_executable": python} if python else None,
        )
        # Ray puts its own handler in place, which leaves no result behind.
        signal.signal(signal.SIGTERM, _stop)


def duration(seconds: float) -> str:
    """Returns a length of time as people say it: `45 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _estimate(seconds: float) -> str:
    # Starting workers alone takes longer than less work than that.
    return "a few seconds" if seconds < 10 else duration(seconds)


def progress_line(data: dict[str, float]) -> str:
    """Returns one progress report as a line: rows, rate, time left."""
    done, total, rate = int(data["done"]), int(data["total"]), data["rate"]
    line = f"{done:,} of {total:,} rows, {rate:,.1f} rows/s"
    if done >= total:
        return f"{line}, done in {duration(data['seconds'])}"
    return f"{line}, {duration((total - done) / rate) + ' left' if rate else 'no estimate yet'}"


def run_job(stage: str, work: Callable[[Job], JobResult]) -> None:
    """Runs a stage's work in this process and exits: 0 done, 1 failed or stopped.

    The spec comes from Dagster Pipes, else from the run folder's `spec.json`.

    Args:
        stage: Stage that this process is there for; another stage's spec is refused.
        work: Does it.
    """
    told = environment.job_environment() or environment.JobEnvironment(
        job_id="by-hand", run_dir=Path.cwd(), home=environment.prx_home()
    )
    told.run_dir.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _stop)
    with ExitStack() as stack:
        pipes = None
        if environment.variable(DAGSTER_PIPES_CONTEXT_ENV_VAR):
            pipes = stack.enter_context(open_dagster_pipes(message_writer=MessageWriter()))
        outcome = _outcome(stage, work, told, pipes)
        # The file comes first: a step that lost the messages still learns how the job ended.
        outcome.write(told.run_dir)
        if pipes is not None:
            _report(outcome, pipes)
    _leave(0 if outcome.result else 1)


def _outcome(
    stage: str,
    work: Callable[[Job], JobResult],
    told: environment.JobEnvironment,
    pipes: PipesContext | None,
) -> Outcome:
    started = time.monotonic()
    try:
        spec = _spec(stage, told.run_dir, pipes)
        result = work(Job(spec, told.run_dir, told.job_id, home=told.home, pipes=pipes))
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if not isinstance(error, PrxError | KeyboardInterrupt):
            traceback.print_exc()
        failure = JobFailure.of(error)
        print(f"error: {failure}", file=sys.stderr, flush=True)
        return Outcome(failure=failure)
    counts = {
        "rows_in": Meta(result.rows_in, "int"),
        "rows_out": Meta(result.rows_out, "int"),
        "rows_done_now": Meta(result.done, "int"),
        "set_aside": Meta(result.set_aside, "json"),
    }
    run = {
        "seconds": Meta(round(time.monotonic() - started, 1), "float"),
        "job": Meta(told.job_id, "text"),
    }
    return Outcome(result=replace(result, metadata={**counts, **result.metadata, **run}))


def _spec(stage: str, run_dir: Path, pipes: PipesContext | None) -> JobSpec:
    data = pipes.extras.get("spec") if pipes is not None else read_json(run_dir / "spec.json")
    if data is None:
        raise UsageError(
            "this process got no spec",
            where=str(run_dir),
            fix=f"start it with `prx materialize {stage} --source NAME`",
        )
    spec = JobSpec.from_json(data)
    if spec.stage != stage:
        raise UsageError(f"the {stage} job got a spec for {spec.stage}", where=str(run_dir))
    return spec


def _report(outcome: Outcome, pipes: PipesContext) -> None:
    pipes.report_custom_message({RESULT: outcome.to_json()})
    result = outcome.result
    if result is None:
        return
    for check in result.checks:
        pipes.report_asset_check(
            check.name,
            check.passed,
            "WARN" if check.warn else "ERROR",
            pipes_metadata({"description": Meta(check.description, "text"), **check.metadata}),
        )
    pipes.report_asset_materialization(pipes_metadata(result.metadata), result.data_version)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def _leave(code: int) -> None:
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
