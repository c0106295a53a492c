"""Sorts captions into visual, text (screenshots, slides, documents) and nsfw.

Reads the captions that have no label yet, or whose caption changed; leaves `label`,
`label_confidence`, `label_model` and `label_error` in the source's table. Only visual rows reach
the trainer; a photo with a sign or a logo stays visual. The built-in labeller costs about 20 ms of
one core per caption; a model runs in the lane `paid_stages`, at about 200 captions a second on one
GPU. A failed row is data; a run that dies keeps its finished chunks.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import dagster as dg

from prx_assets.caption_labels.spec import CHECKS, STAGE, CaptionLabelsSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, engine_tuning, run_stage
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGE = Stage(
    STAGE,
    doc=__doc__,
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


@dg.asset(**_STAGE.per_source())
def caption_labels(
    context: dg.AssetExecutionContext,
    config: StageConfig,
    platform: Platform,
    ray_jobs: RayJobs,
) -> dg.MaterializeResult[Any]:
    """Launches the job for one source."""
    settings, _ = platform.source(context.partition_key)
    spec = build_spec(settings)
    return run_stage(
        context,
        ray_jobs,
        config,
        settings,
        stage=STAGE,
        source=context.partition_key,
        params=asdict(spec),
        ingredients=spec.ingredients(),
        tuning=engine_tuning(settings, settings.labels, settings.costs.labels_per_second),
    )
