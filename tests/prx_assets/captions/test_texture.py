from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from prx_assets.captions.texture import measure_texture

Y, X = np.mgrid[0:256, 0:256]
RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("phase", "direction"),
    [(Y, "horizontal"), (X, "vertical"), (X + Y, "rising"), (X - Y, "falling")],
)
def test_direction_of_lines(phase: npt.NDArray[np.int64], direction: str) -> None:
    stripes = (127 + 120 * np.sin(phase / 5)).astype(np.uint8)
    assert measure_texture(stripes).direction == direction


def test_noise_has_no_direction_and_is_fine() -> None:
    found = measure_texture(RNG.integers(0, 256, (256, 256)).astype(np.uint8))
    assert found.direction is None
    assert found.smooth == 0
    assert found.fineness > 0.9


def test_a_flat_surface_is_smooth() -> None:
    found = measure_texture(np.full((256, 256), 90, dtype=np.uint8))
    assert (found.direction, found.smooth, found.fineness) == (None, 1, 0)


def test_broad_shapes_are_coarse() -> None:
    broad = (127 + 120 * np.sin(X / 60) * np.cos(Y / 60)).astype(np.uint8)
    assert measure_texture(broad).fineness < 0.2
