"""What Dagster is told outside of runs: versions of external assets, and sources that left."""

from __future__ import annotations

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

from prx_assets.external_assets import SOURCE_FILES, TAKEDOWN_REQUESTS
from prx_assets.partitions import SOURCES_NAME
from prx_resources.errors import BusyError

DATA_VERSION_TAG = "dagster/data_version"
PARTITION_TAG = "dagster/partition"


def report_source_files(instance: dg.DagsterInstance, source: str, digest: str) -> bool:
    """Tells Dagster the digest of a source's file list, and that the source exists.

    Returns:
        Whether the digest is new; the same digest twice is reported once.
    """
    if not instance.has_dynamic_partition(SOURCES_NAME, source):
        instance.add_dynamic_partitions(SOURCES_NAME, [source])
    return _report(instance, SOURCE_FILES.key, source, digest)


def report_takedowns(instance: dg.DagsterInstance, digest: str) -> bool:
    """Tells Dagster the digest of the take-down table; returns whether it is new."""
    return _report(instance, TAKEDOWN_REQUESTS.key, None, digest)


def forget_source(instance: dg.DagsterInstance, source: str) -> int:
    """Removes a source's partition and its runs, so that re-adding it starts without old marks.

    Global stages that ran in one of these runs lose that record too and are asked for again.

    Returns:
        The number of runs deleted.

    Raises:
        BusyError: One of its runs isn't finished.
    """
    runs = instance.get_runs(filters=dg.RunsFilter(tags={PARTITION_TAG: source}))
    for run in runs:
        if run.status in NOT_FINISHED_STATUSES:
            raise BusyError(
                f"a run of the source {source!r} isn't finished",
                where=f"run {run.run_id}",
                fix="terminate it in the Dagster UI, or wait for its end",
            )
    for run in runs:
        instance.delete_run(run.run_id)
    if instance.has_dynamic_partition(SOURCES_NAME, source):
        instance.delete_dynamic_partition(SOURCES_NAME, source)
    instance.wipe_asset_cached_status(list(instance.all_asset_keys()))
    return len(runs)


def _report(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, digest: str
) -> bool:
    latest = instance.fetch_materializations(
        dg.AssetRecordsFilter(
            asset_key=key, asset_partitions=None if partition is None else [partition]
        ),
        limit=1,
    ).records
    if latest and latest[0].asset_materialization is not None:
        tags = latest[0].asset_materialization.tags or {}
        if tags.get(DATA_VERSION_TAG) == digest:
            return False
    instance.report_runless_asset_event(
        dg.AssetMaterialization(key, partition=partition, tags={DATA_VERSION_TAG: digest})
    )
    return True
