"""The source's files as one Lance table, a row for every image.

Reads the files that the table doesn't hold yet, as `source_files` lists them: images of a folder
with captions beside them, parquet files with image bytes, WebDataset tars. Leaves the bytes as they
are, with size, format, content hash, the source's caption and metadata. An image that can't be
decoded, or whose key stands twice, is a row with `set_aside`; a file that can't be read at all
fails the run once all others are in the table, naming it. Costs one pass over the new files. A
partition that no manifest in the catalog names fails and says how to add it; a killed run leaves no
row behind that isn't whole.
"""

import dagster as dg

from prx_assets.raw_images.spec import CHECKS, CODE_VERSION, STAGE, ColumnMap, RawImagesSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, StageResult, run_stage
from prx_resources.catalog import SourceManifest
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=("source_files",),
    group="ingest",
    kinds=frozenset({"lance", "ray"}),
    checks=CHECKS,
)


def build_spec(settings: Settings, manifest: SourceManifest) -> RawImagesSpec:
    """Returns what the job must know, from settings and manifest."""
    return RawImagesSpec(
        kind=manifest.kind,
        uri=manifest.uri,
        glob=manifest.files,
        columns=ColumnMap(**manifest.columns.model_dump()),
        chunk_rows=settings.chunk_rows.model_dump(),
        target_fragment_rows=settings.target_fragment_rows,
        max_pixels=settings.max_pixels,
    )


@_STAGE.per_source()
def raw_images(
    context: dg.AssetExecutionContext,
    config: StageConfig,
    platform: Platform,
    ray_jobs: RayJobs,
) -> StageResult:
    """Launches the job for one source."""
    settings, manifest = platform.source(context.partition_key)
    return run_stage(
        context,
        config,
        ray_jobs,
        settings,
        STAGE,
        build_spec(settings, manifest),
        source=context.partition_key,
    )
