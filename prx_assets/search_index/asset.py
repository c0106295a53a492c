"""Full-text search on the source's own captions and, where it brings vectors, nearest neighbours.

Reads `original_caption` and `embedding`; leaves Lance indexes on them in the source's table. Rows
added later are found too, by a flat search, until the next run covers them. Costs minutes per
million rows. A source without captions or vectors gets no index of that kind, which is no failure.
"""

import dagster as dg

from prx_assets.search_index.spec import CHECKS, CODE_VERSION, STAGE, SearchIndexSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, StageResult, run_stage
from prx_resources.ray_jobs import RayJobs

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=("compacted_images",),
    group="explore",
    kinds=frozenset({"lance", "ray"}),
    checks=CHECKS,
)


@_STAGE.per_source()
def search_index(
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
        SearchIndexSpec(),
        source=context.partition_key,
    )
