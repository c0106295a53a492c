from __future__ import annotations

from pathlib import Path

import dagster as dg
import pyarrow as pa

from prx_assets.demo.plant import PHOTOS
from prx_assets.perceptual_hashes.hasher import Hasher
from prx_assets.perceptual_hashes.spec import PerceptualHashesSpec
from prx_assets.takedown_requests.request import request_takedowns
from prx_resources import takedowns
from prx_resources.catalog import Catalog, SourceManifest
from prx_resources.columns import PERCEPTUAL_HASHES, SET_ASIDE_FIELDS
from prx_resources.lake import Lake
from prx_resources.lance_table import commit_columns, open_latest
from prx_resources.lease import lease
from tests.support.image_tables import add_images, png


def test_every_picture_of_a_doubled_id_is_taken_down(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    Catalog(lake).add(SourceManifest(name="cats", kind="folder", uri="/data/cats"))
    # The row that was set aside lies first: the file of the one in use came later.
    for data in (png("red"), png("blue")):
        add_images(lake, "cats", {"a": data})
    uri = lake.images_uri("cats")
    rows = open_latest(uri).to_table(columns=["_rowid", "content_sha256"]).sort_by("_rowid")
    aside = {"set_aside": "duplicate_key", "set_aside_detail": "duplicate_key: twice"}
    hashed = {"phash": 7, "signature": bytes(48), "phash_flat": False, "phash_fp": "fp"}
    with lease(lake.store, "images/cats", "test") as held:
        for place, group, fields, values in (
            (0, tuple(aside), SET_ASIDE_FIELDS, aside),
            (1, PERCEPTUAL_HASHES, PERCEPTUAL_HASHES.fields, hashed),
        ):
            row = {**rows.to_pylist()[place], **values}
            schema = pa.schema([*rows.schema, *fields])
            commit_columns(uri, group, pa.Table.from_pylist([row], schema=schema), held)
    with dg.DagsterInstance.ephemeral() as instance:
        found, new = request_takedowns(lake, ["cats/a", "cats/a"], "asked", instance)
        assert (len(found), new) == (2, 2)
        assert request_takedowns(lake, ["cats/a"], "again", instance)[1] == 0
    recorded = takedowns.read(lake.takedowns_uri).to_pylist()
    assert {row["image_id"] for row in recorded} == {"cats/a"}
    assert {row["content_sha256"] for row in recorded} == set(rows["content_sha256"].to_pylist())
    # The other one is flat: one colour.
    assert [row["phash"] for row in recorded if row["phash"] is not None] == [7]


def test_a_picture_that_has_no_hash_yet_gets_one_with_its_request(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    Catalog(lake).add(SourceManifest(name="cats", kind="folder", uri="/data/cats"))
    photo = (PHOTOS / "bark.jpg").read_bytes()
    add_images(lake, "cats", {"photo": photo, "flat": png("white"), "broken": b"no image"})
    with dg.DagsterInstance.ephemeral() as instance:
        ids = ["cats/photo", "cats/flat", "cats/broken"]
        found, _ = request_takedowns(lake, ids, "asked", instance)
    hashed = Hasher(PerceptualHashesSpec()).hash(photo)
    assert [(one.phash, one.signature) for one in found] == [
        (hashed.phash, hashed.signature),
        (None, None),
        (None, None),
    ]
