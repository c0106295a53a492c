"""The built-in captioner: a measured description. It names what was measured and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from prx_assets.captions.engine import CaptionResult
from prx_assets.captions.light import Light, measure_light
from prx_assets.captions.palette import Colour, measure_palette, saturation, warmth
from prx_assets.captions.spec import CaptionsSpec
from prx_assets.captions.text_areas import TextAreas, measure_text
from prx_assets.captions.texture import Texture, measure_texture
from prx_assets.captions.wording import amount, joined, one_of, percent

_MEASURED_SIDE = 512
"""Longer side at which colour, light and texture are measured; text needs all there is."""

Rgb = npt.NDArray[np.uint8]


class MeasuredCaptions:
    """Describes a picture by measuring it; deterministic, one thread, no model."""

    caption_model = "measured-description/1 (not a vision-language model)"

    def __init__(self, spec: CaptionsSpec) -> None:
        self.spec = spec
        # Workers share the machine's cores; one thread each also keeps sums in one order.
        cv2.setNumThreads(1)

    def caption(self, images: Sequence[Image.Image]) -> list[CaptionResult]:
        """Returns one description per image of mode RGB."""
        return [CaptionResult(describe(np.asarray(image))) for image in images]


def describe(rgb: Rgb) -> str:
    """Returns 100 to 200 words on what can be measured in a picture.

    Args:
        rgb: Height x width x 3, sRGB, at least 16 pixels a side.
    """
    text = measure_text(_gray(rgb))
    height, width = rgb.shape[:2]
    scale = min(1.0, _MEASURED_SIDE / max(height, width))
    size = (max(16, round(width * scale)), max(16, round(height * scale)))
    small = np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    light = measure_light(_gray(small))
    texture = measure_texture(_gray(small))
    palette = measure_palette(small)
    if text.is_page:
        sentences = [
            *_page(text, width, height),
            _colours(palette, "page"),
            _page_light(light),
            _detail(light, "print"),
            _page_texture(texture, text),
        ]
    else:
        sentences = [
            _opening(palette, light, width, height),
            _colours(palette, "picture"),
            _tone(small),
            _light(light),
            _where_light(light),
            _sharpness(light, texture),
            _detail(light, "detail"),
            _texture(texture),
            *_some_text(text),
        ]
    return " ".join(sentences)


def _gray(rgb: Rgb) -> npt.NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), dtype=np.uint8)


def _shape(width: int, height: int) -> str:
    ratio = width / height
    if 0.95 <= ratio <= 1.05:
        return "square"
    if ratio > 1:
        return "wide landscape-format" if ratio >= 1.6 else "landscape-format"
    return "tall portrait-format" if ratio <= 0.625 else "portrait-format"


def _opening(palette: list[Colour], light: Light, width: int, height: int) -> str:
    mood = one_of(
        light.brightness, (0.25, "dark"), (0.45, "rather dark"), (0.65, ""), (1, "bright")
    )
    mood = f"{mood}, " if mood else ""
    main = joined([colour.name for colour in palette[:2]])
    return f"A {mood}{_shape(width, height)} picture whose main colours are {main}."


def _colours(palette: list[Colour], what: str) -> str:
    first, *rest = palette
    text = f"{first.name.capitalize()} covers {percent(first.share)} of the {what}"
    if not rest:
        return f"{text}, and no other colour takes up a notable part of it."
    others = joined([f"{colour.name} {percent(colour.share)}" for colour in rest])
    return f"{text}, followed by {others}."


def _tone(rgb: Rgb) -> str:
    strength = one_of(
        saturation(rgb),
        (0.08, "nearly grey"),
        (0.25, "muted"),
        (0.5, "moderately strong"),
        (1, "vivid"),
    )
    return f"The colours are {strength}, and their overall tone is {warmth(rgb)}."


def _light(light: Light) -> str:
    contrast = one_of(
        light.contrast, (0.12, "low"), (0.2, "moderate"), (0.28, "high"), (1, "very high")
    )
    level = one_of(
        light.brightness,
        (0.25, "dim"),
        (0.45, "subdued"),
        (0.65, "of medium strength"),
        (1, "bright"),
    )
    text = f"The light is {level} with {contrast} contrast"
    ends = [
        f"{name} fill {percent(share)}"
        for name, share in (
            ("deep shadows", light.shadows),
            ("bright highlights", light.highlights),
        )
        if share >= 0.05
    ]
    return (
        f"{text}; {joined(ends)} of the picture."
        if ends
        else f"{text}, without deep shadows or bright highlights."
    )


def _where_light(light: Light) -> str:
    if light.spread < 0.08:
        return "Brightness is spread evenly over the whole picture."
    step = one_of(light.spread, (0.2, "slightly"), (0.4, "clearly"), (1, "far"))
    return (
        f"It is brightest in the {_cell(light.brightest)} and darkest in the"
        f" {_cell(light.darkest)}, the first {step} lighter than the second."
    )


def _sharpness(light: Light, texture: Texture) -> str:
    focus = one_of(
        light.sharpness,
        (0.08, "soft everywhere, without a sharp edge"),
        (0.2, "fairly soft, with few sharp edges"),
        (0.4, "sharp in its most detailed part"),
        (1, "very sharp, with crisp edges in its most detailed part"),
    )
    smooth = one_of(
        texture.smooth,
        (0.1, "hardly any part of it is smooth"),
        (0.35, "some of it is smooth"),
        (0.65, "about half of it is smooth, like an unsharp background or an even surface"),
        (1, "most of it is smooth, like an unsharp background or an even surface"),
    )
    return f"The picture is {focus}, and {smooth}."


def _detail(light: Light, what: str) -> str:
    if light.sharpness < 0.02:
        return f"There is hardly any {what} anywhere on the surface."
    if not light.detail:
        return f"The {what} is spread evenly over the whole surface."
    text = f"Most of the {what} lies in the {joined([_cell(cell) for cell in light.detail])}"
    if not light.smooth:
        return f"{text}, though no part is empty."
    if len(light.smooth) > 3:
        empty = f"{amount(len(light.smooth))} of the nine parts of the picture"
        return f"{text}, while {empty} are nearly empty."
    verb = "is" if len(light.smooth) == 1 else "are"
    empty = joined([_cell(cell) for cell in light.smooth])
    return f"{text}, while the {empty} {verb} nearly empty."


def _texture(texture: Texture) -> str:
    grain = one_of(
        texture.fineness,
        (0.2, "broad, soft shapes"),
        (0.4, "medium-sized shapes with some fine texture"),
        (0.6, "a dense, fine texture"),
        (10, "a very fine, busy texture"),
    )
    if texture.direction is None:
        return f"The surface shows {grain}, and its lines and edges run in many directions."
    where = {
        "rising": "diagonally, rising to the right",
        "falling": "diagonally, falling to the right",
    }
    how = where.get(texture.direction, f"{texture.direction}ly")
    return f"The surface shows {grain}, and many of its lines and edges run {how}."


def _cell(name: str) -> str:
    return name if name == "centre" else f"{name} part"


def _some_text(text: TextAreas) -> list[str]:
    if text.lines == 0:
        return []
    what = "One small area" if text.lines == 1 else f"{amount(text.lines).capitalize()} small areas"
    verb = "looks" if text.lines == 1 else "look"
    return [f"{what} {verb} like lettering, {percent(text.area)} of the picture."]


def _page(text: TextAreas, width: int, height: int) -> list[str]:
    ink = "dark text on a light" if text.dark_on_light else "light text on a dark"
    size = one_of(text.height, (0.02, "small"), (0.04, "medium-sized"), (1, "large"))
    kind = "document or slide" if text.lines < 12 else "page or screen"
    return [
        f"The measures are those of a {kind} of text in {_shape(width, height)}:"
        f" {amount(text.lines)} lines of printed text, {ink} plain background.",
        f"The lines of text are {size} and cover {percent(text.area)} of the page; they begin"
        f" {percent(text.top)} below its upper edge and end {percent(1 - text.bottom)} above its"
        " lower edge.",
        f"Text crosses {percent(text.rows)} of the page's height, and the even, empty background of"
        f" the page takes up {percent(text.plain)} of it.",
    ]


def _page_light(light: Light) -> str:
    contrast = one_of(light.contrast, (0.12, "low"), (0.2, "moderate"), (1, "high"))
    spread = "even" if light.spread < 0.15 else "uneven"
    return f"The contrast between text and background is {contrast}, and brightness is {spread}."


def _page_texture(texture: Texture, text: TextAreas) -> str:
    smooth = percent(texture.smooth)
    rows = "rows of text" if text.lines > 1 else "a row of text"
    return (
        f"The page consists of {rows} made of short strokes with blank space between them; {smooth}"
        " of the document is blank and smooth."
    )
