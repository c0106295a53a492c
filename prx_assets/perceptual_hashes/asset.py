"""A 64-bit perceptual hash, a colour signature and a flatness mark for every image.

Reads the images of `compacted_images` that have no hash yet; leaves `phash`, `signature` and
`phash_flat` in the source's table. Copies share the hash even if re-encoded or rescaled; different
pictures may share it too, so `duplicates` also wants agreeing signatures and never groups flat
images. Costs about 5 ms of one core per image. An image that can't be hashed is a row with
`phash_error`; a run that dies keeps its finished chunks and the next one goes on from there.
"""

import dagster as dg

from prx_assets.perceptual_hashes.spec import CHECKS, CODE_VERSION, STAGE, PerceptualHashesSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, StageResult, run_stage
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=("compacted_images",),
    group="features",
    kinds=frozenset({"lance", "opencv", "ray"}),
    checks=CHECKS,
)


def build_spec(settings: Settings) -> PerceptualHashesSpec:
    """Returns what the job must know, from the source's settings."""
    return PerceptualHashesSpec(flat_std=settings.hashes.flat_std)


@_STAGE.per_source()
def perceptual_hashes(
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
    )
