from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from text_pictures import demo_photos, page, pages, without_text

from prx_assets.captions.compute import shrink
from prx_assets.captions.engine import CaptionResult, build_engine
from prx_assets.captions.gates import failed_gates, word_count
from prx_assets.captions.measured import describe
from prx_assets.captions.spec import CaptionsSpec


def photo(name: str) -> Image.Image:
    return shrink(demo_photos()[name], 1_048_576)


@pytest.mark.parametrize("name", demo_photos())
def test_photos_get_100_to_200_words_that_pass_every_gate(name: str) -> None:
    caption = describe(np.asarray(photo(name)))
    assert 100 <= word_count(caption) <= 200
    assert failed_gates(CaptionResult(caption), CaptionsSpec()) == []
    assert "printed" not in caption
    assert "lettering" not in caption


@pytest.mark.parametrize("name", pages())
def test_pages_say_that_they_are_lines_of_text(name: str) -> None:
    caption = describe(np.asarray(shrink(pages()[name], 1_048_576)))
    assert "lines of printed text" in caption
    assert 100 <= word_count(caption) <= 200
    assert failed_gates(CaptionResult(caption), CaptionsSpec()) == []


@pytest.mark.parametrize("name", without_text())
def test_surfaces_get_whole_sentences(name: str) -> None:
    caption = describe(np.asarray(without_text()[name]))
    assert word_count(caption) >= 60
    assert failed_gates(CaptionResult(caption), CaptionsSpec()) == []


def test_a_flat_picture_has_one_colour_and_no_detail() -> None:
    caption = describe(np.asarray(without_text()["flat"]))
    assert "Green covers almost all of the picture, and no other colour" in caption
    assert "hardly any detail anywhere" in caption


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        ((600, 600), "square"),
        ((800, 600), "landscape-format"),
        ((1200, 600), "wide landscape-format"),
        ((600, 800), "portrait-format"),
        ((600, 1200), "tall portrait-format"),
    ],
)
def test_the_shape_comes_first(size: tuple[int, int], shape: str) -> None:
    caption = describe(np.asarray(Image.new("RGB", size, (200, 60, 60))))
    assert f" {shape} picture whose" in caption.split(".")[0]


@pytest.mark.parametrize("size", [(1, 1), (2, 900), (900, 2), (17, 17)])
def test_pictures_too_small_to_measure_are_still_described(size: tuple[int, int]) -> None:
    assert "white" in describe(np.asarray(Image.new("RGB", size, "white"))).lower()


def test_the_same_pixels_give_the_same_words() -> None:
    images = [photo("dragonfly.jpg"), photo("bark.jpg"), page()]
    first = build_engine(CaptionsSpec()).caption(images)
    again = [build_engine(CaptionsSpec()).caption([image])[0] for image in images]
    assert first == again
    assert len({result.text for result in first}) == 3


def test_it_says_plainly_what_it_is() -> None:
    model = build_engine(CaptionsSpec()).caption_model
    assert model == "measured-description/1 (not a vision-language model)"
