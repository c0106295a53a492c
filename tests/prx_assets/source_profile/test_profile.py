from __future__ import annotations

import base64
import io
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from prx_assets.runtime import Job
from prx_assets.source_profile import plots
from prx_assets.source_profile.job import describe, work
from prx_assets.source_profile.profile import Profile, profile_of
from prx_assets.source_profile.spec import CHECKS
from prx_resources import lance_table
from prx_resources.contract import JobSpec
from prx_resources.lake import Lake

ROWS = [
    # width, height, bytes, format, quality, set aside, caption
    (512, 512, 1000, "jpeg", 90, None, "a cat"),
    (384, 384, 1000, "jpeg", 90, None, ""),
    (383, 384, 1000, "png", None, None, None),
    (2000, 999, 5000, "webp", None, None, "a wide one"),
    (1000, 500, 5000, "jpeg", 75, None, "a dog"),
    (3000, 3200, 90_000, "jpeg", 100, None, "the sea"),
    (None, None, 20, None, None, "decode", "never read"),
    (512, 512, 1000, "jpeg", 90, "duplicate_key", "a cat"),
]


def table() -> pa.Table:
    names = ["width", "height", "bytes", "format", "jpeg_quality", "set_aside", "original_caption"]
    types = [pa.int32(), pa.int32(), pa.int64(), pa.string(), pa.int16(), pa.string(), pa.string()]
    columns = zip(*ROWS, strict=True)
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names)


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    return lance.write_dataset(table(), Lake(str(tmp_path)).images_uri("a"), max_rows_per_file=3)


def test_every_row_is_counted_once(dataset: lance.LanceDataset) -> None:
    profile = profile_of(dataset)
    assert (profile.rows, profile.eligible) == (8, 4)
    assert profile.outside == {"too_small": 1, "outside_aspect": 1}
    assert profile.set_aside == {"decode": 1, "duplicate_key": 1}
    assert profile.formats == {"jpeg": 4, "png": 1, "webp": 1}
    assert profile.shapes.sum() == profile.sizes.sum() == 6
    assert (profile.qualities[90], profile.qualities.sum()) == (2, 4)
    assert profile.captions == profile.caption_lengths.sum() == 4
    assert profile.total_bytes == sum(row[2] for row in ROWS)
    by_ratio = {row["aspect_ratio"]: row for row in profile.bucket_rows()}
    assert by_ratio["1.000"]["512"] == 2
    assert by_ratio["2.000"] == {"aspect_ratio": "2.000", "512": 1, "1024": 0, "2048": 0, "4096": 0}
    assert sum(row["4096"] for row in by_ratio.values()) == 1


@pytest.mark.parametrize("draw", [plots.shapes, plots.buckets, plots.files])
@pytest.mark.parametrize("count", [0, 1, 200_000])
def test_plots_stay_small_and_are_pictures(draw: object, count: int) -> None:
    rng = np.random.default_rng(0)
    profile = Profile.empty()
    side, aspect = rng.lognormal(6.6, 0.8, count), rng.lognormal(0, 0.4, count)
    profile.add(
        pa.record_batch(
            {
                "width": pa.array((side * aspect**0.5).astype(np.int32) + 1),
                "height": pa.array((side / aspect**0.5).astype(np.int32) + 1),
                "bytes": pa.array(rng.lognormal(12, 1, count).astype(np.int64)),
                "format": pa.array(["jpeg"] * count, pa.string()),
                "jpeg_quality": pa.array(rng.integers(60, 100, count), pa.int16()),
                "set_aside": pa.array([None] * count, pa.string()),
                "caption_length": pa.array(rng.integers(0, 400, count), pa.int32()),
            }
        )
    )
    assert callable(draw)
    text = draw(profile)
    assert len(text) < plots.MOST_BYTES
    encoded = text.partition("base64,")[2].removesuffix(")")
    image = Image.open(io.BytesIO(base64.b64decode(encoded)))
    assert image.format == "PNG"
    assert image.width >= 500


def test_a_second_run_counts_nothing_again(
    dataset: lance.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_table, "open_published", lance.dataset)
    monkeypatch.setattr(lance_table, "ingest_data_version", lambda ds: "same")
    job = Job(JobSpec("source_profile", "a", str(tmp_path)), tmp_path, "job-1")
    first, second = work(job), work(job)
    assert (first.done, second.done) == (8, 0)
    assert second.metadata == first.metadata
    assert second.checks == first.checks
    assert [check.name for check in first.checks] == [name for name, _, _ in CHECKS]
    assert first.rows_in == first.rows_out + sum(first.set_aside.values())


def test_a_source_with_hardly_a_usable_row_warns() -> None:
    profile = Profile.empty()
    profile.rows, profile.eligible = 100, 9
    profile.outside["too_small"] = 91
    checks = {check.name: check for check in describe(profile, "v").checks}
    assert checks["rows_accounted"].passed
    assert not checks["enough_eligible"].passed
    assert checks["enough_eligible"].warn
