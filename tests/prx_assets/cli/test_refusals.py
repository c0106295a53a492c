import errno
import os
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from prx_assets.cli import main
from prx_assets.demo.plant import PHOTOS
from prx_assets.takedown_requests import request
from prx_resources.lake import Lake
from prx_resources.takedowns import Takedown
from tests.support.image_tables import add_images, png


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "photos"
    place.mkdir()
    Image.new("RGB", (600, 600), (10, 200, 90)).save(place / "one.jpg")
    return place


def nothing_written(prx):
    lake = prx.home / "lake"
    return not lake.exists() or not [path for path in lake.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["../x", "Upper", "a b", "all", "", "x" * 49, "-x/"])
def test_a_bad_name_is_refused(prx, folder, name):
    answer = prx("source", "add", "--folder", folder, "--", name)
    answer.refused(3, "can't name a source", "lower-case letters")
    assert nothing_written(prx)


def test_a_missing_folder_is_refused(prx, tmp_path):
    prx("source", "add", "s", "--folder", tmp_path / "gone").refused(1, "doesn't exist", "mount")
    assert nothing_written(prx)


def test_an_empty_folder_is_refused(prx, tmp_path):
    (tmp_path / "empty").mkdir()
    answer = prx("source", "add", "s", "--folder", tmp_path / "empty")
    assert answer.code != 0
    assert "error: " in answer.err
    assert nothing_written(prx)


def test_a_typo_in_a_manifest_names_the_right_key(prx, tmp_path, folder):
    manifest = tmp_path / "source.yaml"
    manifest.write_text(f"name: s\nkind: folder\nuri: {folder}\nprioriti: 3\n")
    prx("source", "add", manifest).refused(3, "'prioriti'", "'priority'")
    assert nothing_written(prx)


def test_an_unknown_column_names_the_nearest(prx, tmp_path):
    place = tmp_path / "parquet"
    place.mkdir()
    pq.write_table(pa.table({"image": [b"x"], "caption": ["c"]}), place / "a.parquet")
    answer = prx("source", "add", "s", "--parquet", place, "--caption", "captoin")
    answer.refused(3, "'captoin'", "'caption'")
    assert nothing_written(prx)


def test_the_same_source_twice_is_fine_and_another_of_its_name_is_not(prx, folder, tmp_path):
    assert prx("source", "add", "s", "--folder", folder).code == 0
    assert prx("source", "add", "s", "--folder", folder).code == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "two.jpg").write_bytes((folder / "one.jpg").read_bytes())
    prx("source", "add", "s", "--folder", other).refused(3, "another manifest", "another name")
    assert [row["uri"] for row in prx("source", "list", "--json").json] == [str(folder)]


def test_unknown_source_and_asset_are_refused(prx, folder):
    prx("source", "add", "photos", "--folder", folder)
    prx("materialize", "--source", "photoz").refused(3, "'photoz'", "'photos'")
    prx("materialize", "raw_image", "-s", "photos").refused(3, "'raw_image'", "'raw_images'")


def test_no_source_at_all_says_how_to_add_one(prx):
    prx("materialize").refused(3, "no source", "prx source add")


def test_usage_errors_are_two_lines_too(prx):
    prx("materialise").refused(2, "materialise", "--help")
    prx("source", "add", "s").refused(2, "what kind", "--folder")
    prx("materialize", "--stale", "--failed").refused(2, "exclude", "one of them")


def test_a_taken_port_is_refused(prx):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        prx("dev", "--port", port).refused(3, f"port {port} is in use", "--port")


@pytest.mark.parametrize("port", [-1, 0, 65536, 99999])
def test_a_number_that_is_no_port_is_refused(prx, port):
    prx("dev", "--port", port).refused(2, "1<=x<=65535", "prx dev --help")


@pytest.mark.parametrize("words", [(), ("source",), ("ray",)])
def test_a_group_alone_shows_its_help_and_no_error(words, capsys):
    assert main.run(list(words)) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.startswith("Usage: ")


def test_a_full_disk_is_refused_and_leaves_nothing(prx, folder, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    prx("source", "add", "s", "--folder", folder).refused(3, "the disk is full", "free")
    assert nothing_written(prx)


def test_an_unknown_image_cannot_be_taken_down(prx, folder):
    prx("takedown", "../etc/passwd").refused(3, "can't name a source", "lower-case")
    prx("takedown", "nobody/abc").refused(3, "'nobody'", "prx source add")
    prx("source", "add", "s", "--folder", folder)
    prx("takedown", "s/abc").refused(3, "no", "")
    assert not (prx.home / "lake" / "takedowns.lance").exists()


def test_a_takedown_says_whether_it_knows_the_copies(prx, folder):
    prx("source", "add", "s", "--folder", folder)
    photo = (PHOTOS / "bark.jpg").read_bytes()
    add_images(Lake(str(prx.home / "lake")), "s", {"flat": png("red"), "photo": photo})
    assert "byte-identical copies of" in prx("takedown", "s/flat").out
    assert "; copies of" in prx("takedown", "s/photo").out


@pytest.mark.parametrize(
    ("contents", "known"),
    [([("x", 5)], True), ([("x", 5), ("x", None)], True), ([("x", 5), ("y", None)], False)],
)
def test_a_row_that_was_set_aside_knows_the_copies_by_its_bytes(prx, monkeypatch, contents, known):
    found = [Takedown("s/a", "s", content, phash) for content, phash in contents]
    monkeypatch.setattr(request, "request_takedowns", lambda *_: (found, len(found)))
    said = prx("takedown", "s/a").out
    assert ("byte-identical" not in said) is known


def test_broken_settings_are_refused_by_every_command(prx):
    prx.home.mkdir()
    (prx.home / "settings.yaml").write_text("captoins: {}\n")
    for command in (["status"], ["source", "list"], ["materialize"]):
        prx(*command).refused(3, "'captoins'", "'captions'")


def test_another_lake_than_the_history_tells_of_is_refused(prx, folder, tmp_path):
    prx("source", "add", "s", "--folder", folder)
    (prx.home / "settings.yaml").write_text(f"lake: {tmp_path / 'other'}\n")
    for command in (["status"], ["materialize"]):
        prx(*command).refused(3, "Dagster's history here is that of", "another PRX_HOME")
    (prx.home / "dagster" / "lake.txt").unlink()
    assert prx("status").code == 0


def test_a_home_that_is_moved_keeps_its_history(prx, folder, tmp_path):
    prx("source", "add", "s", "--folder", folder)
    prx.home.rename(tmp_path / "elsewhere")
    assert main.run(["--home", str(tmp_path / "elsewhere"), "status"]) == 0
