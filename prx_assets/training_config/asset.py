"""The loader's configuration and lock file, one per profile, for plain Streaming and PRX trainers.

Reads the current skip-lists and the leaves they name, the batch size and nodes of the settings and
the weights of the manifests; leaves a content-addressed configuration that names no leaf without
its list. Buckets with fewer samples than one batch per node are pooled over sources, or left out
and reported, because Streaming refuses them. Costs seconds. It fails if a list names a shard that
is gone or changed: compile `skip_lists` again.
"""

from collections.abc import Sequence

import dagster as dg

from prx_assets.stage_asset import Platform, Stage, StageConfig, StageResult, run_stage
from prx_assets.training_config.spec import CHECKS, CODE_VERSION, STAGE, TrainingConfigSpec
from prx_resources.catalog import SourceManifest
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=(
        "mds_shards",
        "skip_lists",
    ),
    group="training",
    kinds=frozenset({"mosaicml", "ray"}),
    checks=CHECKS,
)


def build_spec(settings: Settings, manifests: Sequence[SourceManifest]) -> TrainingConfigSpec:
    """Returns what the job must know, from settings and all manifests."""
    return TrainingConfigSpec(
        profiles=tuple(sorted(settings.skip.profiles)),
        weights={manifest.name: manifest.weight for manifest in manifests},
        batch_size=settings.training.batch_size,
        canonical_nodes=settings.training.canonical_nodes,
    )


@_STAGE.over_all_sources()
def training_config(
    context: dg.AssetExecutionContext,
    config: StageConfig,
    platform: Platform,
    ray_jobs: RayJobs,
) -> StageResult:
    """Launches the job over all sources."""
    settings, manifests = platform.sources()
    return run_stage(context, config, ray_jobs, settings, STAGE, build_spec(settings, manifests))
