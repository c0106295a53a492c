"""`prx materialize`: the UI's Materialize button, typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from prx_assets.cli import output
from prx_assets.cli.workspace import Workspace
from prx_resources.contract import ALL_SOURCES
from prx_resources.errors import JobFailed, UnknownError, UsageError
from prx_resources.strict_yaml import did_you_mean

if TYPE_CHECKING:
    import dagster as dg

    from prx_assets.explain import Cell


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
        seconds: What the step took.
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


@click.command()
@click.argument("assets", nargs=-1)
@click.option("--source", "-s", "sources", multiple=True, help="Source (repeatable); default: all.")
@click.option("--missing", is_flag=True, help="Only what was never made.")
@click.option("--stale", is_flag=True, help="Only what is missing or out of date.")
@click.option("--failed", is_flag=True, help="Only what failed last time.")
@click.option("--retry-failed", multiple=True, metavar="REASON", help="Try rows of REASON again.")
@click.option("--redo", is_flag=True, help="Recompute rows made under other settings.")
@click.pass_context
def materialize(
    context: click.Context,
    assets: tuple[str, ...],
    sources: tuple[str, ...],
    missing: bool,
    stale: bool,
    failed: bool,
    retry_failed: tuple[str, ...],
    redo: bool,
) -> None:
    """Run ASSETs (default: all stages) for sources, one run per source, then the global ones."""
    if missing + stale + failed > 1:
        raise UsageError(
            "--missing, --stale and --failed exclude each other",
            where="prx materialize",
            fix="give one of them",
        )
    workspace: Workspace = context.obj["workspace"]
    known = workspace.catalog.names()
    for name in sources:
        workspace.catalog.load(name)
    wanted = {"missing": missing, "stale": stale, "failed": failed}
    only = next((state for state, on in wanted.items() if on), None)
    lines = run_stages(
        workspace,
        assets,
        sources or tuple(known),
        only=only,
        with_global=not sources,
        config={"redo": redo, "retry_failed": list(retry_failed)},
        say=lambda line: None if output.wants_json() else click.echo(str(line)),
    )
    output.emit(
        [asdict(line) for line in lines],
        "" if lines else "nothing to do",
        next_command="prx status",
    )


def run_stages(
    workspace: Workspace,
    assets: Sequence[str],
    sources: Sequence[str],
    *,
    only: str | None = None,
    with_global: bool = True,
    config: dict[str, Any] | None = None,
    say: Any = None,
) -> list[StageLine]:
    """Materializes stages in this process, as the UI would: one run per source, then global.

    Args:
        workspace: Where.
        assets: Names; empty for all.
        sources: Names of catalogued sources.
        only: `missing`, `stale` or `failed`: run only what is in that state.
        with_global: Whether an empty `assets` includes the global stages.
        config: The launchpad's config for every stage.
        say: Called with each finished stage's line.

    Raises:
        UnknownError: No such asset.
        JobFailed: A run failed; its error is the run's.
    """
    with workspace.instance() as instance:
        from prx_assets import explain

        defs = workspace.definitions()

        per_source, over_all = explain.stages(defs)
        _check_assets(assets, [*per_source, *over_all])
        chosen = list(assets) or [*per_source, *(over_all if with_global else [])]
        cells = explain.matrix(defs, instance, sources) if only else []
        lines: list[StageLine] = []
        if any(stage in per_source for stage in chosen) and not sources:
            raise UnknownError(
                "there is no source to run stages for",
                where="catalog",
                fix="add one: prx source add NAME --folder PATH",
            )
        for source in (*sources, ALL_SOURCES):
            stages = over_all if source == ALL_SOURCES else per_source
            picked = [stage for stage in stages if stage in chosen]
            if only:
                picked = [stage for stage in picked if _in_state(cells, stage, source, only)]
            if picked:
                lines += _run(defs, instance, picked, source, config or {}, say)
        return lines


def _check_assets(assets: Sequence[str], known: Sequence[str]) -> None:
    for name in assets:
        if name not in known:
            raise UnknownError(
                f"no asset {name!r}", where="prx materialize", fix=did_you_mean(name, known)
            )


def _in_state(cells: Sequence[Cell], stage: str, source: str, only: str) -> bool:
    state = next((c.state for c in cells if (c.stage, c.source) == (stage, source)), None)
    # Behind something missing, a blocked stage is missing too: it runs in the same run.
    return state == only or (
        state in {"missing": ("blocked",), "stale": ("missing", "blocked"), "failed": ()}[only]
    )


def _run(
    defs: dg.Definitions,
    instance: dg.DagsterInstance,
    stages: Sequence[str],
    source: str,
    config: dict[str, Any],
    say: Any,
) -> list[StageLine]:
    import dagster as dg
    from dagster._core.utils import make_new_run_id

    lines: list[StageLine] = []

    def hear(entry: dg.EventLogEntry) -> None:
        event = entry.dagster_event
        if event is not None and event.is_step_materialization:
            lines.append(_line(event, source))
            if say:
                say(lines[-1])

    run_id = make_new_run_id()
    instance.add_event_listener(run_id, hear)
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        run_id=run_id,
        run_config={"ops": {stage: {"config": config} for stage in stages}},
        partition_key=None if source == ALL_SOURCES else source,
        asset_selection=[dg.AssetKey(stage) for stage in stages],
        tags={"prx/started_by": "prx materialize"},
        raise_on_error=False,
    )
    if not result.success:
        raise _failure(result, source)
    return lines


def _line(event: dg.DagsterEvent, source: str) -> StageLine:
    made = event.step_materialization_data.materialization
    value: dict[str, Any] = {key: entry.value for key, entry in made.metadata.items()}
    return StageLine(
        stage=made.asset_key.to_user_string(),
        source=source,
        done=int(value.get("rows_done_now", 0)),
        rows_in=int(value.get("rows_in", 0)),
        rows_out=int(value.get("rows_out", 0)),
        set_aside=dict(value.get("set_aside") or {}),
        seconds=float(value.get("seconds", 0.0)),
    )


def _failure(result: Any, source: str) -> JobFailed:
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            message = data.user_failure_data.description if data.user_failure_data else None
            text = message or (data.error.message if data.error else "the step failed")
            return JobFailed(
                text.strip().split("\n")[0],
                where=f"{event.step_key} of {source}, run {result.run_id[:8]}",
                fix=f"prx materialize {event.step_key}"
                + ("" if source == ALL_SOURCES else f" --source {source}")
                + " after mending what it says",
            )
    return JobFailed("the run failed", where=f"{source}, run {result.run_id}", fix="prx dev")
