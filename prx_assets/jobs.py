"""The two jobs: everything for one source, and everything over all sources."""

from __future__ import annotations

import dagster as dg

PER_SOURCE_STAGES = (
    "raw_images",
    "compacted_images",
    "source_profile",
    "search_index",
    "perceptual_hashes",
    "captions",
    "caption_labels",
    "mds_shards",
)
GLOBAL_STAGES = ("duplicates", "skip_lists", "training_config")

refresh_source = dg.define_asset_job(
    "refresh_source",
    selection=dg.AssetSelection.assets(*PER_SOURCE_STAGES),
    description=(
        "All stages of one source, from its files to its shards. Stages with nothing to do end in"
        " seconds. Includes captions and labels, whatever their engine costs."
    ),
)

refresh_global = dg.define_asset_job(
    "refresh_global",
    selection=dg.AssetSelection.assets(*GLOBAL_STAGES),
    description="Duplicates over all sources, skip-lists and training configurations.",
)
