"""Which resolution level and aspect-ratio bucket an image is exported to.

Four levels, and 13 buckets a level whose sides are multiples of a sixteenth of the level, so that
a patch grid of 16 x 16 has nearly the same number of tokens in each. Everything is decided in
integers: a ratio on the middle between two buckets goes to the narrower one, on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

GRID = 16
"""Patches along the side of a square image."""

LEVELS = (512, 1024, 2048, 4096)
"""Side of each level's square bucket, in pixels."""

MAX_UPSCALE = Fraction(4, 3)
"""An image reaches a level if its sides grow by no more than this (as the root of the area)."""

MIN_RATIO, MAX_RATIO = Fraction(1, 2), Fraction(2)
"""Bounds of width / height, both included."""


@dataclass(frozen=True, order=True)
class Bucket:
    """One target size.

    Attributes:
        level: Side of the level's square bucket in pixels.
        width: Width of every image in the bucket in pixels.
        height: Height of every image in the bucket in pixels.
    """

    level: int
    width: int
    height: int

    @property
    def dir(self) -> str:
        """Name of the bucket's folder: width / height with three decimals."""
        return f"{self.width / self.height:.3f}"

    @property
    def ratio(self) -> Fraction:
        """Width / height."""
        return Fraction(self.width, self.height)


@cache
def grid_sizes(grid: int = GRID) -> tuple[tuple[int, int], ...]:
    """Returns every bucket's (width, height) in patches, from the narrowest to the widest."""
    narrowest = isqrt((grid * grid - 1) // 2) + 1
    widest = isqrt(2 * grid * grid)
    sizes = [(width, grid * grid // width) for width in range(narrowest, widest + 1)]
    both = {*sizes, *((height, width) for width, height in sizes)}
    return tuple(sorted(both, key=lambda size: Fraction(*size)))


@cache
def table() -> dict[int, tuple[Bucket, ...]]:
    """Returns each level's buckets, from the narrowest to the widest."""
    return {
        level: tuple(
            Bucket(level, width * level // GRID, height * level // GRID)
            for width, height in grid_sizes()
        )
        for level in LEVELS
    }


@cache
def _middles() -> tuple[tuple[int, int], ...]:
    # Between two neighbours the nearer one changes at their mean; as (numerator, denominator).
    ratios = [Fraction(*size) for size in grid_sizes()]
    middles = [(low + high) / 2 for low, high in pairwise(ratios)]
    return tuple((middle.numerator, middle.denominator) for middle in middles)


@cache
def min_pixels(level: int) -> int:
    """Returns the least width * height that reaches `level`."""
    side = Fraction(level) / MAX_UPSCALE
    return -(-(side * side).numerator // (side * side).denominator)


def assign(width: int, height: int) -> Bucket | None:
    """Returns the bucket of an image of this size, or None if it isn't eligible.

    Args:
        width: Pixels, after the EXIF orientation was applied.
        height: Pixels, likewise.
    """
    level, index = assign_many([width], [height])
    return table()[int(level[0])][int(index[0])] if level[0] else None


def assign_many(
    widths: ArrayLike, heights: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the levels and the indexes into `table()[level]` of many images.

    Args:
        widths: Pixels, after the EXIF orientation was applied; shape (n,).
        heights: Pixels, likewise; shape (n,).

    Returns:
        Two int64 arrays of shape (n,); level 0 and index -1 where an image isn't eligible.
    """
    width = np.asarray(widths, dtype=np.int64)
    height = np.asarray(heights, dtype=np.int64)
    level = np.zeros(width.shape, dtype=np.int64)
    for candidate in LEVELS:
        level[width * height >= min_pixels(candidate)] = candidate
    level[(width <= 0) | (height <= 0)] = 0
    level[width * MIN_RATIO.denominator < height * MIN_RATIO.numerator] = 0
    level[width * MAX_RATIO.denominator > height * MAX_RATIO.numerator] = 0
    index = np.zeros(width.shape, dtype=np.int64)
    for numerator, denominator in _middles():
        index += width * denominator > height * numerator
    return level, np.where(level > 0, index, -1)
