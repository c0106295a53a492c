from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from streaming import LocalDataset, MDSWriter

from prx_resources.errors import InvariantError
from prx_resources.mds_format import encode_shard, read_sample

COLUMNS = {"image": "jpeg", "caption": "str", "width": "int", "id": "str"}


def jpeg(colour: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (24, 16), colour).save(buffer, "JPEG")
    return buffer.getvalue()


SAMPLES: list[dict[str, Any]] = [
    {"image": jpeg("red"), "caption": "a café\n", "width": 24, "id": "a"},
    {"image": jpeg("blue"), "caption": "", "width": -1, "id": "猫"},
    {"image": jpeg("white"), "caption": "x" * 5000, "width": 2**40, "id": ""},
]


@pytest.mark.parametrize("count", [1, 3])
def test_shard_and_index_are_those_of_streamings_writer(tmp_path: Path, count: int) -> None:
    with MDSWriter(
        columns=COLUMNS, out=str(tmp_path / "theirs"), hashes=["sha256"], size_limit=None
    ) as writer:
        for sample in SAMPLES[:count]:
            writer.write(sample)
    (theirs,) = json.loads((tmp_path / "theirs" / "index.json").read_text())["shards"]
    shard, data = encode_shard(COLUMNS, SAMPLES[:count], "shard.00000.mds")
    assert data == (tmp_path / "theirs" / "shard.00000.mds").read_bytes()
    assert shard == theirs


# `LocalDataset` leaves the index file open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_streaming_reads_what_is_written(tmp_path: Path) -> None:
    shard, data = encode_shard(COLUMNS, [{**sample, "more": 1} for sample in SAMPLES], "s.mds")
    (tmp_path / "s.mds").write_bytes(data)
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))
    read = [dict(sample) for sample in LocalDataset(str(tmp_path))]
    assert [sample["caption"] for sample in read] == [sample["caption"] for sample in SAMPLES]
    assert [sample["width"] for sample in read] == [24, -1, 2**40]
    assert [sample["id"] for sample in read] == ["a", "猫", ""]
    assert read[1]["image"].getpixel((5, 5))[2] > 200


def test_samples_read_back() -> None:
    shard, data = encode_shard(COLUMNS, SAMPLES, "s.mds")
    for index, sample in enumerate(SAMPLES):
        found = read_sample(shard, data, index)
        assert found["image"] == sample["image"]
        assert found["caption"].decode() == sample["caption"]
        assert int.from_bytes(found["width"], "little", signed=True) == sample["width"]


@pytest.mark.parametrize(
    "wrong", [{"image": Image.new("RGB", (8, 8))}, {"width": "24"}, {"caption": None}]
)
def test_a_value_of_another_kind_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvariantError, match=next(iter(wrong))):
        encode_shard(COLUMNS, [{**SAMPLES[0], **wrong}], "s.mds")
