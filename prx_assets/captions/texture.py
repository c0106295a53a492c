"""The character of a picture's lines and surfaces."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Gray = npt.NDArray[np.uint8]

_DIRECTIONS = ("horizontal", "rising", "vertical", "falling")
_EVEN_BLOCK = 8


@dataclass(frozen=True)
class Texture:
    """What was measured about lines and surfaces.

    Attributes:
        direction: Direction that most lines follow; None if none stands out.
        strength: That direction's share of all edge energy (a quarter is no preference).
        smooth: Share of the picture in even blocks of 8x8 pixels.
        fineness: Share of the detail that is only a few pixels wide, 0 to 1.
    """

    direction: str | None
    strength: float
    smooth: float
    fineness: float


def measure_texture(gray: Gray) -> Texture:
    """Returns the measures of an 8-bit gray picture."""
    direction, strength = _direction(gray)
    return Texture(direction, strength, _smooth_share(gray), _fineness(gray))


def _direction(gray: Gray) -> tuple[str | None, float]:
    soft = cv2.GaussianBlur(gray, (5, 5), 0)
    x = cv2.Sobel(soft, cv2.CV_32F, 1, 0, ksize=3)
    y = cv2.Sobel(soft, cv2.CV_32F, 0, 1, ksize=3)
    # A line runs at a right angle to the gradient; rows count downwards.
    angle = (np.degrees(np.arctan2(-y, x)) + 90) % 180
    sector = ((angle + 22.5) // 45).astype(np.int64) % 4
    weight = np.bincount(sector.ravel(), weights=(x * x + y * y).ravel(), minlength=4)
    total = float(weight.sum())
    if total < gray.size:
        return None, 0.25
    best = int(weight.argmax())
    strength = float(weight[best]) / total
    return (_DIRECTIONS[best] if strength >= 0.38 else None), strength


def _smooth_share(gray: Gray) -> float:
    height, width = (side // _EVEN_BLOCK * _EVEN_BLOCK for side in gray.shape)
    if height == 0 or width == 0:
        return 1.0
    blocks = gray[:height, :width].reshape(
        height // _EVEN_BLOCK, _EVEN_BLOCK, width // _EVEN_BLOCK, _EVEN_BLOCK
    )
    return float((blocks.astype(np.float32).std(axis=(1, 3)) < 4).mean())


def _fineness(gray: Gray) -> float:
    values = gray.astype(np.float32)
    fine = float((values - cv2.GaussianBlur(values, (0, 0), 2)).std())
    coarse = float((values - cv2.GaussianBlur(values, (0, 0), 12)).std())
    return fine / coarse if coarse > 1e-3 else 0.0
