"""Which images are worth captioning and exporting: one policy, as SQL and as a function."""

from __future__ import annotations

MIN_PIXELS = 147_456
"""384²: the smallest bucket is 512² and nothing is upscaled by more than 4/3."""

MAX_ASPECT = 2
"""Width/height must lie in [1/MAX_ASPECT, MAX_ASPECT], the range of the buckets."""

ELIGIBLE = (
    f"set_aside IS NULL AND pixels >= {MIN_PIXELS}"
    f" AND {MAX_ASPECT}*width >= height AND width <= {MAX_ASPECT}*height"
)
"""SQL over a source's image table that selects the eligible rows."""

USABLE = "usable"
TOO_SMALL = "too_small"
OUTSIDE_ASPECT = "outside_aspect"


def fate(width: int, height: int) -> str:
    """Returns what the size alone decides: `USABLE`, `TOO_SMALL` or `OUTSIDE_ASPECT`.

    Args:
        width: Width in pixels, after EXIF orientation.
        height: Height in pixels, after EXIF orientation.
    """
    if width * height < MIN_PIXELS:
        return TOO_SMALL
    if MAX_ASPECT * width < height or width > MAX_ASPECT * height:
        return OUTSIDE_ASPECT
    return USABLE


def eligible(width: int, height: int) -> bool:
    """Returns whether an image of this size is captioned and exported."""
    return fate(width, height) == USABLE
