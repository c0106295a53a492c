"""Where a picture holds lines of text, found by their shape: nothing is read.

A line of print is a long flat box of two brightness levels, crossed by many strokes, with an even
margin above and below. Photographs rarely hold even one such box, pages hold dozens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Gray = npt.NDArray[np.uint8]
Box = tuple[int, int, int, int]
"""x, y, width, height in pixels."""

_EDGE = 36
_MIN_HEIGHT = 6
_MAX_HEIGHT_SHARE = 0.16
_MIN_CONTRAST = 40.0
_MIN_TWO_LEVELS = 0.68
_BLOCK = 16
_FLAT_DEVIATION = 3.0


@dataclass(frozen=True)
class TextAreas:
    """What was measured about text.

    Attributes:
        lines: Boxes that look like a line of text.
        area: Their share of the picture, 0 to 1.
        rows: Share of the picture's height that lines of text cross, 0 to 1.
        plain: Share of the picture that is an even surface of its commonest brightness.
        dark_on_light: Whether most lines are darker than what surrounds them.
        top: Share of the height above the first line.
        bottom: Share of the height above the last line's end.
        height: Median height of a line as a share of the picture's height.
    """

    lines: int
    area: float
    rows: float
    plain: float
    dark_on_light: bool
    top: float
    bottom: float
    height: float

    @property
    def is_page(self) -> bool:
        """Whether text makes up the picture, rather than being something in it."""
        if self.lines < 3:
            return False
        # A dense page leaves little even paper, a slide or form has few lines on much of it.
        crowded = self.area >= 0.15 or (self.lines >= 8 and self.plain >= 0.2)
        return crowded or (self.plain >= 0.3 and self.area >= 0.03)


@dataclass(frozen=True)
class _Line:
    box: Box
    dark_on_light: bool


def measure_text(gray: Gray) -> TextAreas:
    """Returns what can be measured about text in an 8-bit gray picture."""
    found = _merged([*_lines(gray, 1), *_lines(gray, 2)])
    height, width = gray.shape
    crossed = np.zeros(height, dtype=bool)
    for line in found:
        crossed[line.box[1] : line.box[1] + line.box[3]] = True
    boxes = [line.box for line in found]
    return TextAreas(
        lines=len(found),
        area=sum(w * h for _, _, w, h in boxes) / (width * height),
        rows=float(crossed.mean()),
        plain=_plain_share(gray),
        dark_on_light=sum(line.dark_on_light for line in found) * 2 >= len(found),
        top=min((y for _, y, _, _ in boxes), default=0) / height,
        bottom=max((y + h for _, y, _, h in boxes), default=0) / height,
        height=float(np.median([h for *_, h in boxes])) / height if boxes else 0.0,
    )


def _plain_share(gray: Gray) -> float:
    """Share of the picture in even blocks of the commonest brightness."""
    height, width = (side // _BLOCK * _BLOCK for side in gray.shape)
    if height == 0 or width == 0:
        return 0.0
    blocks = (
        cv2.GaussianBlur(gray, (3, 3), 0)[:height, :width]
        .reshape(height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK)
        .astype(np.float32)
    )
    even = blocks.std(axis=(1, 3)) < _FLAT_DEVIATION
    levels = np.bincount(blocks.mean(axis=(1, 3))[even].astype(np.int64), minlength=256)
    # A shaded sky is even too, but spreads over many levels; paper has one.
    return float(np.convolve(levels, np.ones(9), "same").max() / even.size)


def _lines(gray: Gray, shrink: int) -> Iterator[_Line]:
    """Yields boxes that look like lines of text, at 1/shrink of the size (for big letters)."""
    if min(gray.shape) // shrink < 4 * _MIN_HEIGHT:
        return
    if shrink > 1:
        size = (gray.shape[1] // shrink, gray.shape[0] // shrink)
        gray = np.asarray(cv2.resize(gray, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    edges = cv2.morphologyEx(gray, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))
    strokes = (edges >= _EDGE).astype(np.uint8)
    # Letters of a line touch after this; lines, which have a gap between them, do not.
    joined = cv2.morphologyEx(strokes, cv2.MORPH_CLOSE, np.ones((1, 15), np.uint8))
    joined = cv2.morphologyEx(joined, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    _, _, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=4)
    for x, y, w, h, area in stats[1:].tolist():
        if h < _MIN_HEIGHT or h > _MAX_HEIGHT_SHARE * gray.shape[0] or w < 2.5 * h:
            continue
        if area >= 0.45 * w * h:
            polarity = _polarity(gray, (x, y, w, h))
            if polarity is not None:
                yield _Line((x * shrink, y * shrink, w * shrink, h * shrink), polarity)


def _polarity(gray: Gray, box: Box) -> bool | None:
    """Returns whether the box is dark text on light; None if it isn't a line of text."""
    x, y, w, h = box
    crop = gray[y : y + h, x : x + w]
    level, ink = cv2.threshold(crop, 0, 1, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    high = crop[ink == 1].astype(np.float32)
    low = crop[ink == 0].astype(np.float32)
    if not high.size or not low.size or high.mean() - low.mean() < _MIN_CONTRAST:
        return None
    contrast = float(high.mean() - low.mean())
    margin = np.concatenate(
        (gray[max(0, y - 2) : y, x : x + w], gray[y + h : y + h + 2, x : x + w])
    )
    if not margin.size:
        return None
    dark_on_light = bool(np.median(margin) > level)
    paper, strokes = (high, low) if dark_on_light else (low, high)
    share = strokes.size / crop.size
    between = share * (1 - share) * contrast**2
    two_levels = between / max(float(crop.var()), 1e-6)
    even_margin = np.abs(margin.astype(np.float32) - np.median(paper)) < 0.25 * contrast
    middle = ink[h // 3 : max(h // 3 + 1, 2 * h // 3)].astype(np.int8)
    crossings = float(np.abs(np.diff(middle, axis=1)).sum(axis=1).mean())
    looks_printed = (
        0.06 <= share <= 0.6
        and two_levels >= _MIN_TWO_LEVELS
        and float(even_margin.mean()) >= 0.85
        and float(paper.std()) < 0.16 * contrast
        and crossings >= max(6.0, 0.9 * w / h)
    )
    return dark_on_light if looks_printed else None


def _merged(lines: list[_Line]) -> list[_Line]:
    """Drops boxes that lie in another, as the two sizes find the same line twice."""
    kept: list[_Line] = []
    for line in sorted(lines, key=lambda line: (-line.box[2] * line.box[3], line.box)):
        if not any(_overlap(line.box, other.box) > 0.4 for other in kept):
            kept.append(line)
    return kept


def _overlap(inner: Box, outer: Box) -> float:
    width = min(inner[0] + inner[2], outer[0] + outer[2]) - max(inner[0], outer[0])
    height = min(inner[1] + inner[3], outer[1] + outer[3]) - max(inner[1], outer[1])
    return max(0, width) * max(0, height) / (inner[2] * inner[3])
