"""Which rows of the image table are exported, to which leaf, and why the others aren't."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prx_assets.image.buckets import LEVELS, Bucket, assign_many, table
from prx_assets.image.eligibility import MIN_PIXELS, OUTSIDE_ASPECT, TOO_SMALL
from prx_resources.contract import text_digest

READS = ("image_id", "content_sha256", "set_aside", "width", "height", "caption")
"""Columns that the census wants beside `_rowid`."""

NO_CAPTION = "no_caption"

KEY = ["image_id", "content_sha256", "caption_digest"]
"""What makes a sample the same sample."""

_SCHEMA = pa.schema(
    [
        ("_rowid", pa.uint64()),
        ("image_id", pa.string()),
        ("content_sha256", pa.string()),
        ("caption_digest", pa.string()),
        ("bucket", pa.int16()),
    ]
)
_BUCKETS = [bucket for level in LEVELS for bucket in table()[level]]


@dataclass(frozen=True)
class Census:
    """All rows of one version of the image table.

    Attributes:
        rows: Rows to export by `_rowid`: `_rowid`, `KEY`, `bucket` (an index, see `by_bucket`).
        set_aside: The number of other rows by reason.
    """

    rows: pa.Table
    set_aside: Counter[str]

    @property
    def rows_in(self) -> int:
        """Number of rows of the table."""
        return int(self.rows.num_rows) + self.set_aside.total()

    def by_bucket(self) -> Iterator[tuple[Bucket, pa.Table]]:
        """Yields the buckets that have rows, with their rows by `_rowid`."""
        for index in sorted(pc.unique(self.rows["bucket"]).to_pylist()):
            yield _BUCKETS[index], self.rows.filter(pc.equal(self.rows["bucket"], index))


def take_census(batches: Iterable[pa.RecordBatch]) -> Census:
    """Looks at every row; of the captions only the digests stay in memory.

    Args:
        batches: `_rowid` and `READS` of all rows.
    """
    set_aside: Counter[str] = Counter()
    parts = [_batch(batch, set_aside) for batch in batches]
    rows = pa.concat_tables([_SCHEMA.empty_table(), *parts]).sort_by("_rowid")
    return Census(rows, set_aside)


def _batch(batch: pa.RecordBatch, set_aside: Counter[str]) -> pa.Table:
    rows = pa.Table.from_batches([batch])
    reasons = rows["set_aside"].drop_null()
    set_aside.update(reasons.to_pylist())
    rows = rows.filter(pc.is_null(rows["set_aside"]))
    width = rows["width"].to_numpy().astype(np.int64)
    height = rows["height"].to_numpy().astype(np.int64)
    level, index = assign_many(width, height)
    small = width * height < MIN_PIXELS
    captioned = pc.greater(pc.fill_null(pc.utf8_length(rows["caption"]), 0), 0).to_numpy()
    usable = level > 0
    counts = {
        TOO_SMALL: int(small.sum()),
        OUTSIDE_ASPECT: int((~usable & ~small).sum()),
        NO_CAPTION: int((usable & ~captioned).sum()),
    }
    set_aside.update({reason: count for reason, count in counts.items() if count})
    keep = usable & captioned
    chosen = rows.filter(pa.array(keep))
    step = len(table()[LEVELS[0]])
    bucket = np.searchsorted(LEVELS, level[keep]) * step + index[keep]
    return pa.table(
        {
            "_rowid": chosen["_rowid"],
            "image_id": chosen["image_id"],
            "content_sha256": chosen["content_sha256"],
            "caption_digest": [text_digest(text) for text in chosen["caption"].to_pylist()],
            "bucket": bucket.astype(np.int16),
        },
        schema=_SCHEMA,
    )


def missing(rows: pa.Table, samples: pa.Table) -> pa.Table:
    """Returns those of a bucket's rows that aren't among its leaf's live samples, in order."""
    if samples.num_rows == 0 or rows.num_rows == 0:
        return rows
    live = samples.select(KEY).combine_chunks()
    return rows.join(live, keys=KEY, join_type="left anti").sort_by("_rowid")


def without_failed(
    rows: pa.Table, failed: dict[tuple[str, str], str], retry: Iterable[str]
) -> pa.Table:
    """Leaves out rows that failed before, but for those whose reason is to be tried again."""
    again = set(retry)
    known = {row for row, reason in failed.items() if reason.partition(":")[0] not in again}
    if not known:
        return rows
    pairs = zip(rows["image_id"].to_pylist(), rows["content_sha256"].to_pylist(), strict=True)
    return rows.filter(pa.array([pair not in known for pair in pairs], pa.bool_()))
