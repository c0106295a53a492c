"""`prx materialize`: the UI's Materialize button, typed."""

from __future__ import annotations

from dataclasses import asdict

import click

from prx_assets.cli import output
from prx_assets.cli.runs import StageLine, run_stages
from prx_assets.cli.selection import Request
from prx_assets.cli.workspace import Workspace
from prx_resources.errors import UsageError


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
    request = Request(
        assets,
        sources or tuple(known),
        only=only,
        with_global=not sources,
        config={"redo": redo, "retry_failed": list(retry_failed)},
    )
    lines = run_stages(workspace, request, _say, output.note)
    output.emit(
        [asdict(line) for line in lines],
        "" if lines else "nothing to do",
        next_command="prx status",
    )


def _say(line: StageLine) -> None:
    if not output.wants_json():
        click.echo(str(line))
