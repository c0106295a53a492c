"""Data versions: what a stage's columns say, independent of row order, versions and compaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from prx_resources.columns import ColumnGroup
from prx_resources.contract import canonical_json
from prx_resources.lance_sql import all_of, quote

Hashes = npt.NDArray[np.uint64]
_BATCH_ROWS = 16384


def data_version(
    ds: lance.LanceDataset, group: ColumnGroup, row_fp: str | None = None, where: str = ""
) -> str:
    """Returns the data version of a stage's columns.

    It covers which rows are finished, from what content and input, by which identity, and whether
    they failed: a retry that succeeds is news to whoever reads the values.

    Args:
        ds: The table at one version.
        group: The stage's columns.
        row_fp: Count only rows of this identity; None for all finished rows.
        where: Lance SQL of the rows that count, in addition; none for all.
    """
    columns = ["image_id", "content_sha256", group.fp]
    columns += [group.input] if group.input is not None else []
    finished = f"{group.fp} IS NOT NULL" if row_fp is None else f"{group.fp} = {quote(row_fp)}"
    failed = f"{group.error} IS NOT NULL"
    batches = ds.scanner(
        columns={**{name: name for name in columns}, "failed": failed},
        filter=all_of(finished, where),
        batch_size=_BATCH_ROWS,
    ).to_batches()
    return rows_version(f"{group.stage}/{row_fp}", batches)


def ingest_data_version(ds: lance.LanceDataset) -> str:
    """Returns the data version of the ingested columns: ids, contents, captions, set-asides."""
    columns = ["image_id", "content_sha256", "set_aside", "original_caption", "metadata"]
    batches = ds.scanner(columns=columns, batch_size=_BATCH_ROWS).to_batches()
    return rows_version("raw_images", batches)


def rows_version(name: str, tables: Iterable[pa.Table | pa.RecordBatch]) -> str:
    """Returns a 16 hex digit digest of a multiset of rows, whatever their order.

    Args:
        name: What the rows are; part of the digest.
        tables: Rows of one set of columns (strings, integers, booleans), in pieces of any size.
    """
    count, total = 0, 0
    for table in tables:
        for start in range(0, table.num_rows, _BATCH_ROWS):
            part = table.slice(start, _BATCH_ROWS)
            hashes = row_hashes([part.column(i) for i in range(part.num_columns)])
            count += part.num_rows
            total = (total + int(np.add.reduce(hashes, dtype=np.uint64))) % 2**64
    text = canonical_json([name, count, f"{total:016x}"])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def row_hashes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Hashes:
    """Returns one well-mixed 64-bit hash per row, the same on every machine.

    A multilinear hash: the sum of the row's bytes, each times a fixed pseudo-random number for its
    place. Unlike a table's own hash functions it is ours, so a library's update can't change it.
    """
    joined = pc.binary_join_element_wise(*map(_marked, columns), _text(""))
    if isinstance(joined, pa.ChunkedArray):
        joined = pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], joined.type)
    if len(joined) == 0:
        return np.zeros(0, dtype=np.uint64)
    _, offsets, data = joined.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[joined.offset : joined.offset + len(joined) + 1]
    raw = np.frombuffer(data, dtype=np.uint8)[bounds[0] : bounds[-1]]
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    place = np.arange(len(raw), dtype=np.int64) - np.repeat(starts, lengths)
    weights = _mix(np.arange(1, int(lengths.max()) + 1, dtype=np.uint64)) | np.uint64(1)
    products = (raw.astype(np.uint64) + np.uint64(1)) * weights[place]
    # No row is empty: `_marked` saw to that, and reduceat needs it.
    return _mix(np.add.reduceat(products, starts) + lengths.astype(np.uint64))


def _marked(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Returns `<length>:<text>`, `-` for null: no two rows of values join to one text."""
    texts = column.cast(pa.large_string())
    lengths = pc.binary_length(texts).cast(pa.large_string())
    return pc.fill_null(pc.binary_join_element_wise(lengths, texts, _text(":")), "-")


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _mix(values: Hashes) -> Hashes:
    """Returns SplitMix64's finalizer of each value (Steele, Lea and Flood, 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
