"""Image bytes to a small upright picture, without decoding a JPEG at full size."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from prx_assets.image.colour import to_srgb
from prx_assets.image.decode import MAX_PIXELS, decode

MIN_SIDE = 128
"""Below this the low frequencies of a picture and of its rescaled copy begin to differ."""

_FLAGS = {
    8: cv2.IMREAD_REDUCED_COLOR_8,
    4: cv2.IMREAD_REDUCED_COLOR_4,
    2: cv2.IMREAD_REDUCED_COLOR_2,
    1: cv2.IMREAD_COLOR,
}
_ORIENTATION = 0x0112
# EXIF orientation -> (transpose, then flip rows, then flip columns).
_UPRIGHT = {
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}


@dataclass(frozen=True)
class Axis:
    """How the pixels of a reduced picture lie along one side of the original.

    A reduction by 8 makes one pixel of the last, incomplete block too. It counts for less than
    the others: taking it for a whole one shifts the frequencies, and copies stop matching.

    Attributes:
        size: Number of pixels.
        extent: The side's true length in reduced pixels, `size - 1 < extent <= size`.
        reversed: Whether the incomplete pixel is the first one.
    """

    size: int
    extent: float
    reversed: bool = False

    def edges(self) -> NDArray[np.float64]:
        """Returns the pixels' borders as fractions of the side, shape (size + 1,)."""
        edges = np.minimum(np.arange(self.size + 1) / self.extent, 1.0)
        return 1.0 - edges[::-1] if self.reversed else edges


@dataclass(frozen=True)
class Reduced:
    """A small version of a picture.

    Attributes:
        rgb: Height x width x 3, uint8, sRGB, upright, alpha composited on white.
        rows: Geometry of the first dimension.
        columns: Geometry of the second dimension.
    """

    rgb: NDArray[np.uint8]
    rows: Axis
    columns: Axis


def divisor(width: int, height: int, min_side: int = MIN_SIDE) -> int:
    """Returns the largest of 8, 4, 2 that keeps the short side at `min_side` or more, else 1."""
    for candidate in (8, 4, 2):
        if min(width, height) >= min_side * candidate:
            return candidate
    return 1


def read(data: bytes, *, min_side: int = MIN_SIDE, max_pixels: int = MAX_PIXELS) -> Reduced:
    """Returns a small version of the image in `data`, the same whatever the file's format.

    Args:
        data: The file's bytes.
        min_side: Pixels that the short side keeps.
        max_pixels: Larger images are refused.

    Raises:
        DecodeError: The bytes aren't an image this project takes.
    """
    return _read_jpeg(data, min_side, max_pixels) or full(
        data, min_side=min_side, max_pixels=max_pixels
    )


def full(data: bytes, *, min_side: int = MIN_SIDE, max_pixels: int = MAX_PIXELS) -> Reduced:
    """Does what `read` does by way of the complete image: for other formats, and to compare.

    Raises:
        DecodeError: The bytes aren't an image this project takes.
    """
    image = decode(data, max_pixels=max_pixels).rgb
    by = divisor(image.width, image.height, min_side)
    small = np.asarray(image.reduce(by) if by > 1 else image)
    rows, columns = small.shape[:2]
    return Reduced(small, Axis(rows, image.height / by), Axis(columns, image.width / by))


def _read_jpeg(data: bytes, min_side: int, max_pixels: int) -> Reduced | None:
    """Decodes a plain JPEG at reduced size; None sends everything else to the full decoder."""
    # Without the end marker the file may be cut off, which only the full decoder judges.
    if data[:3] != b"\xff\xd8\xff" or b"\xff\xd9" not in data[-64:]:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            header = Image.open(io.BytesIO(data), formats=("JPEG",))
        if header.mode not in ("RGB", "L") or header.width * header.height > max_pixels:
            return None
        orientation = header.getexif().get(_ORIENTATION, 1) if "exif" in header.info else 1
    except Exception:  # hostile headers make Pillow raise almost anything
        return None
    by = divisor(header.width, header.height, min_side)
    flags = _FLAGS[by] | cv2.IMREAD_IGNORE_ORIENTATION
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if bgr is None or bgr.shape[:2] != (-(-header.height // by), -(-header.width // by)):
        return None
    rgb = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
    if profile := header.info.get("icc_profile"):
        small = Image.fromarray(rgb)
        small.info["icc_profile"] = profile
        rgb = np.asarray(to_srgb(small))
    return _upright(rgb, header.height / by, header.width / by, orientation)


def _upright(rgb: NDArray[np.uint8], height: float, width: float, orientation: object) -> Reduced:
    rows, columns = Axis(rgb.shape[0], height), Axis(rgb.shape[1], width)
    turn = _UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    if turn is None:
        return Reduced(rgb, rows, columns)
    transpose, flip_rows, flip_columns = turn
    if transpose:
        rgb, rows, columns = rgb.transpose(1, 0, 2), columns, rows
    rgb = rgb[:: -1 if flip_rows else 1, :: -1 if flip_columns else 1]
    return Reduced(
        np.ascontiguousarray(rgb),
        Axis(rows.size, rows.extent, flip_rows),
        Axis(columns.size, columns.extent, flip_columns),
    )
