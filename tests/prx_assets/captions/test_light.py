from __future__ import annotations

import numpy as np
import pytest

from prx_assets.captions.light import CELLS, Gray, measure_light

GRAY = np.full((90, 90), 128, dtype=np.uint8)


def with_cell(index: int, values: Gray | int) -> Gray:
    gray = GRAY.copy()
    row, column = divmod(index, 3)
    gray[row * 30 : row * 30 + 30, column * 30 : column * 30 + 30] = values
    return gray


@pytest.mark.parametrize("index", range(9))
def test_brightest_and_darkest_cells_are_named(index: int) -> None:
    assert measure_light(with_cell(index, 250)).brightest == CELLS[index]
    assert measure_light(with_cell(index, 5)).darkest == CELLS[index]


@pytest.mark.parametrize("index", range(9))
def test_detail_is_found_where_it_lies(index: int) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (30, 30)).astype(np.uint8)
    found = measure_light(with_cell(index, noise))
    assert found.detail == [CELLS[index]]
    assert CELLS[(index + 4) % 9] in found.smooth


def test_an_even_surface_has_no_contrast_and_no_edge() -> None:
    found = measure_light(GRAY)
    assert (found.contrast, found.spread, found.sharpness) == (0, 0, 0)
    assert found.brightness == pytest.approx(128 / 255)


def test_shadows_and_highlights_are_shares() -> None:
    gray = GRAY.copy()
    gray[:9] = 0
    gray[-18:] = 255
    found = measure_light(gray)
    assert (found.shadows, found.highlights) == (pytest.approx(0.1), pytest.approx(0.2))
