"""The same table in few large fragments, cleaned up and indexed.

Reads the table of `raw_images`; leaves the same rows: small fragments merged once they add up to
half of a full one, versions that nobody reads and files of killed writers removed, scalar indexes
built, and health numbers (fragments, deleted rows, bytes). It passes on `raw_images`' data version,
so a compaction requests nothing downstream. Costs at worst one rewrite of the images merged. It
waits while another writer holds the table's lease, and fails without a change if it can't get it.
"""

import dagster as dg

from prx_assets.compacted_images.spec import CHECKS, CODE_VERSION, STAGE, CompactedImagesSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, StageResult, run_stage
from prx_resources.ray_jobs import RayJobs

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=("raw_images",),
    group="ingest",
    kinds=frozenset({"lance", "ray"}),
    checks=CHECKS,
)


@_STAGE.per_source()
def compacted_images(
    context: dg.AssetExecutionContext,
    config: StageConfig,
    platform: Platform,
    ray_jobs: RayJobs,
) -> StageResult:
    """Launches the job for one source."""
    settings, _ = platform.source(context.partition_key)
    return run_stage(
        context,
        config,
        ray_jobs,
        settings,
        STAGE,
        CompactedImagesSpec(),
        source=context.partition_key,
    )
