"""Light, contrast and sharpness of a picture, and where on it brightness and detail lie."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Gray = npt.NDArray[np.uint8]

CELLS = (
    "upper left",
    "upper middle",
    "upper right",
    "middle left",
    "centre",
    "middle right",
    "lower left",
    "lower middle",
    "lower right",
)
"""The nine cells of the 3x3 grid, row by row."""


@dataclass(frozen=True)
class Light:
    """What was measured about light and detail.

    Attributes:
        brightness: Mean grey level, 0 to 1.
        contrast: Standard deviation of the grey levels, 0 to 1.
        shadows: Share of pixels darker than an eighth.
        highlights: Share of pixels brighter than seven eighths.
        brightest: Name of the brightest cell.
        darkest: Name of the darkest cell.
        spread: Brightest minus darkest cell's mean, 0 to 1.
        detail: Names of the cells with more than their share of edges, the most first.
        smooth: Names of the cells with less than a quarter of an even share.
        sharpness: 99th percentile of edge strength in the sharpest cell, 0 to 1.
    """

    brightness: float
    contrast: float
    shadows: float
    highlights: float
    brightest: str
    darkest: str
    spread: float
    detail: list[str]
    smooth: list[str]
    sharpness: float


def measure_light(gray: Gray) -> Light:
    """Returns the measures of an 8-bit gray picture of at least 3x3 pixels."""
    cells = _cells(gray.astype(np.float32) / 255)
    levels = np.array([float(cell.mean()) for cell in cells])
    edges = edge_strength(gray)
    energy = np.array([float(cell.mean()) for cell in _cells(edges)])
    even = energy / max(float(energy.sum()), 1e-9)
    order = np.argsort(-even, kind="stable").tolist()
    return Light(
        brightness=float(gray.mean()) / 255,
        contrast=float(gray.std()) / 255,
        shadows=float((gray < 32).mean()),
        highlights=float((gray > 223).mean()),
        brightest=CELLS[int(levels.argmax())],
        darkest=CELLS[int(levels.argmin())],
        spread=float(levels.max() - levels.min()),
        detail=[CELLS[cell] for cell in order if even[cell] > 0.14][:3],
        smooth=[CELLS[cell] for cell in sorted(order) if even[cell] < 0.028],
        sharpness=max(float(np.percentile(cell, 99)) for cell in _cells(edges)),
    )


def edge_strength(gray: Gray) -> npt.NDArray[np.float32]:
    """Returns each pixel's edge strength, 0 to about 1 (a step from black to white)."""
    x = cv2.Sobel(gray, cv2.CV_32F, 1, 0, ksize=3)
    y = cv2.Sobel(gray, cv2.CV_32F, 0, 1, ksize=3)
    return np.asarray(cv2.magnitude(x, y) / (4 * 255), dtype=np.float32)


def _cells(values: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
    return [
        cell for row in np.array_split(values, 3, axis=0) for cell in np.array_split(row, 3, axis=1)
    ]
