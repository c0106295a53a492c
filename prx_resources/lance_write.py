"""Writing an image table's fragments: files that no version shows until a commit names them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
from lance.fragment import write_fragments

from prx_resources.columns import STAGE_GROUPS


def write_fragment(uri: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Writes rows as fragments that no version of the table shows yet.

    Args:
        uri: The table, which exists.
        schema: `image_schema(...)`.
        batches: The rows, all with the same columns; nullable ones may be left out. `image` may be
            plain binary: it is stored as blob v2.

    Returns:
        Fragments as JSON, for `commit_append` or `replace_rows`.
    """
    source = iter(batches)
    first = next(source, None)
    if first is None:
        return []
    # A stage's columns stay out of the files until it writes them; but columns that are written
    # together later must stand together from the start.
    absent = {
        name
        for group in STAGE_GROUPS.values()
        if not set(group.names) & set(first.schema.names)
        for name in group.names
    }
    present = pa.schema([field for field in schema if field.name not in absent])

    def cast() -> Iterator[pa.RecordBatch]:
        yield _as(first, present)
        for batch in source:
            yield _as(batch, present)

    reader = pa.RecordBatchReader.from_batches(present, cast())
    fragments = write_fragments(reader, uri, mode="append", max_rows_per_file=2**31)
    return [json.dumps(fragment.to_json()) for fragment in fragments]


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(batch.schema.get_field_index(field.name))
        if field.name == "image" and not isinstance(column.type, pa.BaseExtensionType):
            column = _blobs(column, field.type)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _blobs(data: pa.Array, kind: pa.DataType) -> pa.Array:
    rows, storage = len(data), kind.storage_type
    fields = [storage.field(i) for i in range(storage.num_fields)]
    values = [data.cast(pa.large_binary()), *(pa.nulls(rows, field.type) for field in fields[1:])]
    struct = pa.StructArray.from_arrays(values, fields=fields, mask=data.is_null())
    return pa.ExtensionArray.from_storage(kind, struct)
