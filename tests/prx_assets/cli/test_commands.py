import json
import os

from PIL import Image, ImageDraw

from prx_assets.cli import main
from prx_assets.demo.plant import PHOTOS


def test_try_tells_the_fate_and_touches_no_lake(prx, tmp_path):
    page = Image.new("RGB", (850, 1100), "white")
    draw = ImageDraw.Draw(page)
    for line in range(30):
        draw.text((60, 60 + 32 * line), "The quick brown fox jumps over the lazy dog " * 2, "black")
    page.save(tmp_path / "page.png")
    (tmp_path / "no.jpg").write_bytes(b"<html>")
    answer = prx(
        "try", PHOTOS / "bark.jpg", PHOTOS / "sunrise-thumb.jpg", tmp_path / "no.jpg", "--json"
    )
    good, small, bad = answer.json
    assert good["fate"] == "exported"
    assert good["bucket"].startswith("512/1.286")
    assert good["label"] == "visual"
    assert "not a vision-language model" in good["caption_model"]
    assert small["fate"].startswith("not eligible")
    assert small["caption"] is None
    assert bad["fate"].startswith("set aside: ")
    assert not prx.home.exists()


def test_try_fails_if_nothing_could_be_read(prx, tmp_path):
    assert prx("try", tmp_path / "gone.jpg").code == 1


def test_try_opens_files_only(prx, tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    answer = prx("try", tmp_path / "pipe.jpg", tmp_path, "/dev/zero", "--json")
    assert answer.code == 1
    assert [one["fate"] for one in answer.json] == ["can't be read: not a file"] * 3


def test_a_manifest_file_and_options_give_the_same_source(prx, tmp_path):
    manifest = tmp_path / "photos.yaml"
    manifest.write_text(f"name: photos\nkind: folder\nuri: {PHOTOS}\n")
    by_file = prx("source", "add", manifest, "--json").json
    by_option = prx("source", "add", "photos", "--folder", PHOTOS, "--json").json
    assert by_file == by_option
    assert by_file["files"] == 24


def test_status_of_nothing_says_how_to_begin(prx):
    answer = prx("status", "--json")
    assert answer.json["next"] == "prx source add NAME --folder PATH"
    assert {cell["source"] for cell in answer.json["cells"]} == {"all"}


def test_status_of_a_new_source(prx):
    prx("source", "add", "photos", "--folder", PHOTOS)
    answer = prx("status", "--json").json
    states = {cell["stage"]: cell["state"] for cell in answer["cells"] if cell["source"] != "all"}
    assert states.pop("raw_images") == "missing"
    assert set(states.values()) == {"blocked"}
    assert answer["next"] == "prx materialize --source photos"


def test_doctor_says_one_line_each(prx):
    answer = prx("doctor", "--json")
    assert {one["what"] for one in answer.json} >= {"python", "disk", "memory", "store", "ray"}
    assert all(one["ok"] or one["fix"] for one in answer.json)


def test_ray_stop_without_a_ray_is_fine(prx):
    assert prx("ray", "stop", "--json").json == {"stopped": False}


def test_group_options_may_stand_anywhere():
    assert main.options_first(["status", "--json", "--home", "x"]) == [
        "--json",
        "--home",
        "x",
        "status",
    ]
    assert main.options_first(["try", "--", "--json"]) == ["try", "--", "--json"]


def test_captions_cannot_steer_the_terminal():
    from prx_assets.cli.output import printable

    assert printable("a\x1b[2Jb\x07\n") == "a\ufffd[2Jb\ufffd\n"
    assert json.dumps(printable("日本 é")) == json.dumps("日本 é")


def test_doctor_looks_for_the_configured_engines(prx):
    prx.home.mkdir()
    (prx.home / "settings.yaml").write_text("captions: {engine: 'no_such_package.mod:Cls'}\n")
    answer = prx("doctor", "--json")
    assert answer.code == 1
    [engines] = [one for one in answer.json if one["what"] == "engines"]
    assert "no_such_package" in engines["says"]
    assert engines["fix"]
