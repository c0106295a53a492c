from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prx_assets.raw_images.spec import CHECKS, ColumnMap
from prx_resources import lance_table
from prx_resources.columns import CAPTIONS
from prx_resources.errors import ManifestError, SourceReadError, UnknownError
from prx_resources.lake import Lake
from prx_resources.lease import lease

from .conftest import Source
from .test_webdataset import tar_bytes

MakePicture = Callable[..., bytes]


class NoReaders:
    """Stands for Ray where nothing must be read."""

    workers = 1

    def read(self, groups: object) -> object:
        raise AssertionError("files are read")


def put(source: Source, name: str, data: bytes, seconds: int = 1_700_000_000) -> None:
    path = source.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (seconds, seconds))


def caption_all(source: Source) -> None:
    """Gives every row a caption, as a stage would."""
    table = lance_table.open_latest(source.uri).to_table(
        columns=["image_id", "content_sha256"], with_row_id=True
    )
    fields = {
        field.name: pa.array(
            [f"caption of {key}" for key in table["image_id"].to_pylist()]
            if field.name == "caption"
            else ["x"] * table.num_rows,
            pa.string(),
        )
        for field in CAPTIONS.fields
    }
    values = pa.table({"_rowid": table["_rowid"], "content_sha256": table["content_sha256"]})
    for name, column in fields.items():
        values = values.append_column(name, column)
    with lease(Lake(str(source.lake)).store, f"images/{source.name}", "test") as held:
        version = lance_table.commit_columns(source.uri, CAPTIONS, values, held)
        lance_table.publish(source.uri, version, held)


def test_a_folder_becomes_rows_and_then_nothing_is_due(
    source: Source, make_picture: MakePicture
) -> None:
    for n in range(5):
        put(source, f"{n}.jpg", make_picture(n))
    put(source, "0.txt", b"A cat.")
    put(source, "broken.png", b"\x89PNG\r\n\x1a\nrubbish")
    result = source.ingest(source.spec(tuning={"files_per_task": 2}))
    assert (result.rows_in, result.rows_out, result.set_aside, result.done) == (
        6,
        5,
        {"decode": 1},
        6,
    )
    assert [check.name for check in result.checks] == [name for name, _, _ in CHECKS]
    assert {check.name for check in result.checks if not check.passed} == {"rows_set_aside"}
    rows = source.rows()
    assert [row["image"] for row in rows[:5]] == [make_picture(n) for n in range(5)]
    assert rows[0]["original_caption"] == "A cat."
    assert rows[5]["set_aside_detail"].startswith("corrupt: ")
    version = source.table().version

    again = source.ingest(source.spec(), NoReaders())  # type: ignore[arg-type]
    assert (again.done, again.data_version) == (0, result.data_version)
    assert lance_table.open_latest(source.uri).version == version


def test_only_new_files_are_read(source: Source, make_picture: MakePicture) -> None:
    put(source, "a.jpg", make_picture(1))
    first = source.ingest(source.spec())
    put(source, "sub/b.jpg", make_picture(2))
    second = source.ingest(source.spec())
    assert (second.done, second.rows_in) == (1, 2)
    assert second.data_version != first.data_version


def test_a_replaced_file_keeps_captions_of_unchanged_content(
    source: Source, make_picture: MakePicture
) -> None:
    put(source, "a.jpg", make_picture(1))
    put(source, "b.jpg", make_picture(2))
    put(source, "c.jpg", make_picture(3))
    source.ingest(source.spec())
    caption_all(source)
    before = source.column("caption")
    put(source, "a.txt", b"new words")  # a's caption changes, not its content
    put(source, "b.jpg", make_picture(9), 1_700_000_001)
    result = source.ingest(source.spec())
    assert result.done == 2
    assert source.column("original_caption")["a.jpg"] == "new words"
    assert source.column("caption") == {**before, "b.jpg": None}
    assert source.column("image")["b.jpg"] == make_picture(9)
    assert result.rows_in == 3


def test_vanished_files_keep_their_rows_and_warn(source: Source, make_picture: MakePicture) -> None:
    for n in range(3):
        put(source, f"{n}.jpg", make_picture(n))
    source.ingest(source.spec())
    for n in range(3):
        (source.folder / f"{n}.jpg").unlink()
        result = source.ingest(source.spec(), NoReaders())  # type: ignore[arg-type]
        check = {check.name: check for check in result.checks}["vanished_files"]
        assert (check.passed, check.warn, result.rows_in) == (False, True, 3)
        assert len(check.metadata["files"].value) == n + 1


def test_redo_reads_everything_again(source: Source, make_picture: MakePicture) -> None:
    put(source, "a.jpg", make_picture(1))
    one = source.ingest(source.spec())
    again = source.ingest(source.spec(redo=True))
    assert (again.done, again.rows_in, again.data_version) == (1, 1, one.data_version)


def test_retry_reads_files_with_such_rows_again(source: Source, make_picture: MakePicture) -> None:
    put(source, "large.jpg", make_picture(1, side=64))
    put(source, "small.jpg", make_picture(2))
    assert source.ingest(source.spec(max_pixels=1000)).set_aside == {"decode": 1}
    result = source.ingest(source.spec(retry_failed=("decode",)))
    assert (result.done, result.rows_out, result.set_aside) == (1, 2, {})


def parquet(keys: list[str], images: list[bytes]) -> bytes:
    sink = pa.BufferOutputStream()
    vectors = pa.array([[1.0, 2.0] for _ in keys], pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": keys, "image": images, "clip": vectors}), sink)
    return bytes(sink.getvalue())


KEYED = ColumnMap(id="id", image="image", embedding="clip")


def test_the_first_row_of_a_key_stays(source: Source, make_picture: MakePicture) -> None:
    put(source, "b.parquet", parquet(["x", "y", "x"], [make_picture(n) for n in range(3)]))
    source.ingest(source.spec("parquet", KEYED))
    put(source, "c.parquet", parquet(["y", "z"], [make_picture(n) for n in (3, 4)]))
    result = source.ingest(source.spec("parquet", KEYED))
    assert result.set_aside == {"duplicate_key": 2}
    kept = [(r["source_file"], r["source_row"]) for r in source.rows() if r["set_aside"] is None]
    assert kept == [("b.parquet", 0), ("b.parquet", 1), ("c.parquet", 1)]

    # An earlier file with the key takes it over; a replaced file gives it back.
    put(source, "a.parquet", parquet(["x"], [make_picture(5)]))
    put(source, "b.parquet", parquet(["w", "x"], [make_picture(n) for n in (6, 7)]), 1)
    source.ingest(source.spec("parquet", KEYED))
    aside = {(r["source_file"], r["source_row"]): r["set_aside"] for r in source.rows()}
    assert aside == {
        ("a.parquet", 0): None,
        ("b.parquet", 0): None,
        ("b.parquet", 1): "duplicate_key",
        ("c.parquet", 0): None,
        ("c.parquet", 1): None,
    }


def test_an_undecodable_row_does_not_take_a_key(source: Source, make_picture: MakePicture) -> None:
    put(source, "a.parquet", parquet(["x", "x"], [b"broken", make_picture(1)]))
    result = source.ingest(source.spec("parquet", KEYED))
    assert (result.rows_out, result.set_aside) == (1, {"decode": 1})


def test_embeddings_become_a_column_of_fixed_length(
    source: Source, make_picture: MakePicture
) -> None:
    put(source, "a.parquet", parquet(["x"], [make_picture(1)]))
    source.ingest(source.spec("parquet", KEYED))
    assert source.table().schema.field("embedding").type == pa.list_(pa.float32(), 2)
    assert source.rows()[0]["embedding"] == [1.0, 2.0]


def test_tars(source: Source, make_picture: MakePicture) -> None:
    put(source, "0.tar", tar_bytes([("1.txt", b"cat"), ("1.jpg", make_picture(1))]))
    put(source, "1.tar", tar_bytes([("../1.jpg", make_picture(2)), ("2.jpg", make_picture(3))]))
    put(source, "2.tar", tar_bytes([("readme.txt", b"nothing here")]))
    result = source.ingest(source.spec("webdataset"))
    assert (result.rows_in, result.set_aside) == (3, {"refused": 1})
    assert result.metadata["files_without_images"].value == 1
    again = source.ingest(source.spec("webdataset"), NoReaders())  # type: ignore[arg-type]
    assert again.done == 0


def test_a_file_that_loses_its_images_loses_its_rows(
    source: Source, make_picture: MakePicture
) -> None:
    put(source, "0.tar", tar_bytes([("1.jpg", make_picture(1))]))
    put(source, "1.tar", tar_bytes([("2.jpg", make_picture(2))]))
    source.ingest(source.spec("webdataset"))
    put(source, "0.tar", tar_bytes([("1.txt", b"cat")]), 5)
    assert source.ingest(source.spec("webdataset")).rows_in == 1
    put(source, "0.tar", tar_bytes([("1.jpg", make_picture(1))]), 9)
    assert source.ingest(source.spec("webdataset")).rows_in == 2


def test_an_unreadable_file_leaves_no_row_and_holds_up_no_other(
    source: Source, make_picture: MakePicture
) -> None:
    many = [(f"{n}.jpg", make_picture(n)) for n in range(1200)]  # more than one batch
    put(source, "0.tar", tar_bytes(many[:3]))
    put(source, "1.tar", tar_bytes(many)[:-12_000])
    put(source, "2.tar", tar_bytes([("x.jpg", make_picture(9999))]))
    with pytest.raises(SourceReadError, match="1 of 3 files") as caught:
        source.ingest(source.spec("webdataset"))
    assert caught.value.where.endswith("1.tar")
    assert {row["source_file"] for row in source.rows()} == {"0.tar", "2.tar"}
    put(source, "1.tar", tar_bytes(many))
    result = source.ingest(source.spec("webdataset"))
    assert result.done == 1200
    assert result.set_aside == {"duplicate_key": 3}


def test_damage_found_after_rows_were_handed_over(
    source: Source, make_picture: MakePicture
) -> None:
    images = [make_picture(n) + os.urandom(4000) for n in range(3000)]
    put(source, "0.parquet", parquet([f"good{n}" for n in range(3)], images[:3]))
    pq.write_table(
        pa.table(
            {"id": [f"k{n}" for n in range(3000)], "image": images, "clip": [[1.0, 2.0]] * 3000}
        ),
        source.folder / "1.parquet",
        row_group_size=1500,
        compression="zstd",
    )
    data = bytearray((source.folder / "1.parquet").read_bytes())
    at = len(data) * 3 // 4
    data[at : at + 20_000] = b"\xff" * 20_000
    (source.folder / "1.parquet").write_bytes(bytes(data))
    with pytest.raises(SourceReadError, match="1 of 2 files"):
        source.ingest(source.spec("parquet", KEYED))
    assert [row["image_id"] for row in source.rows()] == [f"pets/good{n}" for n in range(3)]


def test_a_damaged_first_file_holds_up_no_other(source: Source, make_picture: MakePicture) -> None:
    put(source, "0.parquet", b"rubbish")
    put(source, "1.parquet", parquet(["x"], [make_picture(1)]))
    with pytest.raises(SourceReadError, match="1 of 2 files"):
        source.ingest(source.spec("parquet", KEYED))
    assert source.rows()[0]["embedding"] == [1.0, 2.0]
    put(source, "2.parquet", parquet(["y"], [make_picture(2)]))
    with pytest.raises(SourceReadError, match="1 of 2 files"):
        source.ingest(source.spec("parquet", KEYED))
    assert len(source.rows()) == 2


def test_a_file_that_changes_while_it_is_read_is_refused(
    source: Source, make_picture: MakePicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(source, "a.jpg", make_picture(1))
    monkeypatch.setattr("prx_assets.raw_images.groups.current_fp", lambda *_: "another")
    with pytest.raises(SourceReadError, match="changed while it was read"):
        source.ingest(source.spec())
    with pytest.raises(UnknownError):
        source.table()
    monkeypatch.undo()
    assert source.ingest(source.spec()).rows_in == 1


def test_a_file_that_goes_away_while_others_are_read(
    source: Source, make_picture: MakePicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(source, "a.jpg", make_picture(1))
    put(source, "b.jpg", make_picture(2))
    real = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name == "a.jpg":
            path.unlink(missing_ok=True)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    result = source.ingest(source.spec())
    assert result.rows_in == 1
    assert not {check.name: check.passed for check in result.checks}["vanished_files"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_read_permission(source: Source, make_picture: MakePicture) -> None:
    put(source, "a.jpg", make_picture(1))
    (source.folder / "a.jpg").chmod(0)
    with pytest.raises(SourceReadError, match="Permission denied"):
        source.ingest(source.spec())


def test_wrong_sources_leave_nothing(source: Source, make_picture: MakePicture) -> None:
    with pytest.raises(SourceReadError, match="no file that matches"):
        source.ingest(source.spec())
    put(source, "a.parquet", parquet(["x"], [make_picture(1)]))
    with pytest.raises(ManifestError, match="no column 'img'"):
        source.ingest(source.spec("parquet", ColumnMap(image="img")))
    put(source, "a.parquet", b"rubbish")
    with pytest.raises(SourceReadError, match="Parquet file can't be read"):
        source.ingest(source.spec("parquet", KEYED))
    put(source, "a.tar", b"rubbish")
    with pytest.raises(SourceReadError, match="the tar can't be read"):
        source.ingest(source.spec("webdataset", ColumnMap(embedding="clip")))
    assert not source.lake.exists()


def test_embeddings_cannot_come_later(source: Source, make_picture: MakePicture) -> None:
    put(source, "a.parquet", parquet(["x"], [make_picture(1)]))
    source.ingest(source.spec("parquet", ColumnMap(id="id", image="image")))
    put(source, "b.parquet", parquet(["y"], [make_picture(2)]))
    with pytest.raises(ManifestError, match="without embeddings"):
        source.ingest(source.spec("parquet", KEYED))


def test_fragments_have_the_target_size(source: Source, make_picture: MakePicture) -> None:
    for n in range(10):
        put(source, f"{n}.jpg", make_picture(n))
    source.ingest(source.spec(target_fragment_rows=4))
    sizes = sorted(fragment.count_rows() for fragment in source.table().get_fragments())
    assert sizes == [2, 4, 4]


def test_limits_set_images_aside(source: Source, make_picture: MakePicture) -> None:
    put(source, "a.jpg", make_picture(1, side=32))
    put(source, "b.bmp", make_picture(1, side=8, kind="BMP") + bytes(9000))
    result = source.ingest(source.spec(max_pixels=100, max_image_bytes=5000))
    assert result.set_aside == {"decode": 2}
    details = source.column("set_aside_detail")
    assert details["a.jpg"].startswith("too_many_pixels: ")
    assert details["b.bmp"].startswith("too_large: ")
