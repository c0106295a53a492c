"""The code location: everything Dagster shows. Loads in seconds, without Ray, Lance or torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import dagster as dg

from prx_assets.automation import CPU_LANE, LANE_TAG, PAID_LANE, paid_stages
from prx_assets.caption_labels.asset import build_spec as caption_labels_spec
from prx_assets.caption_labels.asset import caption_labels
from prx_assets.captions.asset import build_spec as captions_spec
from prx_assets.captions.asset import captions
from prx_assets.compacted_images.asset import compacted_images
from prx_assets.duplicates.asset import duplicates
from prx_assets.jobs import refresh_global, refresh_source
from prx_assets.mds_shards.asset import build_spec as mds_shards_spec
from prx_assets.mds_shards.asset import mds_shards
from prx_assets.perceptual_hashes.asset import build_spec as perceptual_hashes_spec
from prx_assets.perceptual_hashes.asset import perceptual_hashes
from prx_assets.raw_images.asset import raw_images
from prx_assets.schedules import nightly_compaction
from prx_assets.search_index.asset import search_index
from prx_assets.sensors import lanes, source_files_sensor
from prx_assets.skip_lists.asset import skip_lists
from prx_assets.source_files import source_files
from prx_assets.source_profile.asset import source_profile
from prx_assets.stage_asset import Platform, StageSpec
from prx_assets.takedown_requests.asset import takedown_requests
from prx_assets.training_config.asset import training_config
from prx_resources.contract import row_fingerprint
from prx_resources.environment import prx_home
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

_STAGES = (
    raw_images,
    compacted_images,
    source_profile,
    search_index,
    perceptual_hashes,
    captions,
    caption_labels,
    mds_shards,
    duplicates,
    skip_lists,
    training_config,
)

_IDENTITIES: Mapping[str, Callable[[Settings], StageSpec]] = {
    "perceptual_hashes": perceptual_hashes_spec,
    "captions": captions_spec,
    "caption_labels": caption_labels_spec,
    "mds_shards": mds_shards_spec,
}


def ray_jobs(home: Path, settings: Settings, *, stop_on_interrupt: bool = False) -> RayJobs:
    """Returns where jobs run; `stop_on_interrupt` is for Ctrl-C at a command line."""
    ray = settings.ray
    return RayJobs(
        backend=ray.backend,
        home=str(home),
        address=ray.address,
        token_path=ray.token_path,
        stop_on_interrupt=stop_on_interrupt,
    )


def build(home: Path, settings: Settings, *, stop_on_interrupt: bool = False) -> dg.Definitions:
    """Returns the code location of one PRX_HOME.

    Args:
        home: PRX_HOME, absolute.
        settings: Decide lanes, code versions, executor and where jobs run. What a run writes is
            decided by the files as they are when it starts.
        stop_on_interrupt: Whether Ctrl-C stops the job at hand.
    """
    return dg.Definitions(
        assets=[
            source_files,
            takedown_requests,
            *(_as_set(stage, settings) for stage in _STAGES),
        ],
        jobs=[refresh_source, refresh_global],
        schedules=[nightly_compaction],
        sensors=[source_files_sensor, *lanes(settings)],
        # Not configurable: the launchpad offers what a run may change, and that isn't the lake.
        resources={
            name: dg.ResourceDefinition.hardcoded_resource(resource)
            for name, resource in {
                "platform": Platform(home=str(home)),
                "ray_jobs": ray_jobs(home, settings, stop_on_interrupt=stop_on_interrupt),
            }.items()
        },
        executor=dg.in_process_executor
        if settings.executor == "in_process"
        else dg.multiprocess_executor,
    )


def _as_set(stage: dg.AssetsDefinition, settings: Settings) -> dg.AssetsDefinition:
    """Adds what the settings decide: the lane, and the identity of values to the code version.

    A changed model or prompt shows the stage as out of date; it requests nothing.
    """
    name = stage.key.to_user_string()
    lane = {LANE_TAG: PAID_LANE if name in paid_stages(settings) else CPU_LANE}
    build_spec = _IDENTITIES.get(name)
    identity = f"-{row_fingerprint(name, build_spec(settings).ingredients())}" if build_spec else ""
    return stage.map_asset_specs(
        lambda spec: spec.replace_attributes(
            tags={**spec.tags, **lane}, code_version=f"{spec.code_version}{identity}"
        )
    )


defs = build(prx_home(), Settings.load(prx_home()))
