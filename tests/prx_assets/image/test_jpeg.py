from __future__ import annotations

import io

import pytest
from PIL import Image

from prx_assets.image.jpeg import estimate_quality


def tables(mode: str = "RGB", **options: object) -> dict[int, list[int]]:
    buffer = io.BytesIO()
    Image.new(mode, (16, 16)).save(buffer, "JPEG", **options)
    with Image.open(buffer) as image:
        return dict(image.quantization)  # type: ignore[attr-defined]


@pytest.mark.parametrize("quality", [1, 10, 25, 49, 50, 51, 75, 92, 95, 99, 100])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_standard_tables_give_their_quality(quality: int, mode: str) -> None:
    assert estimate_quality(tables(mode, quality=quality)) == quality


def test_foreign_tables_give_the_nearest_quality() -> None:
    near = {number: [step + 1 for step in table] for number, table in tables(quality=80).items()}
    estimate = estimate_quality(near)
    assert estimate is not None
    assert 76 <= estimate <= 80


def test_no_table_no_estimate() -> None:
    assert estimate_quality({}) is None
    assert estimate_quality({0: [1, 2, 3]}) is None
