"""The hashes of all sources as arrays, and what was read."""

from __future__ import annotations

from dataclasses import dataclass

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prx_assets.duplicates.spec import STAGE
from prx_resources import lance_table
from prx_resources.columns import PERCEPTUAL_HASHES
from prx_resources.data_version import rows_version
from prx_resources.errors import UnknownError
from prx_resources.lake import Lake

_COLUMNS = (
    "image_id",
    "phash",
    "signature",
    "phash_flat",
    "content_sha256",
    "pixels",
    "bytes",
)
COMPARED = "phash IS NOT NULL AND set_aside IS NULL"
"""SQL of the rows that are compared: a row set aside may share its image_id with the one kept."""

_NIBBLE = np.zeros(256, dtype=np.uint8)
_NIBBLE[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


@dataclass(frozen=True)
class Source:
    """One source's published table and what counts of it.

    Attributes:
        name: The source.
        priority: The manifest's.
        ds: The table at the published version; None if nothing is published.
        data_version: Stands for the hashes: their images and the rules they follow.
        identities: Rows with a hash, by the fingerprint of the rules.
        rows: Rows that have a hash.
        unhashed: Rows that should have one and don't.
    """

    name: str
    priority: int
    ds: lance.LanceDataset | None
    data_version: str
    identities: dict[str, int]
    rows: int
    unhashed: int

    def read(self) -> dict[str, object]:
        """Returns the note that the table keeps about this source."""
        return {
            "version": self.ds.version if self.ds else None,
            "data_version": self.data_version,
            "rows": self.rows,
            "priority": self.priority,
        }

    def table(self) -> pa.Table:
        """Reads the rows that are compared."""
        assert self.ds is not None
        scanner = self.ds.scanner(columns=list(_COLUMNS), filter=COMPARED)
        table = scanner.to_table().select(_COLUMNS)
        priority = pa.array(np.full(table.num_rows, self.priority, dtype=np.int64))
        return table.append_column("priority", priority)


def open_source(lake: Lake, name: str, priority: int) -> Source:
    """Opens a source's published table; one that has none yet counts as empty."""
    try:
        ds = lance_table.open_published(lake.images_uri(name))
    except UnknownError:
        return Source(name, priority, None, "", {}, 0, 0)
    columns = ["image_id", "content_sha256", PERCEPTUAL_HASHES.fp]
    hashed = ds.to_table(columns=columns, filter=COMPARED)
    counts = pc.value_counts(hashed[PERCEPTUAL_HASHES.fp]).to_pylist()
    identities = {str(c["values"]): int(c["counts"]) for c in counts}
    version = rows_version(STAGE, [hashed])
    unhashed = ds.count_rows(filter="set_aside IS NULL AND phash IS NULL")
    return Source(name, priority, ds, version, identities, hashed.num_rows, unhashed)


def signatures(table: pa.Table) -> NDArray[np.uint8]:
    """Returns the column `signature` as bytes, shape (rows, 48)."""
    return _fixed(table["signature"], 48)


def contents(table: pa.Table) -> NDArray[np.uint64]:
    """Returns 128 bits of the column `content_sha256`, shape (rows, 2)."""
    digits = pc.utf8_slice_codeunits(table["content_sha256"], 0, 32).cast(pa.binary())
    nibbles = _NIBBLE[_fixed(digits, 32)]
    packed = (nibbles[:, 0::2] << 4) | nibbles[:, 1::2]
    return np.ascontiguousarray(packed).view(np.uint64)


def _fixed(column: pa.ChunkedArray, width: int) -> NDArray[np.uint8]:
    parts = [np.zeros((0, width), dtype=np.uint8)]
    for chunk in column.cast(pa.binary(width)).chunks:
        data = np.frombuffer(chunk.buffers()[1], np.uint8, len(chunk) * width, chunk.offset * width)
        parts.append(data.reshape(-1, width))
    return np.concatenate(parts)
