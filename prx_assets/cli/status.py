"""`prx status`: where every source stands at every stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from prx_assets.cli import output
from prx_assets.cli.workspace import Workspace
from prx_resources.contract import ALL_SOURCES

_MOST_COLUMNS = 6


@click.command()
@click.pass_context
def status(context: click.Context) -> None:
    """Show each source's state at each stage, and what to type next.

    done, stale, missing, running, failed, blocked, waiting (due, but its lane is off).
    """
    workspace: Workspace = context.obj["workspace"]
    sources = workspace.catalog.names()
    with workspace.instance() as instance:
        from prx_assets import explain
        from prx_assets.automation import lanes_off

        defs = workspace.definitions()
        cells = explain.matrix(defs, instance, sources, lanes_off(instance, workspace.settings))
        per_source, over_all = explain.stages(defs)
        following = explain.next_command(cells, sources)
    states = {(cell.stage, cell.source): cell.state for cell in cells}
    text = _matrix(states, per_source, sources) if sources else "no sources yet"
    text += "\n\n" + output.table(
        ("over all sources", "state"), [(stage, states[stage, ALL_SOURCES]) for stage in over_all]
    )
    seen = sorted({cell.state for cell in cells} - {"done"})
    text += "".join(f"\n  {state}: {explain.MEANING[state]}" for state in seen)
    output.emit(
        {"cells": [asdict(cell) for cell in cells], "next": following},
        text,
        next_command=following,
    )


def _matrix(
    states: Mapping[tuple[str, str], str], stages: Sequence[str], sources: Sequence[str]
) -> str:
    """Returns the table; the longer list goes down, so that it fits a terminal."""
    if len(sources) > _MOST_COLUMNS:
        rows = [(source, *(states[stage, source] for stage in stages)) for source in sources]
        return output.table(("source", *stages), rows)
    rows = [(stage, *(states[stage, source] for source in sources)) for stage in stages]
    return output.table(("stage", *sources), rows)
