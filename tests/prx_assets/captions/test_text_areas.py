from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image
from text_pictures import BLACK, WHITE, demo_photos, page, pages, slide, without_text

from prx_assets.captions.compute import shrink
from prx_assets.captions.text_areas import TextAreas, measure_text


def measure(image: Image.Image) -> TextAreas:
    small = np.asarray(shrink(image.convert("RGB"), 1_048_576))
    return measure_text(np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)))


@pytest.mark.parametrize("name", pages())
def test_every_kind_of_page_is_one(name: str) -> None:
    assert measure(pages()[name]).is_page


@pytest.mark.parametrize("name", demo_photos())
def test_no_photo_is_a_page_or_has_a_line(name: str) -> None:
    found = measure(demo_photos()[name])
    assert not found.is_page
    assert found.lines == 0


@pytest.mark.parametrize("name", without_text())
def test_no_surface_without_text_is_a_page(name: str) -> None:
    assert not measure(without_text()[name]).is_page


def test_lines_are_counted_and_placed() -> None:
    found = measure(slide())
    assert found.lines == 6
    assert not found.dark_on_light
    assert found.top == pytest.approx(70 / 720, abs=0.02)
    assert found.bottom == pytest.approx(585 / 720, abs=0.02)
    assert found.plain > 0.5


def test_ink_and_paper_are_told_apart() -> None:
    assert measure(page(paper=WHITE, ink=BLACK)).dark_on_light
    assert not measure(page(paper=BLACK, ink=WHITE)).dark_on_light


def test_half_a_page_of_text_in_a_photo_is_seen() -> None:
    photo = Image.effect_noise((1000, 800), 90).convert("RGB")
    photo.paste(page(size=(500, 800), letters=22), (0, 0))
    found = measure(photo)
    assert found.lines >= 8
    assert 0.05 < found.area < 0.5


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (200, 3), (16, 16), (31, 47)])
def test_small_pictures_have_no_text(size: tuple[int, int]) -> None:
    assert measure(Image.new("RGB", size, WHITE)).lines == 0
