from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prx_assets.raw_images.parquet import check_file, embedding_length, read
from prx_assets.raw_images.source_row import SourceRow
from prx_assets.raw_images.spec import ColumnMap
from prx_resources.errors import ManifestError, SourceReadError

IMAGE = ColumnMap(image="image")


def rows_of(path: Path, table: pa.Table, columns: ColumnMap, limit: int = 1000) -> list[SourceRow]:
    pq.write_table(table, path, row_group_size=2)
    return list(read(path, columns, limit))


def test_columns_are_mapped(tmp_path: Path) -> None:
    table = pa.table(
        {
            "key": [11, 12, None],
            "image": pa.array([b"a", b"b", None], pa.large_binary()),
            "text": ["A cat.", "", None],
            "clip": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float16())),
            "tags": [["x"], [], None],
            "unused": [1, 2, 3],
        }
    )
    columns = ColumnMap("key", "image", "text", "clip", ("tags",))
    one, two, three = rows_of(tmp_path / "a.parquet", table, columns)
    assert (one.row, one.key, one.data, one.caption) == (0, "11", b"a", "A cat.")
    assert (one.embedding, one.metadata) == ([1.0, 2.0], {"tags": ["x"]})
    assert (two.row, two.caption, two.embedding) == (1, None, None)
    assert (three.row, three.key, three.data, three.set_aside) == (2, None, None, "decode")
    assert str(three.detail).startswith("no_image: ")


def test_hugging_face_structs(tmp_path: Path) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    values = [
        {"bytes": b"abc", "path": "x.jpg"},
        {"bytes": None, "path": "x.jpg"},
        None,
        {"bytes": b"z" * 2000, "path": None},
    ]
    got = rows_of(tmp_path / "a.parquet", pa.table({"image": pa.array(values, kind)}), IMAGE)
    assert [row.data for row in got] == [b"abc", None, None, None]
    assert "names the file 'x.jpg' but has no bytes" in str(got[1].detail)
    assert str(got[3].detail).startswith("too_large: ")


@pytest.mark.parametrize(
    ("columns", "what", "fix"),
    [
        (ColumnMap(image="imagee"), "no column 'imagee'", "did you mean 'image'?"),
        (ColumnMap(image="image", caption="captoin"), "columns.caption", "did you mean 'caption'"),
        (ColumnMap(image="image", metadata=("camera",)), "columns.metadata", "the file has: "),
        (ColumnMap(image="caption"), "'caption' is string and can't be `columns.image`", "bytes"),
        (ColumnMap(image="image", caption="image"), "can't be `columns.caption`", "text"),
        (ColumnMap(image="image", embedding="caption"), "columns.embedding", "lists of floats"),
        (ColumnMap(image="image", id="score"), "`columns.id`", "text or integers"),
    ],
)
def test_a_wrong_schema_is_refused(tmp_path: Path, columns: ColumnMap, what: str, fix: str) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"image": [b"a"], "caption": ["c"], "score": [0.5]})
    pq.write_table(table, path)
    with pytest.raises(ManifestError, match="column") as caught:
        check_file(path, columns)
    assert what in caught.value.what
    assert fix in caught.value.fix
    assert caught.value.where == str(path)
    with pytest.raises(ManifestError):
        list(read(path, columns, 10))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"not parquet at all", b"PAR1" + b"\0" * 64])
def test_a_damaged_file_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    for call in (
        lambda: list(read(path, IMAGE, 10)),
        lambda: check_file(path, IMAGE),
        lambda: embedding_length(path, "e"),
    ):
        with pytest.raises(SourceReadError) as caught:
            call()
        assert caught.value.where == str(path)


def test_damage_in_the_middle_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    images = [bytes([n]) * 5000 for n in range(20)]
    pq.write_table(pa.table({"image": images}), path, row_group_size=5, compression="zstd")
    data = bytearray(path.read_bytes())
    data[len(data) // 3 : len(data) // 3 + 60] = b"\xff" * 60
    path.write_bytes(bytes(data))
    with pytest.raises(SourceReadError):
        list(read(path, IMAGE, 100_000))


def test_embedding_length(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    fixed = pa.FixedSizeListArray.from_arrays(pa.array([1.0] * 6, pa.float32()), 3)
    pq.write_table(pa.table({"e": fixed}), path)
    assert embedding_length(path, "e") == 3
    assert embedding_length(path, "f") is None
    pq.write_table(pa.table({"e": pa.array([None, [], [1.0, 2.0]], pa.list_(pa.float64()))}), path)
    assert embedding_length(path, "e") == 2
    pq.write_table(pa.table({"e": pa.array([None], pa.list_(pa.float64()))}), path)
    assert embedding_length(path, "e") is None


def test_text_that_is_no_utf8_is_kept_readable(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(b"\0\0\0\0\4\0\0\0\6\0\0\0"), pa.py_buffer(b"caf\xe9ok")],
    )
    table = pa.table({"image": [b"a", b"b"], "caption": broken})
    got = rows_of(tmp_path / "a.parquet", table, ColumnMap(image="image", caption="caption"))
    assert [row.caption for row in got] == ["caf�", "ok"]
