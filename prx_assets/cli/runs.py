"""Running stages in this process, as the UI would: one run per source, then the global ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prx_assets.cli.selection import Request, check_assets, in_order, in_state
from prx_assets.cli.workspace import Workspace
from prx_resources import errors
from prx_resources.contract import ALL_SOURCES
from prx_resources.errors import JobFailed, SourceReadError, UnknownError

if TYPE_CHECKING:
    import dagster as dg

Tell = Callable[[str], None]
_OF_DAGSTER = ("[pipes]", "Dependencies for step")
_INTERRUPTED = "DagsterExecutionInterruptedError"


@dataclass(frozen=True)
class StageLine:
    """What one stage of one run did.

    Attributes:
        stage: Asset's name.
        source: Source's name, `ALL_SOURCES` for a global stage.
        done: Rows computed now; 0 means unchanged.
        rows_in: Rows the stage is responsible for.
        rows_out: Rows with a good value.
        set_aside: Rows without one, by reason.
        seconds: What the step took, its job's start included.
    """

    stage: str
    source: str
    done: int
    rows_in: int
    rows_out: int
    set_aside: dict[str, int]
    seconds: float

    def __str__(self) -> str:
        what = f"{self.done:,} done" if self.done else "unchanged"
        aside = ", ".join(f"{count} {reason}" for reason, count in sorted(self.set_aside.items()))
        tail = f"; not: {aside}" if aside else ""
        return (
            f"{self.source:<12} {self.stage:<18} {what:<12} {self.rows_out:,} of {self.rows_in:,}"
            f" good{tail}  {self.seconds:.1f} s"
        )


def run_stages(
    workspace: Workspace,
    request: Request,
    say: Callable[[StageLine], None],
    remark: Tell | None = None,
) -> list[StageLine]:
    """Materializes stages in this process; a source that fails doesn't keep others from running.

    Args:
        workspace: Where.
        request: What.
        say: Called with each finished stage's line.
        remark: Called with what jobs tell about themselves: the plan, progress.

    Returns:
        The lines of all finished stages.

    Raises:
        UnknownError: No such asset, or no source.
        JobFailed: A run failed; the error is the first one's.
    """
    remark = remark or _silent
    with workspace.instance() as instance:
        from prx_assets import explain

        defs = workspace.definitions()
        per_source, over_all = explain.stages(defs)
        check_assets(request.assets, [*per_source, *over_all])
        chosen = list(request.assets)
        chosen = chosen or [*per_source, *(over_all if request.with_global else [])]
        if not request.sources and not set(chosen) <= set(over_all):
            raise UnknownError(
                "there is no source to run stages for",
                where="catalog",
                fix="add one: prx source add NAME --folder PATH",
            )
        _report_files(workspace, instance, request.sources, remark)
        cells = explain.matrix(defs, instance, request.sources) if request.only else []
        lines: list[StageLine] = []
        failures: list[JobFailed] = []
        for source in (*request.sources, ALL_SOURCES):
            stages = over_all if source == ALL_SOURCES else per_source
            picked = [stage for stage in stages if stage in chosen]
            if request.only:
                picked = [s for s in picked if in_state(cells, s, source, request.only)]
            try:
                for together in in_order(defs, picked):
                    run = _Run(defs, instance, source, say, remark)
                    lines += run.execute(together, request.config or {})
            except JobFailed as error:
                failures.append(error)
        for other in failures[1:]:
            remark(f"also failed: {other.what} ({other.where})\n  fix: {other.fix}")
        if failures:
            raise failures[0]
        return lines


def _silent(text: str) -> None:  # noqa: ARG001
    return


def _report_files(
    workspace: Workspace, instance: dg.DagsterInstance, sources: Sequence[str], remark: Tell
) -> None:
    """Tells Dagster each source's file list of now, as the sensor would in a minute."""
    from prx_assets.raw_images.listing import digest, list_files
    from prx_assets.source_files import report_source_files

    for source in sources:
        manifest = workspace.catalog.load(source)
        try:
            files = list_files(manifest.kind, manifest.uri, manifest.files, allow_empty=True)
        except SourceReadError as error:
            # The stage that needs the files will fail with this; others may still run.
            remark(str(error))
            continue
        report_source_files(instance, source, digest(files), len(files))


class _Run:
    def __init__(
        self,
        defs: dg.Definitions,
        instance: dg.DagsterInstance,
        source: str,
        say: Callable[[StageLine], None],
        remark: Tell,
    ) -> None:
        self._defs, self._instance, self._source = defs, instance, source
        self._say, self._remark = say, remark
        self._lines: list[StageLine] = []
        self._began = 0.0

    def execute(self, stages: Sequence[str], config: dict[str, Any]) -> list[StageLine]:
        import dagster as dg
        from dagster._core.utils import make_new_run_id

        run_id = make_new_run_id()
        self._instance.add_event_listener(run_id, self._hear)
        result = self._defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self._instance,
            run_id=run_id,
            run_config={
                "ops": {stage: {"config": config} for stage in stages},
                # Dagster's own lines are in the event log; the terminal shows ours.
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            partition_key=None if self._source == ALL_SOURCES else self._source,
            asset_selection=[dg.AssetKey(stage) for stage in stages],
            tags={"prx/started_by": "prx materialize"},
            raise_on_error=False,
        )
        if not result.success:
            error = _failure(result, self._source)
            if _INTERRUPTED in error.what:
                # Dagster makes a failed run of Ctrl-C; the step has stopped its job.
                raise KeyboardInterrupt
            raise error
        return self._lines

    def _hear(self, entry: dg.EventLogEntry) -> None:
        event = entry.dagster_event
        if event is None:
            if not entry.user_message.startswith(_OF_DAGSTER):
                self._remark(entry.user_message)
        elif event.is_step_start:
            self._began = entry.timestamp
        elif event.is_step_materialization:
            seconds = round(entry.timestamp - self._began, 1)
            self._lines.append(_line(event, self._source, seconds))
            self._say(self._lines[-1])


def _line(event: dg.DagsterEvent, source: str, seconds: float) -> StageLine:
    made = event.step_materialization_data.materialization
    value: dict[str, Any] = {key: entry.value for key, entry in made.metadata.items()}
    return StageLine(
        stage=made.asset_key.to_user_string(),
        source=source,
        done=int(value.get("rows_done_now", 0)),
        rows_in=int(value.get("rows_in", 0)),
        rows_out=int(value.get("rows_out", 0)),
        set_aside=dict(value.get("set_aside") or {}),
        seconds=seconds,
    )


def _failure(result: Any, source: str) -> JobFailed:
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            said = data.user_failure_data.description if data.user_failure_data else None
            said = said or (data.error.message if data.error else "") or "the step failed"
            first, *more = said.strip().splitlines()
            kind, _, what = first.partition(": ")
            # A refusal of ours says what it is; a foreign exception is known by its class.
            first = what if issubclass(getattr(errors, kind, int), errors.PrxError) else first
            fixes = [line.strip()[5:] for line in more[:1] if line.strip().startswith("fix: ")]
            again = f"prx materialize {event.step_key}"
            again += "" if source == ALL_SOURCES else f" --source {source}"
            return JobFailed(
                first,
                where=f"{event.step_key} of {source}, run {result.run_id[:8]}",
                fix=(fixes[0].strip() + "; then: " if fixes else "") + again,
            )
    return JobFailed("the run failed", where=f"{source}, run {result.run_id}", fix="prx dev")
