"""Every column of a source's image table, in one place: names, Arrow types, owners.

A stage owns a group of columns and writes them together. `fp` and `error` columns make progress
and failure data of the row; an `input` column holds the digest of the other column that a value
was computed from.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

INGEST_FIELDS: tuple[pa.Field, ...] = (
    pa.field("image_id", pa.string(), nullable=False),
    pa.field("source_file", pa.string(), nullable=False),
    pa.field("source_fp", pa.string(), nullable=False),
    pa.field("source_row", pa.int64(), nullable=False),
    pa.field("content_sha256", pa.string()),
    # The blob column `image` stands here; `lance_schema` adds it with Lance's own field type.
    pa.field("format", pa.string()),
    pa.field("mode", pa.string()),
    pa.field("width", pa.int32()),
    pa.field("height", pa.int32()),
    pa.field("pixels", pa.int64()),
    pa.field("bytes", pa.int64()),
    pa.field("jpeg_quality", pa.int16()),
    pa.field("original_caption", pa.string()),
    pa.field("metadata", pa.string()),
)
"""Columns written once, at ingest. `embedding` is added when a source brings vectors."""

SET_ASIDE_FIELDS: tuple[pa.Field, ...] = (
    pa.field("set_aside", pa.string()),
    pa.field("set_aside_detail", pa.string()),
)
"""Null, or why the row isn't used: decode, duplicate_key, opted_out, ... and the detail."""


@dataclass(frozen=True)
class ColumnGroup:
    """The columns one stage writes.

    Attributes:
        stage: Owner.
        value: The column whose presence means "done".
        fp: Column with the row fingerprint, set for good and failed rows alike.
        error: Column with the reason a row failed (null for good rows).
        fields: All columns of the group, `value`, `fp`, `error` and `input` among them.
        input: Column with the digest of the input column's text, if the input is a column.
        input_of: That input column.
    """

    stage: str
    value: str
    fp: str
    error: str
    fields: tuple[pa.Field, ...]
    input: str | None = None
    input_of: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns of the group, in order."""
        return tuple(field.name for field in self.fields)


PERCEPTUAL_HASHES = ColumnGroup(
    stage="perceptual_hashes",
    value="phash",
    fp="phash_fp",
    error="phash_error",
    fields=(
        pa.field("phash", pa.uint64()),
        pa.field("signature", pa.binary(48)),
        pa.field("phash_flat", pa.bool_()),
        pa.field("phash_error", pa.string()),
        pa.field("phash_fp", pa.string()),
    ),
)

CAPTIONS = ColumnGroup(
    stage="captions",
    value="caption",
    fp="caption_fp",
    error="caption_error",
    fields=(
        pa.field("caption", pa.string()),
        pa.field("caption_model", pa.string()),
        # Comma-separated names of the quality gates that the caption failed; null if none.
        pa.field("caption_gates", pa.string()),
        pa.field("caption_error", pa.string()),
        pa.field("caption_fp", pa.string()),
    ),
)

CAPTION_LABELS = ColumnGroup(
    stage="caption_labels",
    value="label",
    fp="label_fp",
    error="label_error",
    input="label_input",
    input_of="caption",
    fields=(
        pa.field("label", pa.string()),
        pa.field("label_confidence", pa.float32()),
        pa.field("label_model", pa.string()),
        pa.field("label_error", pa.string()),
        pa.field("label_fp", pa.string()),
        pa.field("label_input", pa.string()),
    ),
)

STAGE_GROUPS: dict[str, ColumnGroup] = {
    group.stage: group for group in (PERCEPTUAL_HASHES, CAPTIONS, CAPTION_LABELS)
}
