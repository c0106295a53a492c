"""Chunks: finished work of a stage that no commit holds yet.

A chunk is the work inside one aligned range of row ids, one Arrow IPC file, written put-if-absent
below `chunks/<stage>/<source>/<row_fp>/`. Its name tells the range and what it was computed from,
so the same work has the same name, and changed content another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from prx_resources.lake import Lake


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
        raise NotImplementedError

    def keys(self) -> list[str]:
        """Returns the keys of all chunks, sorted."""
        raise NotImplementedError

    def finished(self) -> pa.Table:
        """Returns `_rowid`, `content_sha256` and `input` of every row in a readable chunk."""
        raise NotImplementedError

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Yields key and rows of every readable chunk; an unreadable one counts as not written."""
        raise NotImplementedError

    def delete(self, keys: Iterable[str]) -> None:
        """Removes chunks. Only after a commit that holds their rows was read back."""
        raise NotImplementedError
