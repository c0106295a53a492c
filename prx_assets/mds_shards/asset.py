"""Resized samples in MDS shards, a leaf per level and aspect ratio, ready to stream.

Reads the captioned, eligible images; leaves immutable parts in
`mds/<source>/<export_fp>/<level>/<w/h>/`: JPEG of the bucket's exact size, caption, both sizes, id.
A run adds one part with the rows that no part holds yet; nothing that a trainer may be reading is
rewritten, and the filtering is `skip_lists`' business. Costs about 40 ms of one core per image of
2 MP, and the disk space of the JPEGs. A row that can't be exported is counted with a reason; a
killed run leaves no part that isn't whole.
"""

import dagster as dg

from prx_assets.mds_shards.spec import CHECKS, CODE_VERSION, STAGE, MdsShardsSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, StageResult, run_stage
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=("captions",),
    group="export",
    kinds=frozenset({"mosaicml", "ray"}),
    checks=CHECKS,
)


def build_spec(settings: Settings) -> MdsShardsSpec:
    """Returns what the job must know, from the source's settings."""
    return MdsShardsSpec(
        quality=settings.export.quality,
        shard_bytes=settings.export.shard_bytes,
        max_pixels=settings.max_pixels,
    )


@_STAGE.per_source()
def mds_shards(
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
