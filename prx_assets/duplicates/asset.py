"""Groups of copies, within and across all sources, with the copy to keep ranked first.

Reads the hashes of every source in `perceptual_hashes`; leaves a Lance table `image_id -> group,
rank` and the versions that it read. Two images are copies if they share the hash, no byte of their
colour signatures differs by more than the tolerance, and neither is flat. The highest resolution
ranks first, then the manifest's priority, then the larger file. Nothing is deleted: `skip_lists`
leaves the other copies out. Costs seconds per million images on one machine. Sources without
hashes are not covered, and their samples stay undecided.
"""

from collections.abc import Sequence

import dagster as dg

from prx_assets.duplicates.spec import CHECKS, CODE_VERSION, STAGE, DuplicatesSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, StageResult, run_stage
from prx_resources.catalog import SourceManifest
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=("perceptual_hashes",),
    group="training",
    kinds=frozenset({"lance", "ray"}),
    checks=CHECKS,
)


def build_spec(settings: Settings, manifests: Sequence[SourceManifest]) -> DuplicatesSpec:
    """Returns what the job must know, from settings and all manifests."""
    return DuplicatesSpec(
        sources=tuple((manifest.name, manifest.priority) for manifest in manifests),
        signature_tolerance=settings.hashes.signature_tolerance,
    )


@_STAGE.over_all_sources()
def duplicates(
    context: dg.AssetExecutionContext,
    config: StageConfig,
    platform: Platform,
    ray_jobs: RayJobs,
) -> StageResult:
    """Launches the job over all sources."""
    settings, manifests = platform.sources()
    return run_stage(context, config, ray_jobs, settings, STAGE, build_spec(settings, manifests))
