"""A picture's colours by plain names and shares."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Rgb = npt.NDArray[np.uint8]

_HUES = ("red", "orange", "yellow", "green", "teal", "blue", "purple", "pink")
# OpenCV's hue runs from 0 to 179; each entry is where the next name begins.
_HUE_ENDS = np.array([8, 22, 34, 80, 96, 130, 150, 172])
_GREYS = ("black", "dark grey", "grey", "light grey", "white")
_GREY_ENDS = np.array([40, 96, 168, 226])
_SHADES = ("dark ", "", "pale ")
_NAMES = (*_GREYS, *(shade + hue for shade in _SHADES for hue in _HUES))
_RENAMED = {
    "dark orange": "brown",
    "dark yellow": "olive",
    "pale orange": "beige",
    "pale red": "pink",
}
_LEAST_SHARE = 0.04


@dataclass(frozen=True)
class Colour:
    """A named colour and its share of the picture, 0 to 1."""

    name: str
    share: float


def measure_palette(rgb: Rgb, most: int = 5) -> list[Colour]:
    """Returns the commonest colours, the largest share first.

    Args:
        rgb: Height x width x 3, sRGB.
        most: How many at most; colours under 4 % are left out (the first is always there).
    """
    hue, saturation, value = (
        channel.astype(np.int64) for channel in cv2.split(cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV))
    )
    chroma = saturation * value // 255
    grey = np.searchsorted(_GREY_ENDS, value, side="right")
    hues = np.searchsorted(_HUE_ENDS, hue, side="right") % len(_HUES)
    shade = np.where(value < 110, 0, np.where((saturation < 90) & (value > 150), 2, 1))
    code = np.where((chroma < 24) | (value < 30), grey, len(_GREYS) + shade * len(_HUES) + hues)
    shares: dict[str, float] = {}
    for index, count in enumerate(np.bincount(code.ravel(), minlength=len(_NAMES)).tolist()):
        name = _RENAMED.get(_NAMES[index], _NAMES[index])
        shares[name] = shares.get(name, 0.0) + count / code.size
    ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:most]
    return [
        Colour(name, share)
        for rank, (name, share) in enumerate(ranked)
        if rank == 0 or share >= _LEAST_SHARE
    ]


def warmth(rgb: Rgb) -> str:
    """Returns whether the colours as a whole are warm, cool or neutral."""
    red, _, blue = (float(mean) for mean in rgb.reshape(-1, 3).mean(axis=0))
    if abs(red - blue) < 12:
        return "neutral"
    return "warm" if red > blue else "cool"


def saturation(rgb: Rgb) -> float:
    """Returns the mean saturation, 0 (grey) to 1."""
    return float(cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV)[:, :, 1].mean()) / 255
