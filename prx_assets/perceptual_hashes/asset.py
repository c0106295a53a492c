"""A 64-bit perceptual hash, a colour signature and a flatness mark for every image.

Reads the images of `compacted_images` that have no hash yet; leaves `phash`, `signature` and
`phash_flat` in the source's table. Copies share the hash even if re-encoded or rescaled; different
pictures may share it too, so `duplicates` also wants agreeing signatures and never groups flat
images. Costs about 5 ms of one core per image. An image that can't be hashed is a row with
`phash_error`; a run that dies keeps its finished chunks and the next one goes on from there.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import dagster as dg

from prx_assets.perceptual_hashes.spec import CHECKS, STAGE, PerceptualHashesSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, run_stage
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    deps=("compacted_images",),
    group="features",
    kinds=frozenset({"lance", "opencv", "ray"}),
    checks=CHECKS,
)


def build_spec(settings: Settings) -> PerceptualHashesSpec:
    """Returns what the job must know, from the source's settings."""
    return PerceptualHashesSpec(flat_std=settings.hashes.flat_std)


@dg.asset(**_STAGE.per_source())
def perceptual_hashes(
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
    )
