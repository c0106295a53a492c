from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from prx_resources.chunks import ChunkStore
from prx_resources.lake import Lake


@pytest.fixture
def chunks(tmp_path: Path) -> ChunkStore:
    return ChunkStore(Lake(str(tmp_path)), "captions", "s", "0123")


def rows(*numbers: int, value: str = "v", content: str = "c") -> pa.Table:
    return pa.table(
        {
            "_rowid": pa.array(numbers, pa.uint64()),
            "image_id": [f"s/{number}" for number in numbers],
            "content_sha256": [content] * len(numbers),
            "input": [content] * len(numbers),
            "caption": [value] * len(numbers),
        }
    )


def test_what_is_written_is_finished(chunks: ChunkStore) -> None:
    assert chunks.finished().num_rows == 0
    chunks.write(4, rows(4, 6))
    chunks.write(0, rows(1))
    assert chunks.finished().to_pylist() == [
        {"_rowid": row, "content_sha256": "c", "input": "c"} for row in (1, 4, 6)
    ]
    assert [table["caption"].to_pylist() for _, table in chunks.tables()] == [["v"], ["v", "v"]]


def test_the_first_to_write_a_range_stays(chunks: ChunkStore) -> None:
    key = chunks.write(0, rows(0, 1, value="first"))
    assert chunks.write(0, rows(0, 1, value="second")) == key
    ((_, table),) = chunks.tables()
    assert table["caption"].to_pylist() == ["first", "first"]


def test_other_content_or_rows_are_another_chunk(chunks: ChunkStore) -> None:
    keys = {
        chunks.write(0, rows(0, 1)),
        chunks.write(0, rows(0, 1, content="d")),
        chunks.write(0, rows(0)),
        chunks.write(4, rows(4, 5)),
    }
    assert chunks.keys() == sorted(keys)
    assert len(keys) == 4


def test_a_chunk_cut_short_counts_as_not_written_and_is_repaired(chunks: ChunkStore) -> None:
    key = chunks.write(0, rows(0, 1))
    store = chunks.lake.store
    data = store.get(key)
    for size in (0, 10, len(data) // 2, len(data) - 1):
        store.replace(key, data[:size])
        assert chunks.finished().num_rows == 0
    chunks.write(0, rows(0, 1))
    assert chunks.finished().num_rows == 2


def test_deleted_chunks_are_gone(chunks: ChunkStore) -> None:
    key, other = chunks.write(0, rows(0)), chunks.write(4, rows(4))
    chunks.delete([key, key])
    assert chunks.keys() == [other]
    assert list(chunks.tables([key])) == []
