"""The files of a source, as its manifest in the catalog names them.

The data version is the digest of the file list. `source_files_sensor` lists the files again every
minute, `prx source add` once; only a changed digest is reported, and it requests `raw_images` of
this source and nothing else. Nothing here is materialized by a run.
"""

from __future__ import annotations

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

from prx_assets.partitions import PARTITION_TAG, SOURCES, SOURCES_NAME
from prx_assets.reporting import report_version
from prx_resources.errors import BusyError

source_files = dg.AssetSpec(
    "source_files",
    description=__doc__,
    partitions_def=SOURCES,
    group_name="ingest",
    kinds={"file"},
    owners=["team:data-platform"],
)


def report_source_files(instance: dg.DagsterInstance, source: str, digest: str, files: int) -> bool:
    """Tells Dagster that a source exists, and the digest and length of its file list.

    Returns:
        Whether the digest is new; the same digest twice is reported once.
    """
    if not instance.has_dynamic_partition(SOURCES_NAME, source):
        instance.add_dynamic_partitions(SOURCES_NAME, [source])
    return report_version(
        instance, source_files.key, digest, partition=source, metadata={"files": files}
    )


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
