"""What confirms a match of hashes: a few colours, and whether there is anything to see at all."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from prx_assets.perceptual_hashes.reduced import Axis, Reduced

CELLS = 4
"""Cells along each side of the grid."""

FLAT_STD = 4.0
"""Grey standard deviation (0-255) under which a picture has no structure that a hash could hold."""


@lru_cache(maxsize=1024)
def _weights(axis: Axis) -> NDArray[np.float32]:
    """Returns each pixel's share in the mean of each cell, shape (CELLS, size)."""
    edges = axis.edges() * CELLS
    return np.diff(np.clip(edges - np.arange(CELLS)[:, None], 0, 1)).astype(np.float32)


def signature(picture: Reduced) -> bytes:
    """Returns the mean colours of a 4 x 4 grid: 48 bytes, row by row, R, G, B of each cell."""
    height, width = picture.rgb.shape[:2]
    values = picture.rgb.reshape(height, width * 3).astype(np.float32)
    bands = (_weights(picture.rows) @ values).reshape(CELLS, width, 3)
    cells = _weights(picture.columns) @ bands
    return np.rint(cells).clip(0, 255).astype(np.uint8).tobytes()


def gray_std(picture: Reduced) -> float:
    """Returns the standard deviation of the grey values, 0-127.5."""
    gray = cv2.cvtColor(picture.rgb, cv2.COLOR_RGB2GRAY)
    return float(cv2.meanStdDev(gray)[1][0, 0])


def is_flat(picture: Reduced, flat_std: float = FLAT_STD) -> bool:
    """Returns whether the picture is so even that its hash says nothing: all flats share one."""
    return gray_std(picture) < flat_std
