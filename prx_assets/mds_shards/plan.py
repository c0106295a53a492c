"""What is missing in the leaves, cut into parts and slices."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from prx_assets.image.buckets import Bucket
from prx_assets.mds_shards.census import KEY, Census, missing, without_failed
from prx_assets.mds_shards.spec import MdsShardsSpec
from prx_resources.contract import fingerprint
from prx_resources.mds_tree import Leaf, live_samples, open_leaf
from prx_resources.object_store import ObjectStore

BYTES_PER_PIXEL = 0.22
"""Of a JPEG of quality 92, about; decides how many samples a shard gets."""

PART_SHARDS = 256
"""A part is committed when its shards are there: a crash of a large export loses one a leaf."""


@dataclass(frozen=True)
class PartPlan:
    """A part to write.

    Attributes:
        leaf: The leaf as it is before the first new part.
        bucket: The leaf's bucket.
        rows: Its rows in sample order: `_rowid` and `KEY`.
        shard_rows: Rows per shard.
        digest: Identity of what the part will hold.
    """

    leaf: Leaf
    bucket: Bucket
    rows: pa.Table
    shard_rows: int
    digest: str

    @property
    def shards(self) -> int:
        """Number of slices."""
        return -(-int(self.rows.num_rows) // self.shard_rows)

    def slices(self) -> Iterator[tuple[int, ...]]:
        """Yields the row ids of each shard."""
        row_ids = self.rows["_rowid"].to_pylist()
        for start in range(0, len(row_ids), self.shard_rows):
            yield tuple(row_ids[start : start + self.shard_rows])


def plan_parts(
    store: ObjectStore,
    census: Census,
    source: str,
    export_fp: str,
    spec: MdsShardsSpec,
    failed: dict[tuple[str, str], str],
    retry: tuple[str, ...],
) -> list[PartPlan]:
    """Returns the parts that bring the leaves up to date; their rows are in row-id order.

    Args:
        store: The lake's store.
        census: The rows that should be there.
        source: The source's name.
        export_fp: Identity of the export.
        spec: How it is exported.
        failed: Rows that failed before, with their reasons.
        retry: Reasons that are to be tried again.
    """
    plans = []
    for bucket, rows in census.by_bucket():
        leaf = open_leaf(store, source, export_fp, bucket.level, bucket.dir)
        due = without_failed(missing(rows, live_samples(store, leaf)), failed, retry)
        shard_rows = rows_per_shard(bucket, spec.shard_bytes)
        for start in range(0, due.num_rows, shard_rows * PART_SHARDS):
            part = due.slice(start, shard_rows * PART_SHARDS).select(["_rowid", *KEY])
            digest = _digest(export_fp, leaf, part, shard_rows)
            plans.append(PartPlan(leaf, bucket, part, shard_rows, digest))
    return plans


def rows_per_shard(bucket: Bucket, shard_bytes: int) -> int:
    """Returns how many samples make a shard of about this size; at least one."""
    return max(1, int(shard_bytes // (BYTES_PER_PIXEL * bucket.width * bucket.height)))


def _digest(export_fp: str, leaf: Leaf, rows: pa.Table, shard_rows: int) -> str:
    content = hashlib.sha256()
    for row in zip(*(rows[name].to_pylist() for name in KEY), strict=True):
        content.update("\0".join((*row, "")).encode())
    return fingerprint(
        {
            "export_fp": export_fp,
            "leaf": leaf.prefix,
            "rows": content.hexdigest(),
            "shard_rows": shard_rows,
            "coders": coders(),
        }
    )


def coders() -> dict[str, str]:
    """Returns the versions that may change a byte of a shard without changing its meaning."""
    import PIL
    import pyvips
    from PIL import features

    return {
        "pillow": PIL.__version__,
        "jpeg": str(features.version("jpg")),
        "libvips": ".".join(str(pyvips.version(place)) for place in range(3)),
    }
