"""A source's row to the image table's row: identity, content hash, facts about the image."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from prx_assets.image.decode import DecodeError, inspect
from prx_assets.raw_images.source_row import NOTE, SourceRow, json_text
from prx_resources.columns import INGEST_FIELDS, SET_ASIDE_FIELDS

MAX_ID_BYTES = 200
_BATCH_BYTES = 32 << 20
_BATCH_ROWS = 1024
_SAFE_KEY = re.compile(r"[A-Za-z0-9._/-]+")


@dataclass(frozen=True)
class RowBuilder:
    """Builds table rows of one source file.

    Attributes:
        source: The source's name.
        source_file: Path below the source's folder.
        source_fp: The file's fingerprint.
        max_pixels: Images with more are set aside.
        embedding_dim: Length of vectors in the table; None if it has no such column.
    """

    source: str
    source_file: str
    source_fp: str
    max_pixels: int
    embedding_dim: int | None = None

    def table_row(self, row: SourceRow) -> dict[str, Any]:
        """Returns the row as the image table keeps it; an image that can't be read is set aside."""
        content = None if row.data is None else hashlib.sha256(row.data).hexdigest()
        # With nothing to hash, the place keeps rows apart.
        key = row.key or (content or _hashed(f"{self.source_file}\0{row.row}"))[:24]
        notes = list(row.notes)
        made: dict[str, Any] = {
            "image_id": image_id(self.source, key),
            "source_file": self.source_file,
            "source_fp": self.source_fp,
            "source_row": row.row,
            "image": row.data,
            "content_sha256": content,
            "bytes": None if row.data is None else len(row.data),
            "original_caption": row.caption,
            "set_aside": row.set_aside,
            "set_aside_detail": row.detail,
        }
        if self.embedding_dim is not None:
            made["embedding"] = self._embedding(row, notes)
        if row.set_aside is None and row.data is not None:
            made.update(self._facts(row.data))
        noted = {NOTE: notes} if notes else {}
        made["metadata"] = json_text({**row.metadata, **noted})
        return made

    def _facts(self, data: bytes) -> dict[str, Any]:
        try:
            found = inspect(data, max_pixels=self.max_pixels)
        except DecodeError as error:
            return {"set_aside": "decode", "set_aside_detail": error.reason}
        return {**vars(found), "pixels": found.width * found.height}

    def _embedding(self, row: SourceRow, notes: list[str]) -> list[float] | None:
        if row.embedding is None:
            return None
        try:
            vector = [float(value) for value in row.embedding]
        except (TypeError, ValueError):
            vector = [math.nan]
        if not all(map(math.isfinite, vector)):
            notes.append("the embedding was left out: it isn't all finite numbers")
            return None
        if len(vector) != self.embedding_dim:
            notes.append(
                f"the embedding was left out: {len(vector)} values instead of the usual"
                f" {self.embedding_dim}"
            )
            return None
        return vector


def image_id(source: str, key: str) -> str:
    """Returns `<source>/<key>`, with the key hashed where it is long or has odd characters."""
    wanted = f"{source}/{key}"
    odd = any(part in ("", ".", "..") for part in key.split("/"))
    if odd or _SAFE_KEY.fullmatch(key) is None or len(wanted) > MAX_ID_BYTES:
        return f"{source}/{_hashed(key)}"
    return wanted


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def row_schema(embedding_dim: int | None) -> pa.Schema:
    """Returns the schema of the batches that ingest writes; `image` is plain bytes."""
    fields = [*INGEST_FIELDS, pa.field("image", pa.large_binary()), *SET_ASIDE_FIELDS]
    if embedding_dim is not None:
        fields.append(pa.field("embedding", pa.list_(pa.float32(), embedding_dim)))
    return pa.schema(fields)


def batches(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Packs rows into batches of at most 1024 rows and about 32 MiB of images."""
    waiting: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += row["bytes"] or 0
        if size >= _BATCH_BYTES or len(waiting) >= _BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(waiting, schema=schema)
            waiting, size = [], 0
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=schema)
