"""What a source consists of: sizes, shapes, formats, captions, and how much of it can be used.

Reads the table's metadata columns, never pixels; leaves counts and plots of resolution against
aspect ratio, formats, file sizes, JPEG quality, caption lengths, reasons for setting aside, and the
rows that reach each level. Costs seconds per million rows. It says what a training set will hold
before anything is spent on it.
"""

import dagster as dg

from prx_assets.source_profile.spec import CHECKS, CODE_VERSION, STAGE, SourceProfileSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, StageResult, run_stage
from prx_resources.ray_jobs import RayJobs

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=("compacted_images",),
    group="explore",
    kinds=frozenset({"lance", "matplotlib", "ray"}),
    checks=CHECKS,
)


@_STAGE.per_source()
def source_profile(
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
        SourceProfileSpec(),
        source=context.partition_key,
    )
