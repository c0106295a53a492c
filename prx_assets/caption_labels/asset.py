"""Sorts captions into visual, text (screenshots, slides, documents) and nsfw.

Reads the captions that have no label yet, or whose caption changed; leaves `label`,
`label_confidence`, `label_model` and `label_error` in the source's table. Only visual rows reach
the trainer; a photo with a sign or a logo stays visual. The built-in labeller costs about 20 ms of
one core per caption; a model runs in the lane `paid_stages`, at about 200 captions a second on one
GPU. A failed row is data; a run that dies keeps its finished chunks.
"""

import dagster as dg

from prx_assets.caption_labels.spec import CHECKS, CODE_VERSION, STAGE, CaptionLabelsSpec
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
    deps=("captions",),
    group="features",
    kinds=frozenset({"lance", "ray"}),
    checks=CHECKS,
)


def build_spec(settings: Settings) -> CaptionLabelsSpec:
    """Returns what the job must know, from the source's settings."""
    return CaptionLabelsSpec(
        engine=settings.labels.engine,
        model=settings.labels.model,
        revision=settings.labels.revision,
    )


@_STAGE.per_source()
def caption_labels(
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
        tuning=engine_tuning(settings, settings.labels, settings.costs.labels_per_second),
    )
