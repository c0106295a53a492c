"""What a source consists of, counted from its table's metadata columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prx_assets.image.buckets import assign_many, table
from prx_assets.image.eligibility import MAX_ASPECT, MIN_PIXELS, OUTSIDE_ASPECT, TOO_SMALL

SIDE_EDGES = np.geomspace(32, 16384, 55)
"""Borders of the resolution classes: sqrt(width * height) in pixels."""

ASPECT_EDGES = np.geomspace(1 / 8, 8, 49)
"""Borders of the aspect ratio classes: width / height."""

BYTES_EDGES = np.geomspace(2**10, 2**26, 49)
"""Borders of the file size classes, in bytes."""

CAPTION_EDGES = np.geomspace(1, 10_000, 41)
"""Borders of the caption length classes, in characters."""

Counts = NDArray[np.int64]

_COLUMNS = {
    "width": "width",
    "height": "height",
    "bytes": "bytes",
    "format": "format",
    "jpeg_quality": "jpeg_quality",
    "set_aside": "set_aside",
    "caption_length": "character_length(original_caption)",
}


@dataclass
class Profile:
    """Counts over one source.

    Attributes:
        rows: All rows.
        eligible: Rows that can be captioned and exported.
        outside: Readable rows that can't, by reason: too_small, outside_aspect.
        set_aside: Rows set aside, by reason.
        shapes: Readable rows by resolution and aspect ratio, shape (54, 48).
        buckets: Eligible rows by (level, index of the bucket).
        formats: Readable rows by format.
        sizes: Readable rows by file size, shape (48,).
        total_bytes: Of all files.
        qualities: JPEGs by estimated quality 0-100, shape (101,).
        caption_lengths: Readable rows with a caption by its length, shape (40,).
        captions: Readable rows with a caption that isn't empty.
    """

    rows: int
    eligible: int
    outside: Counter[str]
    set_aside: Counter[str]
    shapes: Counts
    buckets: Counter[tuple[int, int]]
    formats: Counter[str]
    sizes: Counts
    total_bytes: int
    qualities: Counts
    caption_lengths: Counts
    captions: int

    @classmethod
    def empty(cls) -> Profile:
        """Returns the profile of no rows."""
        shapes = np.zeros((len(SIDE_EDGES) - 1, len(ASPECT_EDGES) - 1), np.int64)
        sizes = np.zeros(len(BYTES_EDGES) - 1, np.int64)
        lengths = np.zeros(len(CAPTION_EDGES) - 1, np.int64)
        outside, reasons, formats = Counter[str](), Counter[str](), Counter[str]()
        buckets = Counter[tuple[int, int]]()
        qualities = np.zeros(101, np.int64)
        return cls(
            0, 0, outside, reasons, shapes, buckets, formats, sizes, 0, qualities, lengths, 0
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Counts some rows (the columns of `profile_of`)."""
        self.rows += batch.num_rows
        self.total_bytes += int(pc.sum(batch["bytes"]).as_py() or 0)
        self.set_aside.update(_counts(batch["set_aside"]))
        good = pa.Table.from_batches([batch.filter(pc.is_null(batch["set_aside"]))])
        width, height = (
            good[name].fill_null(0).to_numpy().astype(np.int64) for name in ("width", "height")
        )
        self._add_shapes(width, height)
        self.formats.update(_counts(good["format"].fill_null("unknown")))
        self.sizes += _histogram(_values(good["bytes"]), BYTES_EDGES)
        quality = np.clip(_values(good["jpeg_quality"]), 0, 100)
        self.qualities += np.bincount(quality.astype(np.int64), minlength=101)
        lengths = _values(good["caption_length"])
        lengths = lengths[lengths > 0]
        self.captions += len(lengths)
        self.caption_lengths += _histogram(lengths, CAPTION_EDGES)

    def bucket_rows(self) -> list[dict[str, Any]]:
        """Returns one row an aspect ratio: its eligible images per level."""
        buckets = table()
        levels = list(buckets)
        return [
            {"aspect_ratio": buckets[levels[0]][index].dir}
            | {str(level): self.buckets[level, index] for level in levels}
            for index in range(len(buckets[levels[0]]))
        ]

    def _add_shapes(self, width: Counts, height: Counts) -> None:
        level, index = assign_many(width, height)
        usable = level > 0
        self.eligible += int(usable.sum())
        small = width * height < MIN_PIXELS
        wide = (MAX_ASPECT * width < height) | (width > MAX_ASPECT * height)
        self.outside.update(
            {TOO_SMALL: int(small.sum()), OUTSIDE_ASPECT: int((wide & ~small).sum())}
        )
        pairs = zip(level[usable].tolist(), index[usable].tolist(), strict=True)
        self.buckets.update(pairs)
        real = (width > 0) & (height > 0)
        side, aspect = np.sqrt(width[real] * height[real]), width[real] / height[real]
        place = _classes(side, SIDE_EDGES), _classes(aspect, ASPECT_EDGES)
        np.add.at(self.shapes, place, 1)


def profile_of(ds: lance.LanceDataset) -> Profile:
    """Counts a whole table, batch by batch; no pixel is read."""
    profile = Profile.empty()
    for batch in ds.scanner(columns=_COLUMNS).to_batches():
        profile.add(batch)
    return profile


def _counts(column: pa.Array) -> dict[str, int]:
    counted = pc.value_counts(column.drop_null()).to_pylist()
    return {pair["values"]: pair["counts"] for pair in counted}


def _values(column: pa.ChunkedArray) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.drop_null().to_numpy().astype(np.float64)
    return values


def _histogram(values: NDArray[np.float64], edges: NDArray[np.float64]) -> Counts:
    return np.bincount(_classes(values, edges), minlength=len(edges) - 1)


def _classes(values: NDArray[np.float64], edges: NDArray[np.float64]) -> Counts:
    """Returns each value's class; what lies outside goes to the first or last."""
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
