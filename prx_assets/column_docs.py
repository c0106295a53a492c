"""What each column means and where it comes from, as Dagster shows it.

`prx_resources.columns` holds the Arrow fields; this page repeats their names and types, because
the code location must load without pyarrow (a test compares the two).
"""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg


@dataclass(frozen=True)
class ColumnDoc:
    """One column for people.

    Attributes:
        name: The column.
        type: Arrow's name of its type.
        text: What it holds.
        reads: (asset, column) pairs that the value is computed from.
    """

    name: str
    type: str
    text: str
    reads: tuple[tuple[str, str], ...] = ()


_PIXELS = (("raw_images", "image"),)
_CAPTION = (("captions", "caption"),)

RAW_IMAGES = (
    ColumnDoc("image_id", "string", "`<source>/<key>`; never a position or file name"),
    ColumnDoc("source_file", "string", "File of the source, relative to its `uri`"),
    ColumnDoc("source_fp", "string", "Fingerprint of that file when it was read"),
    ColumnDoc("source_row", "int64", "Row or member within the file"),
    ColumnDoc("content_sha256", "string", "SHA-256 of the image's bytes"),
    ColumnDoc("image", "blob", "The image's bytes as the source holds them"),
    ColumnDoc("format", "string", "Format found in the bytes, whatever the file is called"),
    ColumnDoc("mode", "string", "Colour mode before the conversion to RGB"),
    ColumnDoc("width", "int32", "Width after EXIF rotation"),
    ColumnDoc("height", "int32", "Height after EXIF rotation"),
    ColumnDoc("pixels", "int64", "width x height"),
    ColumnDoc("bytes", "int64", "Size of the image's bytes"),
    ColumnDoc("jpeg_quality", "int16", "Quality estimated from the quantisation tables"),
    ColumnDoc("original_caption", "string", "The source's caption; for exploration only"),
    ColumnDoc("metadata", "string", "The source's other columns as JSON"),
    ColumnDoc("set_aside", "string", "Null, or why the row isn't used"),
    ColumnDoc("set_aside_detail", "string", "The reason in full"),
)
PERCEPTUAL_HASHES = (
    ColumnDoc("phash", "uint64", "DCT hash of the luminance", _PIXELS),
    ColumnDoc("signature", "fixed_size_binary[48]", "Mean RGB of a 4x4 grid", _PIXELS),
    ColumnDoc("phash_flat", "bool", "Too little contrast to be compared", _PIXELS),
    ColumnDoc("phash_error", "string", "Why the row has no hash"),
    ColumnDoc("phash_fp", "string", "Identity of the values"),
)
CAPTIONS = (
    ColumnDoc("caption", "string", "What is visible, in one paragraph", _PIXELS),
    ColumnDoc("caption_model", "string", "Engine, model and revision that wrote it"),
    ColumnDoc("caption_gates", "string", "Quality gates the caption failed", _CAPTION),
    ColumnDoc("caption_error", "string", "Why the row has no caption"),
    ColumnDoc("caption_fp", "string", "Identity of the values"),
)
CAPTION_LABELS = (
    ColumnDoc("label", "string", "visual, text or nsfw", _CAPTION),
    ColumnDoc("label_confidence", "float", "The engine's confidence, 0 to 1", _CAPTION),
    ColumnDoc("label_model", "string", "Engine, model and revision that chose it"),
    ColumnDoc("label_error", "string", "Why the row has no label"),
    ColumnDoc("label_fp", "string", "Identity of the values"),
    ColumnDoc("label_input", "string", "Digest of the caption it belongs to", _CAPTION),
)
MDS_SHARDS = (
    ColumnDoc("image", "jpeg", "RGB, bucket size, JPEG quality 92", _PIXELS),
    ColumnDoc("caption", "str", "The caption", _CAPTION),
    ColumnDoc("width", "int", "Width of the bucket"),
    ColumnDoc("height", "int", "Height of the bucket"),
    ColumnDoc("original_width", "int", "Before resizing", (("raw_images", "width"),)),
    ColumnDoc("original_height", "int", "Before resizing", (("raw_images", "height"),)),
    ColumnDoc("id", "str", "`image_id`", (("raw_images", "image_id"),)),
    ColumnDoc("source", "str", "The source's name"),
)
DUPLICATES = (
    ColumnDoc("image_id", "string", "The image", (("raw_images", "image_id"),)),
    ColumnDoc(
        "group",
        "string",
        "Shared by the copies of one image; null if there is no copy",
        (("perceptual_hashes", "phash"), ("perceptual_hashes", "signature")),
    ),
    ColumnDoc("rank", "int32", "0 for the copy to keep", (("raw_images", "pixels"),)),
    ColumnDoc("phash", "uint64", "The hash that was compared", (("perceptual_hashes", "phash"),)),
    ColumnDoc(
        "phash_flat",
        "bool",
        "Whether only equal files matched",
        (("perceptual_hashes", "phash_flat"),),
    ),
    ColumnDoc(
        "content_sha256",
        "string",
        "The file that was compared",
        (("raw_images", "content_sha256"),),
    ),
)

COLUMNS: dict[str, tuple[ColumnDoc, ...]] = {
    "raw_images": RAW_IMAGES,
    "perceptual_hashes": PERCEPTUAL_HASHES,
    "captions": CAPTIONS,
    "caption_labels": CAPTION_LABELS,
    "mds_shards": MDS_SHARDS,
    "duplicates": DUPLICATES,
}


def column_schema(asset: str) -> dg.TableSchema | None:
    """Returns the columns an asset writes, or None if it writes no columns."""
    columns = COLUMNS.get(asset)
    if columns is None:
        return None
    return dg.TableSchema(
        columns=[dg.TableColumn(c.name, type=c.type, description=c.text) for c in columns]
    )


def column_lineage(asset: str) -> dg.TableColumnLineage | None:
    """Returns which columns of other assets an asset's columns come from."""
    deps = {
        column.name: [
            dg.TableColumnDep(asset_key=key, column_name=name) for key, name in column.reads
        ]
        for column in COLUMNS.get(asset, ())
        if column.reads
    }
    return dg.TableColumnLineage(deps_by_column=deps) if deps else None
