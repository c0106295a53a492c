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

from prx_assets.partitions import PARTITION_TAG, SOURCES
from prx_resources.contract import ALL_SOURCES

State = Literal["done", "stale", "missing", "running", "failed", "blocked", "waiting"]
_UNFINISHED = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
_RUNS_LOOKED_AT = 50
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
    judge = _Judge(definitions, instance, frozenset(lanes_off))
    per_source, over_all = stages(definitions)
    for stage in per_source:
        recorded = _recorded(instance, stage, sources)
        for source in sources:
            judge.add(stage, source, recorded.get(source))
    for stage in over_all:
        judge.add(stage, ALL_SOURCES, _last_global(instance, stage))
    return judge.cells


class _Judge:
    """Decides cell by cell, upstream first."""

    def __init__(
        self, definitions: dg.Definitions, instance: dg.DagsterInstance, lanes_off: frozenset[str]
    ) -> None:
        self._graph = definitions.resolve_asset_graph()
        self._instance = instance
        self._lanes_off = lanes_off
        self._resolver = CachingStaleStatusResolver(
            instance, self._graph, LoadingContextForTest(instance)
        )
        self._running = _running(instance)
        self.cells: list[Cell] = []

    def add(self, stage: str, source: str, recorded: AssetPartitionStatus | None) -> None:
        """Judges a stage of a source by what Dagster recorded of it."""
        self.cells.append(Cell(stage, source, self._state(stage, source, recorded)))

    def _state(self, stage: str, source: str, recorded: AssetPartitionStatus | None) -> State:
        if (stage, source) in self._running:
            return "running"
        if recorded is AssetPartitionStatus.FAILED:
            if _ran(self._instance, stage, source):
                return "failed" if self._upstream_done(stage, source) else "blocked"
            # What a failed run had planned and never started counts as failed for Dagster.
            made = _latest(self._instance, dg.AssetKey(stage), _partition(source))
            recorded = AssetPartitionStatus.MATERIALIZED if made else None
        is_made = recorded is AssetPartitionStatus.MATERIALIZED
        if is_made and self._fresh(stage, source):
            return "done"
        if stage in self._lanes_off:
            return "waiting"
        if is_made:
            return "stale"
        return "missing" if self._upstream_done(stage, source) else "blocked"

    def _fresh(self, stage: str, source: str) -> bool:
        status = self._resolver.get_status(dg.AssetKey(stage), _partition(source))
        return status is StaleStatus.FRESH and not _outside_changed(
            self._instance, self._graph, stage, source
        )

    def _upstream_done(self, stage: str, source: str) -> bool:
        parents = {p.to_user_string() for p in self._graph.get(dg.AssetKey(stage)).parent_keys}
        return all(
            cell.state in ("done", "stale")
            for cell in self.cells
            if cell.stage in parents and source in (cell.source, ALL_SOURCES)
        )


def _partition(source: str) -> str | None:
    return None if source == ALL_SOURCES else source


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


def _ran(instance: dg.DagsterInstance, stage: str, source: str) -> bool:
    """Tells whether the last run that was to make a stage came to it."""
    tags = {} if source == ALL_SOURCES else {PARTITION_TAG: source}
    for run in instance.get_runs(filters=dg.RunsFilter(tags=tags), limit=_RUNS_LOOKED_AT):
        if run.asset_selection is None or dg.AssetKey(stage) in run.asset_selection:
            return bool(instance.get_run_step_stats(run.run_id, [stage]))
    return True


def _latest(
    instance: dg.DagsterInstance, key: dg.AssetKey, source: str | None
) -> dg.EventLogRecord | None:
    wanted = dg.AssetRecordsFilter(
        asset_key=key, asset_partitions=None if source is None else [source]
    )
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
        source = run.tags.get(PARTITION_TAG) or ALL_SOURCES
        for key in run.asset_selection or ():
            found.update({(key.to_user_string(), source), (key.to_user_string(), ALL_SOURCES)})
    return found
