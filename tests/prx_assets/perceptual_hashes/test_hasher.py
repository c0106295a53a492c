from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path

import pyarrow as pa

import prx_assets.demo
from prx_assets.perceptual_hashes.hasher import Hasher
from prx_assets.perceptual_hashes.spec import PerceptualHashesSpec
from prx_resources.columns import PERCEPTUAL_HASHES

PHOTO = Path(prx_assets.demo.__file__).parent / "photos" / "bark.jpg"


def test_every_row_gets_values_or_a_reason_in_its_place() -> None:
    photo = PHOTO.read_bytes()
    images = [photo, b"no image", None, photo[:3000], photo]
    factory = pickle.loads(pickle.dumps(partial(Hasher, PerceptualHashesSpec())))
    rows = pa.table({"image": pa.array(images, pa.large_binary())})
    hashed = factory()(rows)
    assert hashed.schema == pa.schema(
        [f for f in PERCEPTUAL_HASHES.fields if f.name != PERCEPTUAL_HASHES.fp]
    )
    assert [error and error.partition(":")[0] for error in hashed["phash_error"].to_pylist()] == [
        None,
        "not_an_image",
        "empty",
        "truncated",
        None,
    ]
    assert [value is None for value in hashed["phash"].to_pylist()] == [0, 1, 1, 1, 0]
    assert hashed["phash"][0] == hashed["phash"][4]
    assert len(hashed["signature"][0].as_py()) == 48
    assert hashed["phash_flat"].to_pylist() == [False, None, None, None, False]


def test_no_rows_give_no_rows() -> None:
    rows = pa.table({"image": pa.array([], pa.large_binary())})
    assert Hasher(PerceptualHashesSpec())(rows).num_rows == 0
