from __future__ import annotations

import numpy as np
import pytest

from prx_assets.captions.palette import Rgb, measure_palette, saturation, warmth


def flat(red: int, green: int, blue: int) -> Rgb:
    return np.full((20, 20, 3), (red, green, blue), dtype=np.uint8)


@pytest.mark.parametrize(
    ("rgb", "name"),
    [
        ((255, 255, 255), "white"),
        ((0, 0, 0), "black"),
        ((128, 128, 128), "grey"),
        ((60, 60, 62), "dark grey"),
        ((210, 210, 208), "light grey"),
        ((220, 20, 20), "red"),
        ((250, 140, 20), "orange"),
        ((250, 230, 30), "yellow"),
        ((40, 180, 50), "green"),
        ((20, 60, 25), "dark green"),
        ((30, 170, 170), "teal"),
        ((30, 80, 230), "blue"),
        ((170, 200, 240), "pale blue"),
        ((140, 50, 220), "purple"),
        ((240, 60, 180), "pink"),
        ((100, 60, 20), "brown"),
        ((235, 205, 170), "beige"),
        ((100, 95, 20), "olive"),
    ],
)
def test_plain_names(rgb: tuple[int, int, int], name: str) -> None:
    assert [colour.name for colour in measure_palette(flat(*rgb))] == [name]


def test_shares_are_ranked_and_small_ones_left_out() -> None:
    picture = flat(255, 255, 255)
    picture[:6] = (30, 80, 230)
    picture[19, :10] = (220, 20, 20)
    found = measure_palette(picture)
    assert [(colour.name, round(colour.share, 3)) for colour in found] == [
        ("white", 0.675),
        ("blue", 0.3),
    ]


def test_warmth_and_saturation() -> None:
    assert warmth(flat(200, 120, 60)) == "warm"
    assert warmth(flat(60, 120, 200)) == "cool"
    assert warmth(flat(120, 120, 120)) == "neutral"
    assert saturation(flat(120, 120, 120)) == 0
    assert saturation(flat(255, 0, 0)) == 1
