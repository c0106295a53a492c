"""One style of caption for every eligible image, written by the configured engine.

Reads the eligible images of `compacted_images` (at least 147,456 pixels, aspect between 1:2 and
2:1) that have no caption yet; leaves `caption`, `caption_model`, `caption_gates` and
`caption_error` in the source's table. The built-in engine measures the picture on the CPU and costs
nothing; a model runs in the lane `paid_stages`, at about 20 images a second on one H200. Another
model or prompt in the settings fills only rows without a value, until a run says `redo`. A failed
row is data; a run that dies keeps its finished chunks.
"""

import dagster as dg

from prx_assets.captions.spec import CHECKS, CODE_VERSION, STAGE, CaptionsSpec
from prx_assets.stage_asset import (
    Platform,
    Stage,
    StageConfig,
    StageResult,
    engine_tuning,
    run_stage,
)
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=("compacted_images",),
    group="features",
    kinds=frozenset({"lance", "ray"}),
    checks=CHECKS,
)


def build_spec(settings: Settings) -> CaptionsSpec:
    """Returns what the job must know, from the source's settings."""
    return CaptionsSpec(
        engine=settings.captions.engine,
        model=settings.captions.model,
        revision=settings.captions.revision,
        prompt=settings.captions.prompt,
        sampling=dict(settings.captions.sampling),
        max_pixels=settings.captions.max_pixels,
        min_words=settings.captions.min_words,
        max_words=settings.captions.max_words,
    )


@_STAGE.per_source()
def captions(
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
        build_spec(settings),
        source=context.partition_key,
        tuning=engine_tuning(settings, settings.captions, settings.costs.captions_per_second),
    )
