"""Where every source stands at every stage, in one word each, and the one command to type next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.partition_status_cache import AssetPartitionStatus

from prx_assets.partitions import SOURCES
from prx_resources.contract import ALL_SOURCES

State = Literal["done", "stale", "missing", "running", "failed", "blocked", "waiting"]
_UNFINISHED = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
MEANING: Mapping[State, str] = {
    "done": "up to date",
    "stale": "an input or the identity changed since",
    "missing": "never made",
    "running": "a run is at it",
    "failed": "the last run failed",
    "blocked": "an earlier stage isn't done",
    "waiting": "due, but its lane is switched off",
}


@dataclass(frozen=True)
class Cell:
    """One stage of one source.

    Attributes:
        stage: Asset's name.
        source: Source's name, `ALL_SOURCES` for a global stage.
        state: Where it stands.
    """

    stage: str
    source: str
    state: State


def stages(definitions: dg.Definitions) -> tuple[list[str], list[str]]:
    """Returns the names of the per-source and of the global stages, upstream first."""
    graph = definitions.resolve_asset_graph()
    names = [key for key in graph.toposorted_asset_keys if graph.get(key).is_materializable]
    per_source = [key.to_user_string() for key in names if graph.get(key).is_partitioned]
    return per_source, [key.to_user_string() for key in names if not graph.get(key).is_partitioned]


def matrix(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    sources: Sequence[str],
    lanes_off: Sequence[str] = (),
) -> list[Cell]:
    """Returns the state of every stage of every source, then of the global stages.

    Args:
        definitions: The code location.
        instance: Its Dagster instance.
        sources: Names of the catalogued sources.
        lanes_off: Stages whose automation lane is switched off.
    """
    graph = definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    running = _running(instance)
    per_source, over_all = stages(definitions)
    cells: dict[tuple[str, str], Cell] = {}

    def upstream_done(stage: str, source: str) -> bool:
        parents = graph.get(dg.AssetKey(stage)).parent_keys
        states = [
            cell.state
            for parent in parents
            for cell in cells.values()
            if cell.stage == parent.to_user_string() and source in (cell.source, ALL_SOURCES)
        ]
        return all(state in ("done", "stale") for state in states)

    def judge(stage: str, source: str, recorded: AssetPartitionStatus | None) -> State:
        partition = None if source == ALL_SOURCES else source
        if (stage, source) in running:
            return "running"
        if recorded is AssetPartitionStatus.FAILED:
            # A stage that a failed run had planned after the culprit counts as failed too.
            return "failed" if upstream_done(stage, source) else "blocked"
        if recorded is AssetPartitionStatus.MATERIALIZED:
            status = resolver.get_status(dg.AssetKey(stage), partition)
            if status is StaleStatus.FRESH and not _outside_changed(instance, graph, stage, source):
                return "done"
        if stage in lanes_off:
            return "waiting"
        if recorded is AssetPartitionStatus.MATERIALIZED:
            return "stale"
        return "missing" if upstream_done(stage, source) else "blocked"

    for stage in per_source:
        recorded = _recorded(instance, stage, sources)
        for source in sources:
            cells[stage, source] = Cell(stage, source, judge(stage, source, recorded.get(source)))
    for stage in over_all:
        last = _last_global(instance, stage)
        cells[stage, ALL_SOURCES] = Cell(stage, ALL_SOURCES, judge(stage, ALL_SOURCES, last))
    return list(cells.values())


def next_command(cells: Sequence[Cell], sources: Sequence[str]) -> str:
    """Returns the one command that brings things forward most."""
    if not sources:
        return "prx source add NAME --folder PATH"
    for cell in cells:
        if cell.state == "failed":
            where = "" if cell.source == ALL_SOURCES else f" --source {cell.source}"
            return f"prx materialize {cell.stage}{where} --failed"
    for source in sources:
        due = [cell for cell in cells if cell.source == source and cell.state != "done"]
        if any(cell.state in ("missing", "stale", "waiting", "blocked") for cell in due):
            return f"prx materialize --source {source}"
    behind = [c.stage for c in cells if c.source == ALL_SOURCES and c.state != "done"]
    if behind:
        return f"prx materialize {' '.join(behind)}"
    return "prx dev"


def _outside_changed(
    instance: dg.DagsterInstance, graph: BaseAssetGraph[Any], stage: str, source: str
) -> bool:
    """Tells whether an external partition (a source's files) changed since a stage read it.

    Dagster's own staleness looks only for observations of external assets, and those would
    request nothing.
    """
    outside = [
        key
        for key in graph.get(dg.AssetKey(stage)).parent_keys
        if graph.get(key).is_external and graph.get(key).is_partitioned
    ]
    if not outside:
        return False
    made = _latest(instance, dg.AssetKey(stage), source)
    tags = (made.asset_materialization.tags or {}) if made and made.asset_materialization else {}
    for key in outside:
        seen = tags.get(f"dagster/input_event_pointer/{key.to_user_string()}", "")
        latest = _latest(instance, key, source)
        if latest is not None and (not seen.isdigit() or latest.storage_id > int(seen)):
            return True
    return False


def _latest(
    instance: dg.DagsterInstance, key: dg.AssetKey, source: str
) -> dg.EventLogRecord | None:
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[source])
    records = instance.fetch_materializations(wanted, limit=1).records
    return records[0] if records else None


def _recorded(
    instance: dg.DagsterInstance, stage: str, sources: Sequence[str]
) -> Mapping[str, AssetPartitionStatus | None]:
    if not sources:
        return {}
    found = instance.get_status_by_partition(dg.AssetKey(stage), list(sources), SOURCES)
    return found or {}


def _last_global(instance: dg.DagsterInstance, stage: str) -> AssetPartitionStatus | None:
    records = instance.get_asset_records([dg.AssetKey(stage)])
    if not records:
        return None
    entry = records[0].asset_entry
    made = entry.last_materialization
    # `last_run_id` is the last run that planned to make the asset, whether or not it did.
    run = instance.get_run_by_id(entry.last_run_id) if entry.last_run_id else None
    if (
        run
        and run.status is dg.DagsterRunStatus.FAILURE
        and (not made or made.run_id != run.run_id)
    ):
        return AssetPartitionStatus.FAILED
    return AssetPartitionStatus.MATERIALIZED if made else None


def _running(instance: dg.DagsterInstance) -> set[tuple[str, str]]:
    found = set()
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=list(_UNFINISHED))):
        source = run.tags.get("dagster/partition") or ALL_SOURCES
        for key in run.asset_selection or ():
            found.update({(key.to_user_string(), source), (key.to_user_string(), ALL_SOURCES)})
    return found
