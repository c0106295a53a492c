"""What happens by the clock: every night each source's table is compacted and cleaned."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from prx_assets.partitions import SOURCES_NAME

compact_source = dg.define_asset_job(
    "compact_source",
    selection=dg.AssetSelection.assets("compacted_images"),
    description="Compacts one source's table, removes old versions and orphan files.",
)


@dg.schedule(
    job=compact_source,
    cron_schedule="30 2 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        "02:30: a run of `compacted_images` for every source that has a table. It removes what"
        " killed writers left behind, and requests nothing downstream: the data version stays."
    ),
)
def nightly_compaction(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
    """Requests a compaction of every source that has a table."""
    tables = context.instance.get_materialized_partitions(dg.AssetKey("raw_images"))
    for source in context.instance.get_dynamic_partitions(SOURCES_NAME):
        if source in tables:
            yield dg.RunRequest(partition_key=source)
