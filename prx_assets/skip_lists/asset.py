"""Per shard the samples that a loader must skip, with the reason of each.

Reads the live samples of every leaf, the labels, `duplicates` and the take-downs; leaves one list
per profile of the settings, bound to the shards by size and hash. It fails closed: a sample is kept
only if its caption is labelled visual, its hash was compared, and neither it nor a copy is taken
down; what isn't decided yet is skipped as `undecided`. Costs seconds per million samples. It fails
if a kept sample turns out to be undecided or taken down, and the older list stays current.
"""

from collections.abc import Sequence

import dagster as dg

from prx_assets.mds_shards.spec import STAGE as EXPORT_STAGE
from prx_assets.mds_shards.spec import MdsShardsSpec
from prx_assets.skip_lists.spec import CHECKS, CODE_VERSION, STAGE, SkipListsSpec
from prx_assets.stage_asset import Platform, Stage, StageConfig, StageResult, run_stage
from prx_resources.catalog import SourceManifest
from prx_resources.contract import row_fingerprint
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGE = Stage(
    STAGE,
    doc=__doc__,
    code_version=CODE_VERSION,
    deps=(
        "caption_labels",
        "duplicates",
        "mds_shards",
        "takedown_requests",
    ),
    group="training",
    kinds=frozenset({"lance", "ray"}),
    checks=CHECKS,
)


def build_spec(settings: Settings, manifests: Sequence[SourceManifest]) -> SkipListsSpec:
    """Returns what the job must know, from settings and all manifests."""
    return SkipListsSpec(
        exports={one.name: _export_fp(settings.for_source(one)) for one in manifests},
        profiles={
            name: {"allow": list(policy.allow), "blocking_gates": list(policy.blocking_gates)}
            for name, policy in settings.skip.profiles.items()
        },
        signature_tolerance=settings.hashes.signature_tolerance,
    )


def _export_fp(settings: Settings) -> str:
    spec = MdsShardsSpec(quality=settings.export.quality)
    return row_fingerprint(EXPORT_STAGE, spec.ingredients())


@_STAGE.over_all_sources()
def skip_lists(
    context: dg.AssetExecutionContext,
    config: StageConfig,
    platform: Platform,
    ray_jobs: RayJobs,
) -> StageResult:
    """Launches the job over all sources."""
    settings, manifests = platform.sources()
    return run_stage(context, config, ray_jobs, settings, STAGE, build_spec(settings, manifests))
