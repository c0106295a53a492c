"""What the platform reads but doesn't make: the sources' files, and requests to take images down.

Their data versions are reported as runless materializations; an observation would request nothing
downstream.
"""

from __future__ import annotations

import dagster as dg

from prx_assets.partitions import SOURCES

OWNERS = ["team:data-platform"]

SOURCE_FILES = dg.AssetSpec(
    "source_files",
    description=(
        "The files of a source, as its catalog manifest names them. The data version is the digest"
        " of the file list; `source_files_sensor` lists the files again every minute, and"
        " `prx source add` once. A changed digest requests `raw_images` of this source."
    ),
    partitions_def=SOURCES,
    group_name="ingest",
    kinds={"file"},
    owners=OWNERS,
)

TAKEDOWN_REQUESTS = dg.AssetSpec(
    "takedown_requests",
    description=(
        "Images that must not be trained on: a table outside any source, written by"
        " `prx takedown`. The data version is the table's digest; a change compiles `skip_lists`"
        " again. A request covers the image's whole duplicate group and survives the removal and"
        " re-adding of its source."
    ),
    group_name="training",
    kinds={"lance"},
    owners=OWNERS,
)
