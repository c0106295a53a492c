"""Which copy of a group stays, and the table that says so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

SCHEMA = pa.schema(
    [
        pa.field("image_id", pa.string(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("phash", pa.uint64(), nullable=False),
        pa.field("phash_flat", pa.bool_(), nullable=False),
        pa.field("content_sha256", pa.string(), nullable=False),
    ]
)
"""The table of duplicates; `spec.COLUMNS` says what the columns mean."""


def ranked(rows: pa.Table, group: NDArray[np.int64]) -> pa.Table:
    """Returns the table of duplicates in the order of image_id.

    Args:
        rows: image_id, phash, phash_flat, content_sha256, pixels, priority, bytes.
        group: Group number of each row, -1 for none.
    """
    members = np.flatnonzero(group >= 0)
    names, ranks = _names_and_ranks(rows.take(pa.array(members)), group[members])
    rank = np.zeros(rows.num_rows, dtype=np.int32)
    rank[members] = ranks
    place = np.full(rows.num_rows, -1, dtype=np.int64)
    place[members] = np.arange(len(members))
    name = names.take(pa.array(place, mask=place < 0))
    table = pa.table(
        [
            rows["image_id"],
            name,
            pa.array(rank),
            rows["phash"],
            rows["phash_flat"],
            rows["content_sha256"],
        ],
        schema=SCHEMA,
    )
    return table.take(pc.sort_indices(table["image_id"]))


def _names_and_ranks(
    members: pa.Table, group: NDArray[np.int64]
) -> tuple[pa.Array, NDArray[np.int32]]:
    """Returns each member's group name (the least image_id) and its rank in the group."""
    keyed = members.append_column("_group", pa.array(group))
    best_first = [
        ("_group", "ascending"),
        ("pixels", "descending"),
        ("priority", "descending"),
        ("bytes", "descending"),
        ("image_id", "ascending"),
    ]
    order = pc.sort_indices(keyed, sort_keys=best_first).to_numpy()
    ordered = group[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if not len(order):
        starts = starts[:0]
    sizes = np.diff(np.append(starts, len(order)))
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    by_name = pc.sort_indices(
        keyed, sort_keys=[("_group", "ascending"), ("image_id", "ascending")]
    ).to_numpy()
    # Both orders put the groups into the same places, so `starts` serves for either.
    least = np.empty(len(order), dtype=np.int64)
    least[order] = np.repeat(by_name[starts], sizes)
    names = pc.take(members["image_id"].combine_chunks(), pa.array(least))
    return names, ranks
