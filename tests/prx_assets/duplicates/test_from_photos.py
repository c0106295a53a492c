"""Hashing, grouping, profiling and indexing on one real image table."""

from __future__ import annotations

import hashlib
import io
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from PIL import Image

import prx_assets.demo
from prx_assets.duplicates import job as duplicates
from prx_assets.duplicates.spec import DuplicatesSpec
from prx_assets.perceptual_hashes import job as hashes
from prx_assets.perceptual_hashes.spec import PerceptualHashesSpec
from prx_assets.runtime import Job
from prx_assets.search_index import job as search_index
from prx_assets.search_index.search import full_text
from prx_assets.search_index.spec import SearchIndexSpec
from prx_assets.source_profile import job as source_profile
from prx_resources import column_stage, lance_table
from prx_resources.contract import JobSpec
from prx_resources.lake import Lake
from prx_resources.lease import lease
from prx_resources.worker_pool import InlinePool

PHOTOS = Path(prx_assets.demo.__file__).parent / "photos"


def encode(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def add_source(lake: Lake, source: str, images: dict[str, bytes | None]) -> None:
    uri = lake.images_uri(source)
    lance_table.create(uri, chunk_rows={"": 4}, target_fragment_rows=100)
    sizes = [
        Image.open(io.BytesIO(data)).size if data else (None, None) for data in images.values()
    ]
    rows = pa.RecordBatch.from_pydict(
        {
            "image_id": [f"{source}/{key}" for key in images],
            "source_file": ["f"] * len(images),
            "source_fp": ["fp"] * len(images),
            "source_row": list(range(len(images))),
            "content_sha256": [hashlib.sha256(data or b"").hexdigest() for data in images.values()],
            "image": list(images.values()),
            "format": [data and "jpeg" for data in images.values()],
            "width": pa.array([width for width, _ in sizes], pa.int32()),
            "height": pa.array([height for _, height in sizes], pa.int32()),
            "pixels": pa.array([w * h if w and h else None for w, h in sizes], pa.int64()),
            "bytes": [len(data or b"") for data in images.values()],
            "set_aside": [None if data else "decode" for data in images.values()],
            "original_caption": [f"photo of {key}" for key in images],
        }
    )
    with lease(lake.store, f"images/{source}", "test") as held:
        written = lance_table.write_fragment(uri, lance_table.image_schema(), [rows])
        lance_table.publish(uri, lance_table.commit_append(uri, written, held), held)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    bark, fig, dog = (
        Image.open(PHOTOS / f"{name}.jpg").convert("RGB")
        for name in ("bark", "fig-close-up", "two-spaniels")
    )
    white = encode(Image.new("RGB", (600, 500), "white"), 90)
    cream = encode(Image.new("RGB", (600, 500), "#fffff0"), 90)
    lake = Lake(str(tmp_path / "lake"))
    first = {"bark": encode(bark, 92), "fig": encode(fig, 92), "white": white, "broken": None}
    small = encode(bark.resize((380, 285), Image.Resampling.LANCZOS), 85)
    second = {"bark": small, "dog": encode(dog, 92), "cream": cream, "white": white}
    add_source(lake, "one", first)
    add_source(lake, "two", second)
    monkeypatch.setattr(hashes, "run", partial(column_stage.run, pool=InlinePool()))
    return lake


def job(lake: Lake, tmp_path: Path, stage: str, source: str, spec: object) -> Job:
    ingredients, params = spec.ingredients(), spec.params  # type: ignore[attr-defined]
    return Job(JobSpec(stage, source, lake.root, ingredients, params), tmp_path, "test-job")


def hash_all(lake: Lake, tmp_path: Path) -> list[int]:
    spec = PerceptualHashesSpec()
    return [
        hashes.work(job(lake, tmp_path, "perceptual_hashes", source, spec)).done
        for source in ("one", "two")
    ]


def test_copies_across_sources_are_grouped_and_flats_only_if_identical(
    lake: Lake, tmp_path: Path
) -> None:
    assert hash_all(lake, tmp_path) == [3, 4]
    assert hash_all(lake, tmp_path) == [0, 0]
    spec = DuplicatesSpec((("one", 0), ("two", 5)))
    result = duplicates.work(job(lake, tmp_path, "duplicates", "all", spec))
    table = lance.dataset(lake.duplicates_uri).to_table()
    grouped = {
        row["image_id"]: (row["group"], row["rank"]) for row in table.to_pylist() if row["group"]
    }
    assert grouped == {
        "one/bark": ("one/bark", 0),  # more pixels, whatever the priority
        "two/bark": ("one/bark", 1),
        "two/white": ("one/white", 0),
        "one/white": ("one/white", 1),
    }
    assert table.num_rows == result.rows_out == 7
    assert result.set_aside == {}
    assert result.metadata["flat_images"].value == 3
    assert duplicates.work(job(lake, tmp_path, "duplicates", "all", spec)).done == 0


def test_profile_and_index_describe_the_same_table(lake: Lake, tmp_path: Path) -> None:
    spec = SearchIndexSpec()
    indexed = search_index.work(job(lake, tmp_path, "search_index", "one", spec))
    again = search_index.work(job(lake, tmp_path, "search_index", "one", spec))
    assert indexed.done == 4
    assert again.done == 0
    assert again.data_version == indexed.data_version
    assert all(check.passed for check in again.checks)
    ds = lance_table.open_published(lake.images_uri("one"))
    assert full_text(ds, "fig")["image_id"].to_pylist() == ["one/fig"]
    profile_job = Job(JobSpec("source_profile", "one", lake.root), tmp_path, "test-job")
    first, second = source_profile.work(profile_job), source_profile.work(profile_job)
    assert (first.rows_in, first.rows_out, first.set_aside) == (4, 3, {"decode": 1})
    assert (first.done, second.done) == (4, 0)
