"""`prx demo`: real photographs through every stage, with the result checked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict

import click

from prx_assets.cli import output
from prx_assets.cli.workspace import Workspace

SOURCES = ("snapshots", "archive", "crawl")
_MEASURED = """\
The captions are measured descriptions (colours, light, layout, lines of text), not a model's.
To plug in a model, name its class in {settings}:
  captions: {{engine: "your_package.module:Class", model: NAME}}"""


@click.command()
@click.option("--check", is_flag=True, help="Only compare a finished demo with planted.yaml.")
@click.pass_context
def demo(context: click.Context, check: bool) -> int:
    """Take 34 pictures in three sources through every stage and a data loader."""
    workspace: Workspace = context.obj["workspace"]
    if check:
        return _check(workspace)
    from prx_assets.demo.memory import PeakMemory
    from prx_assets.demo.run import run_demo
    from prx_resources import keeper

    def roots() -> Iterator[int]:
        cluster = keeper.running(workspace.home)
        if cluster is not None:
            yield cluster.pid

    started = time.monotonic()
    say = output.note if output.wants_json() else click.echo
    with PeakMemory(roots) as memory:
        made = run_demo(workspace, say)
        data = _figures(workspace)
    data |= {
        "stages": [asdict(line) for line in made.lines],
        "loaded": made.loaded,
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_gib": round(memory.peak_bytes / 1024**3, 2),
    }
    if not output.wants_json():
        click.echo(_report(workspace, data))
    return _check(workspace, data)


def _check(workspace: Workspace, data: dict[str, object] | None = None) -> int:
    from prx_assets.demo.check import differences

    found = differences(workspace.lake)
    lines = [f"{one.image}\n  planted: {one.planted}\n  found:   {one.found}" for one in found] or [
        "every image of the demo met its planted fate (prx_assets/demo/planted.yaml)"
    ]
    output.emit(
        {**(data or {}), "differences": [asdict(one) for one in found]},
        "\n".join(lines),
        next_command="prx dev   # the Dagster UI on the same data",
    )
    return 1 if found else 0


def _figures(workspace: Workspace) -> dict[str, object]:
    from prx_assets.demo import report

    lake = workspace.lake
    return {
        "sources": [asdict(report.figures(lake, source)) for source in SOURCES],
        "buckets": report.buckets(lake),
        "skipped": report.skipped(lake),
    }


def _report(workspace: Workspace, data: dict[str, object]) -> str:
    from prx_assets.demo import report

    lake = workspace.lake
    header = ("source", "rows", "usable", "captions", "labels", "duplicates", "set aside")
    rows = [
        (
            *(one.source, one.rows, one.usable, one.captions),
            *(_counts(one.labels), one.duplicates, _counts(one.set_aside)),
        )
        for one in (report.figures(lake, source) for source in SOURCES)
    ]
    loaded = data["loaded"]
    assert isinstance(loaded, dict)
    kept = sum(kept for _, _, kept in report.buckets(lake))
    unchanged = all(line["done"] == 0 for line in data["stages"])  # type: ignore[attr-defined]
    settings = workspace.home / "settings.yaml"
    return "\n".join(
        (
            "",
            output.table(header, rows),
            "",
            output.table(("bucket", "samples", "kept"), report.buckets(lake)),
            "",
            f"skipped: {_counts(report.skipped(lake))}",
            f"data loader: {loaded['samples']} samples in {loaded['batches']} batches, each of one"
            " bucket;",
            f"  of {kept} kept samples {loaded['configured']} are in buckets that fill a batch, and"
            " a bucket's incomplete last batch is dropped",
            f"{'nothing changed; ' if unchanged else ''}{data['seconds']} s, peak memory"
            f" {data['peak_memory_gib']} GiB (PSS of all processes)",
            "",
            _MEASURED.format(settings=settings),
            "",
        )
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "-"
