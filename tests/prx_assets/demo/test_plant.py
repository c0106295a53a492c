import hashlib
import io

import pytest
import yaml
from PIL import Image

from prx_assets.demo import plant
from prx_assets.image.buckets import assign
from prx_assets.image.decode import decode
from prx_assets.image.eligibility import eligible

PLANTED = plant.PHOTOS.parent / "planted.yaml"


def test_planting_twice_changes_neither_bytes_nor_times(tmp_path):
    def state():
        return {
            path: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
            for path in tmp_path.rglob("*")
            if path.is_file()
        }

    plant.plant(tmp_path)
    first = state()
    plant.plant(tmp_path)
    assert first == state()
    assert len(first) == 12 * 2 + 1 + 2


def test_every_picture_has_a_fate_and_every_fate_a_picture():
    fates = yaml.safe_load(PLANTED.read_text())
    made = {source: {p.name for p in rows} for source, rows in plant.pictures().items()}
    assert made == {source: set(names) for source, names in fates.items()}


def test_photos_are_credited():
    manifest = yaml.safe_load((plant.PHOTOS / "manifest.json").read_text())
    assert {entry["file"] for entry in manifest} == {p.name for p in plant.PHOTOS.glob("*.jpg")}
    assert all(entry["author"] and entry["licence"] for entry in manifest)


def test_written_buckets_are_what_the_rules_give():
    fates = yaml.safe_load(PLANTED.read_text())
    for source, rows in plant.pictures().items():
        for picture in rows:
            fate = fates[source][picture.name]
            if fate["fate"] == "set_aside":
                continue
            image = decode(picture.data)
            assert eligible(image.width, image.height) == (fate["fate"] != "ineligible")
            if "leaf" in fate:
                bucket = assign(image.width, image.height)
                assert f"{bucket.level}/{bucket.dir}" == fate["leaf"], picture.name


@pytest.mark.parametrize("name", ["cmyk", "alpha", "exif-rotated"])
def test_odd_pictures_are_as_odd_as_their_names(name):
    picture = next(p for rows in plant.pictures().values() for p in rows if p.name == name)
    image = Image.open(io.BytesIO(picture.data))
    assert {
        "cmyk": image.mode == "CMYK",
        "alpha": image.mode == "RGBA",
        "exif-rotated": image.getexif().get(0x0112) == 6,
    }[name]
