"""Pictures for tests: the demo's photos, pages of text made by code, surfaces without text."""

from __future__ import annotations

import json
import random
import textwrap
from functools import cache
from importlib import resources

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
WHITE, BLACK = (255, 255, 255), (15, 15, 15)
_TEXT = (
    "river stone market garden engine paper colour window morning northern copper signal harbour"
    " letter method value table result sample number without system field the and of with"
)
_WORDS = _TEXT.split()


def sentence(seed: int, words: int) -> str:
    chosen = random.Random(seed).choices(_WORDS, k=words)
    return " ".join(chosen).capitalize() + "."


def page(
    size: tuple[int, int] = (1240, 1654),
    paper: Colour = WHITE,
    ink: Colour = BLACK,
    letters: int = 26,
    noise: float = 0,
    turn: float = 0,
) -> Image.Image:
    image = Image.new("RGB", size, paper)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(letters)
    lines = textwrap.wrap(sentence(letters, 900), int((size[0] - 200) / (letters * 0.52)))
    for number, y in enumerate(range(100, size[1] - 120, int(letters * 1.5))):
        if number % 9 != 8:
            draw.text((100, y), lines[number % len(lines)], ink, font)
    if turn:
        image = image.rotate(turn, fillcolor=paper)
    if noise:
        values = np.asarray(image) + np.random.default_rng(7).normal(0, noise, (*size[::-1], 1))
        image = Image.fromarray(values.clip(0, 255).astype(np.uint8))
    return image


def slide(paper: Colour = (28, 52, 110), ink: Colour = WHITE) -> Image.Image:
    image = Image.new("RGB", (1280, 720), paper)
    draw = ImageDraw.Draw(image)
    draw.text((80, 60), sentence(1, 4), ink, ImageFont.load_default(54))
    for number in range(5):
        text = f"- {sentence(number + 2, 6)}"
        draw.text((110, 190 + number * 90), text, ink, ImageFont.load_default(34))
    return image


def receipt() -> Image.Image:
    image = Image.new("RGB", (600, 1100), (247, 245, 238))
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(26)
    for number in range(27):
        draw.text((50, 60 + number * 37), _WORDS[number % 20] + " and tax", BLACK, font)
        draw.text((430, 60 + number * 37), f"{number * 37 + 11}.{number + 10}", BLACK, font)
    return image


def screen(paper: Colour = (244, 245, 248), ink: Colour = BLACK) -> Image.Image:
    image = Image.new("RGB", (1366, 768), paper)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 1366, 54), fill=(60, 90, 200))
    font = ImageFont.load_default(18)
    for row in range(15):
        for column in range(5):
            text = sentence(row * 5 + column, 2)[:22]
            draw.text((30 + column * 265, 80 + row * 44), text, ink, font)
        draw.line((20, 110 + row * 44, 1340, 110 + row * 44), fill=(150, 150, 155))
    return image


@cache
def pages() -> dict[str, Image.Image]:
    return {
        "page": page(),
        "small print": page(letters=17),
        "large print": page(size=(1024, 1024), letters=46),
        "scan": page(paper=(238, 232, 216), noise=5, turn=0.4),
        "dark page": page(paper=(24, 24, 28), ink=(222, 222, 222)),
        "sheet of 300 dpi": page(size=(2480, 3508), letters=52),
        "slide": slide(),
        "light slide": slide(WHITE, (40, 40, 92)),
        "receipt": receipt(),
        "screen": screen(),
        "dark screen": screen((30, 31, 34), (220, 220, 220)),
    }


def without_text() -> dict[str, Image.Image]:
    size = 640
    y, x = np.mgrid[0:size, 0:size]
    noise = np.random.default_rng(3).integers(0, 256, (size, size, 3))
    stripes = np.repeat((x // 8 % 2 * 255)[..., None], 3, axis=2)
    checks = np.repeat(((x // 40 + y // 40) % 2 * 255)[..., None], 3, axis=2)
    slope = np.stack([x, y, 255 - x], axis=2) * 255 // size
    arrays = {"noise": noise, "stripes": stripes, "checks": checks, "slope": slope}
    made = {name: Image.fromarray(values.astype(np.uint8)) for name, values in arrays.items()}
    return {**made, "flat": Image.new("RGB", (size, size), (90, 140, 60))}


@cache
def demo_photos() -> dict[str, Image.Image]:
    folder = resources.files("prx_assets.demo") / "photos"
    photos = {}
    for entry in json.loads((folder / "manifest.json").read_text()):
        with (folder / entry["file"]).open("rb") as file, Image.open(file) as image:
            photos[entry["file"]] = image.convert("RGB")
    return photos
