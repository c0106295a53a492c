from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from prx_assets.raw_images.folder import read
from prx_assets.raw_images.source_row import MAX_TEXT_BYTES, SourceRow


def only_row(path: Path, limit: int = 1 << 20) -> SourceRow:
    (row,) = read(path, limit)
    return row


@pytest.fixture
def image(tmp_path: Path, make_picture: Callable[..., bytes]) -> Path:
    path = tmp_path / "cat.v2.jpg"
    path.write_bytes(make_picture(3))
    return path


def test_an_image_alone(image: Path) -> None:
    row = only_row(image)
    assert (row.row, row.data, row.caption, row.metadata) == (0, image.read_bytes(), None, {})


def test_sidecars(image: Path) -> None:
    image.with_suffix(".json").write_text(json.dumps({"caption": "from json", "likes": 3}))
    assert only_row(image).caption == "from json"
    image.with_suffix(".txt").write_text("from text\n")
    row = only_row(image)
    assert (row.caption, row.metadata["likes"]) == ("from text", 3)
    image.with_suffix(".txt").write_text("  \n")
    assert only_row(image).caption == "from json"


@pytest.mark.parametrize("text", ["{", "[" * 100_000, ""])
def test_a_broken_json_is_a_note(image: Path, text: str) -> None:
    image.with_suffix(".json").write_text(text)
    row = only_row(image)
    assert row.data is not None
    assert "can't be parsed" in row.notes[0]


def test_huge_sidecars_are_not_read(image: Path) -> None:
    image.with_suffix(".txt").write_bytes(b"x" * (MAX_TEXT_BYTES + 1))
    row = only_row(image)
    assert row.caption is None
    assert row.notes == ("the .txt file is too large",)


def test_a_file_over_the_limit_is_set_aside_unread(image: Path) -> None:
    row = only_row(image, limit=10)
    assert (row.data, row.set_aside) == (None, "decode")
    assert str(row.detail).startswith("too_large: ")
