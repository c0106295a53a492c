"""Parquet files with a column of encoded images, read row group by row group."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from prx_assets.raw_images.folder import too_large
from prx_assets.raw_images.source_row import SourceRow, text_of
from prx_assets.raw_images.spec import ColumnMap
from prx_resources.errors import ManifestError, SourceReadError

_BATCH_BYTES = 32 << 20
_MAX_BATCH_ROWS = 512


def read(path: Path, columns: ColumnMap, max_image_bytes: int) -> Iterator[SourceRow]:
    """Yields every row of the file.

    Args:
        path: The file.
        columns: Where values are; `image` must be set.
        max_image_bytes: Larger images are set aside.

    Raises:
        ManifestError: A column isn't there or can't hold what the manifest says.
        SourceReadError: The file is damaged.
    """
    number = 0
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20) as file:
            check_schema(file.schema_arrow, columns, str(path))
            for group in range(file.num_row_groups):
                batches = file.iter_batches(
                    _batch_rows(file, group),
                    row_groups=[group],
                    columns=_leaves(file.schema_arrow, columns),
                    use_threads=False,
                )
                for batch in batches:
                    for values in _rows(batch):
                        yield _row(number, values, columns, max_image_bytes)
                        number += 1
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise _damaged(path, error) from error


def check_schema(schema: pa.Schema, columns: ColumnMap, where: str) -> None:
    """Refuses a file that lacks what the manifest names.

    Raises:
        ManifestError: Names the column and what there is instead.
    """
    single = {key: getattr(columns, key) for key in ("id", "image", "caption", "embedding")}
    wanted = {key: name for key, name in single.items() if name is not None}
    for key, name in [*wanted.items(), *(("metadata", name) for name in columns.metadata)]:
        if name not in schema.names:
            near = difflib.get_close_matches(name, schema.names, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ManifestError(
                f"there is no column {name!r}, which the manifest names as `columns.{key}`",
                where=where,
                fix=f"{hint}the file has: {', '.join(schema.names)}",
            )
    for key, name in wanted.items():
        kind = schema.field(name).type
        # A column without a single value has no type.
        if not (pa.types.is_null(kind) or _FITS[key](kind)):
            raise ManifestError(
                f"the column {name!r} is {kind} and can't be `columns.{key}`",
                where=where,
                fix=f"name a column with {_EXPECTED[key]} in the source's manifest",
            )


def check_file(path: Path, columns: ColumnMap) -> None:
    """Reads the file's footer and refuses it like `check_schema`.

    Raises:
        SourceReadError: The file is damaged.
    """
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error
    check_schema(schema, columns, str(path))


def embedding_length(path: Path, column: str) -> int | None:
    """Returns the length of the file's vectors, None if it has none.

    Raises:
        SourceReadError: The file is damaged.
    """
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20) as file:
            if column not in file.schema_arrow.names:
                return None
            kind = file.schema_arrow.field(column).type
            if pa.types.is_fixed_size_list(kind):
                return int(kind.list_size)
            for batch in file.iter_batches(_MAX_BATCH_ROWS, columns=[column], use_threads=False):
                for value in batch.column(0):
                    if value.is_valid and len(value):
                        return len(value)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error
    return None


def _batch_rows(file: pq.ParquetFile, group: int) -> int:
    about = file.metadata.row_group(group)
    mean = about.total_byte_size // max(1, about.num_rows)
    return int(max(1, min(_MAX_BATCH_ROWS, _BATCH_BYTES // max(1, mean))))


def _leaves(schema: pa.Schema, columns: ColumnMap) -> list[str]:
    named = [columns.id, columns.caption, columns.embedding, columns.image, *columns.metadata]
    return [name for name in schema.names if name in named]


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    # Row by row: a whole batch of Python lists of floats is many times its Arrow size.
    for index in range(batch.num_rows):
        yield {
            name: _python(batch.column(position)[index])
            for position, name in enumerate(batch.schema.names)
        }


def _python(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (UnicodeDecodeError, ValueError, OverflowError):
        buffer = getattr(scalar, "as_buffer", None)
        return buffer().to_pybytes().decode("utf-8", "replace") if buffer else None


def _row(number: int, values: dict[str, Any], columns: ColumnMap, limit: int) -> SourceRow:
    image = values.get(columns.image or "")
    if isinstance(image, dict):  # how Hugging Face's `datasets` keeps images
        path, image = image.get("path"), image.get("bytes")
        missing = f"no_image: the row names the file {path!r} but has no bytes" if path else None
    else:
        missing = None
    said: dict[str, Any] = {
        "key": text_of(values.get(columns.id or "")),
        "caption": text_of(values.get(columns.caption or "")),
        "embedding": values.get(columns.embedding or ""),
        "metadata": {name: values.get(name) for name in columns.metadata},
    }
    if image is None:
        detail = missing or "no_image: the row has no image bytes"
        return SourceRow(number, None, "decode", detail, **said)
    if len(image) > limit:
        return SourceRow(number, None, "decode", too_large(len(image), limit), **said)
    return SourceRow(number, image, **said)


def _damaged(path: Path, error: Exception) -> SourceReadError:
    return SourceReadError(
        f"the Parquet file can't be read: {' '.join(str(error).split())[:200]}",
        where=str(path),
        fix="copy it again from where it came from, or remove it from the source",
    )


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    )


def _is_image(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind):
        return _is_binary(kind)
    index = kind.get_field_index("bytes")
    return index >= 0 and _is_binary(kind.field(index).type)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_dictionary(kind):
        kind = kind.value_type
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in text)


def _is_key(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) or (_is_text(kind) and not pa.types.is_list(kind))


def _is_vector(kind: pa.DataType) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in lists) and bool(pa.types.is_floating(kind.value_type))


_FITS = {"id": _is_key, "image": _is_image, "caption": _is_text, "embedding": _is_vector}
_EXPECTED = {
    "id": "text or integers",
    "image": "encoded bytes, or a struct with a field `bytes`",
    "caption": "text",
    "embedding": "lists of floats",
}
