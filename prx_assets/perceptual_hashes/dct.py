"""The perceptual hash: 64 bits of a picture's lowest frequencies."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from prx_assets.perceptual_hashes.reduced import Axis, Reduced

FREQUENCIES = 8
"""Frequencies along each side; all pairs of them are the hash's bits."""

ROUNDING = 0.001
"""Grey levels under which a coefficient counts as zero. Drawn pictures have many that are exactly
zero; the rounding errors of a machine's arithmetic would decide their bits."""


@lru_cache(maxsize=1024)
def _basis(axis: Axis) -> NDArray[np.float32]:
    """Returns the integral of each cosine over each pixel, shape (FREQUENCIES, size).

    Integrals instead of samples: an incomplete pixel at the border then has its true weight, and
    two sizes of one picture have the same frequencies.
    """
    edges = axis.edges()
    frequency = np.pi * np.arange(1, FREQUENCIES)[:, None]
    waves = np.diff(np.sin(frequency * edges)) * np.sqrt(2) / frequency
    return np.vstack([np.diff(edges)[None], waves]).astype(np.float32)


def coefficients(picture: Reduced) -> NDArray[np.float32]:
    """Returns the lowest terms of the orthonormal cosine series of the picture's grey values.

    Returns:
        Shape (8, 8), vertical frequency first, in grey levels (0-255); [0, 0] is the mean.
    """
    gray = cv2.cvtColor(picture.rgb, cv2.COLOR_RGB2GRAY).astype(np.float32)
    result: NDArray[np.float32] = _basis(picture.rows) @ gray @ _basis(picture.columns).T
    return result


def phash(picture: Reduced) -> int:
    """Returns the 64-bit hash: one bit a coefficient, set where it is above their median.

    The first bit (most significant) belongs to the mean, the next to the lowest horizontal
    frequency. Two images match at Hamming distance 0, and only if `signature` agrees.
    """
    values = coefficients(picture)
    values[np.abs(values) < ROUNDING] = 0
    bits = np.packbits((values > np.median(values)).ravel())
    return int.from_bytes(bits.tobytes(), "big")
