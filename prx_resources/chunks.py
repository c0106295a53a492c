"""Chunks: finished work of a stage that no commit holds yet.

A chunk is the work inside one aligned range of row ids, one Arrow IPC file, written put-if-absent
below `chunks/<stage>/<source>/<row_fp>/`. Its name tells the range and what it was computed from,
so the same work has the same name, and changed content another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from prx_resources.data_version import rows_version
from prx_resources.lake import Lake

FINISHED = pa.schema(
    [
        pa.field("_rowid", pa.uint64()),
        pa.field("content_sha256", pa.string()),
        pa.field("input", pa.string()),
    ]
)
"""What tells whether a row's work is done: the row, its content, what the value was made from."""


class ChunkStore:
    """The chunks of one stage on one source under one identity.

    Args:
        lake: The lake.
        stage: The stage's name.
        source: The source's name.
        row_fp: Identity of the values.
    """

    def __init__(self, lake: Lake, stage: str, source: str, row_fp: str) -> None:
        self.lake = lake
        self.prefix = lake.chunks_prefix(stage, source, row_fp)

    def write(self, range_start: int, table: pa.Table) -> str:
        """Writes the finished rows of the range that starts at `range_start`.

        Args:
            range_start: First row id of the aligned range.
            table: `_rowid`, `image_id`, `content_sha256`, `input` (what each row was computed
                from), and the values.

        Returns:
            The chunk's key.
        """
        digest = rows_version("chunk", [table.select(["_rowid", "input"])])
        key = f"{self.prefix}/{range_start:012d}-{digest}"
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        data = sink.getvalue().to_pybytes()
        store = self.lake.store
        if not store.put_if_absent(key, data) and _read(store.get(key)) is None:
            # A store's torn object would stand in the way of its own repair for good.
            store.delete(key)
            store.put_if_absent(key, data)
        return key

    def keys(self) -> list[str]:
        """Returns the keys of all chunks, sorted."""
        return self.lake.store.list(self.prefix)

    def finished(self) -> pa.Table:
        """Returns `_rowid`, `content_sha256` and `input` of every row in a readable chunk."""
        parts = [table.select(FINISHED.names).cast(FINISHED) for _, table in self.tables()]
        return pa.concat_tables([FINISHED.empty_table(), *parts])

    def tables(self, keys: Sequence[str] | None = None) -> Iterator[tuple[str, pa.Table]]:
        """Yields key and rows of every readable chunk; an unreadable one counts as not written.

        Args:
            keys: Only these; None for all.
        """
        store = self.lake.store
        for key in self.keys() if keys is None else keys:
            try:
                table = _read(store.get(key))
            except KeyError:
                continue
            if table is not None:
                yield key, table

    def delete(self, keys: Iterable[str]) -> None:
        """Removes chunks. Only after a commit that holds their rows was read back."""
        store = self.lake.store
        for key in keys:
            store.delete(key)


def _read(data: bytes) -> pa.Table | None:
    try:
        return pa.ipc.open_file(pa.py_buffer(data)).read_all()
    except (pa.ArrowInvalid, OSError):
        return None
