from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx_assets.raw_images.source_row import SourceRow
from prx_assets.raw_images.spec import ColumnMap
from prx_assets.raw_images.webdataset import embedding_length, read
from prx_resources.errors import SourceReadError

Members = list[tuple[str, bytes]]
PLAIN = ColumnMap()


def tar_bytes(members: Members, **options: object) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", **options) as tar:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def read_tar(
    folder: Path,
    data: bytes,
    columns: ColumnMap = PLAIN,
    limit: int = 1000,
) -> list[SourceRow]:
    path = folder / "0.tar"
    path.write_bytes(data)
    return list(read(path, columns, limit))


def test_a_sample_and_what_is_beside_it(tmp_path: Path) -> None:
    said = {"uid": "u1", "alt": "A cat.", "vec": [1.0, 2.0], "likes": 3}
    data = tar_bytes(
        [
            ("d/1.json", json.dumps(said).encode()),
            ("d/1.cls", b"7"),
            ("d/1.JPG", b"image"),
            ("d/readme.md", b"no"),
            ("d/2.webp", b"other"),
            ("d/2.txt", b"A dog."),
        ]
    )
    one, two = read_tar(tmp_path, data, ColumnMap(id="uid", caption="alt", embedding="vec"))
    assert (one.row, one.data, one.key, one.caption) == (0, b"image", "u1", "A cat.")
    assert one.embedding == [1.0, 2.0]
    assert one.metadata == {"uid": "u1", "alt": "A cat.", "likes": 3, "cls": "7"}
    assert (two.row, two.data, two.key, two.caption) == (1, b"other", None, "A dog.")
    (one, _) = read_tar(tmp_path, data, ColumnMap(metadata=("likes",)))
    assert one.metadata == {"likes": 3, "cls": "7"}
    assert embedding_length(tmp_path / "0.tar", "vec") == 2
    assert embedding_length(tmp_path / "0.tar", "likes") is None


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 8))
def test_members_in_any_order_give_the_same_samples(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int
) -> None:
    members = [
        member
        for n in range(count)
        for member in ((f"{n}.png", b"image %d" % n), (f"{n}.txt", b"caption %d" % n))
    ]
    random.Random(seed).shuffle(members)
    got = read_tar(tmp_path_factory.mktemp("tar"), tar_bytes(members))
    assert sorted((row.data, row.caption) for row in got) == [
        (b"image %d" % n, f"caption {n}") for n in range(count)
    ]


def test_a_name_that_stands_twice_gives_two_rows(tmp_path: Path) -> None:
    members = [("1.jpg", b"a"), ("1.txt", b"first"), ("1.jpg", b"b"), ("1.txt", b"second")]
    got = read_tar(tmp_path, tar_bytes(members))
    assert [(row.data, row.caption) for row in got] == [(b"a", "first"), (b"b", "second")]


def test_names_with_dots_find_their_sidecars(tmp_path: Path) -> None:
    members = [("a/p.v2.jpg", b"1"), ("a/p.v2.txt", b"own"), ("a/q.big.jpg", b"2")]
    got = read_tar(tmp_path, tar_bytes([*members, ("a/q.txt", b"shared")]))
    assert [row.caption for row in got] == ["own", "shared"]


def test_windows_paths(tmp_path: Path) -> None:
    members = [("set\\1.jpg", b"1"), ("set\\1.txt", b"A cat."), ("C:\\set\\2.jpg", b"2")]
    fine, refused = read_tar(tmp_path, tar_bytes(members))
    assert (fine.data, fine.caption) == (b"1", "A cat.")
    assert (refused.data, refused.set_aside) == (None, "refused")


@pytest.mark.parametrize("name", ["/etc/1.jpg", "../1.jpg", "a/../../1.jpg", "..\\1.jpg"])
def test_unsafe_paths_are_refused(tmp_path: Path, name: str) -> None:
    bad, good = read_tar(tmp_path, tar_bytes([(name, b"1"), ("2.jpg", b"2")]))
    assert (bad.data, bad.set_aside) == (None, "refused")
    assert str(bad.detail).startswith("unsafe_path: ")
    assert good.data == b"2"


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(b"secret")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("1.jpg")
        info.type, info.linkname = kind, str(secret)
        tar.addfile(info)
    (row,) = read_tar(tmp_path, buffer.getvalue())
    assert (row.data, row.set_aside) == (None, "refused")
    assert str(row.detail).startswith("not_a_file: ")


def test_members_over_the_limit_are_not_read(tmp_path: Path) -> None:
    (row,) = read_tar(tmp_path, tar_bytes([("1.jpg", b"x" * 2000), ("1.txt", b"cat")]))
    assert (row.data, row.set_aside, row.caption) == (None, "decode", "cat")
    assert str(row.detail).startswith("too_large: ")


def test_a_tar_without_images_gives_no_row(tmp_path: Path) -> None:
    assert read_tar(tmp_path, tar_bytes([("1.txt", b"x")])) == []
    assert read_tar(tmp_path, tar_bytes([])) == []


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_long_and_foreign_names(tmp_path: Path, kind: int) -> None:
    long = f"{'d' * 60}/{'n' * 60}"
    members = [(f"{long}.jpg", b"1"), (f"{long}.txt", b"cat"), ("ä.jpg", b"2")]
    got = read_tar(tmp_path, tar_bytes(members, format=kind))
    assert [(row.data, row.caption) for row in got] == [(b"1", "cat"), (b"2", None)]


def test_damaged_tars_are_named(tmp_path: Path) -> None:
    whole = tar_bytes([(f"{n}.jpg", bytes([n]) * 700) for n in range(6)])
    damaged = bytearray(whole)
    damaged[3 * 1536 : 3 * 1536 + 512] = b"\xaa" * 512  # the fourth header
    gz = io.BytesIO()
    with tarfile.open(fileobj=gz, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("1.jpg"))
    for data in (b"", b"no tar", whole[:2000], whole[: 1536 + 100], bytes(damaged), gz.getvalue()):
        with pytest.raises(SourceReadError, match="tar can't be read") as caught:
            read_tar(tmp_path, data)
        assert caught.value.where.endswith("0.tar")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_is_rows_or_a_source_read_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    broken = bytearray(tar_bytes([("1.jpg", b"abc"), ("1.txt", b"cat"), ("2.jpg", b"def")]))
    for _ in range(data.draw(st.integers(1, 5))):
        broken[data.draw(st.integers(0, 4000))] = data.draw(st.integers(0, 255))
    try:
        rows = read_tar(tmp_path_factory.mktemp("tar"), bytes(broken))
    except SourceReadError:
        return
    assert all(row.data is not None or row.set_aside for row in rows)
