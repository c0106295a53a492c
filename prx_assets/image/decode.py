"""Image bytes to sRGB pixels, and the reasons why some bytes are refused.

One policy for every stage: the content decides the format, EXIF orientation is applied, colours
are converted to sRGB, alpha is composited on white, an animation gives its first frame, and a file
that is truncated, damaged or larger than the pixel limit is refused.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile, UnidentifiedImageError

from prx_assets.image.colour import to_srgb
from prx_assets.image.jpeg import estimate_quality

MAX_PIXELS = 300_000_000
"""Largest image that is decoded (0.9 GB of RGB), unless a caller says otherwise."""

DECODE_VERSION = 1
"""Bumped by hand when the same bytes give other pixels; part of the fingerprints of stages."""

# An allow-list: among Pillow's other readers are ones that start programs or follow file names.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "JPEG2000", "PPM")
_FORMAT_NAMES = {"MPO": "jpeg", "DIB": "bmp"}
Image.init()  # registers all readers; `formats=` knows only registered ones
Image.MAX_IMAGE_PIXELS = None  # each call brings its own limit, which is checked below
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class DecodeError(ValueError):
    """These bytes don't become an image; a row is set aside for it, no stage fails.

    Attributes:
        reason: `<code>: <sentence>`; codes are empty, not_an_image, truncated, corrupt,
            too_many_pixels and unsupported.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    @property
    def code(self) -> str:
        """The part of the reason that programs compare."""
        return self.reason.partition(":")[0]


@dataclass(frozen=True)
class Inspected:
    """What is known of an image that decodes, without its pixels.

    Attributes:
        format: Lower-case name by content: jpeg, png, webp, gif, bmp, tiff, avif, jpeg2000, ppm.
        mode: Pillow's mode as stored: RGB, L, CMYK, P, RGBA, I;16, ...
        width: Width in pixels after EXIF orientation.
        height: Height in pixels after EXIF orientation.
        jpeg_quality: Estimated quality 1-100, None unless a JPEG.
    """

    format: str
    mode: str
    width: int
    height: int
    jpeg_quality: int | None


@dataclass(frozen=True)
class Decoded(Inspected):
    """A decoded image.

    Attributes:
        rgb: Pillow image of mode RGB in sRGB, upright, without alpha.
    """

    rgb: Image.Image


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Decoded:
    """Decodes an image completely.

    Args:
        data: The file's bytes.
        max_pixels: Images with more pixels are refused before any pixel is decoded.

    Raises:
        DecodeError: The bytes aren't an image this project takes.
    """
    with _opened(data, max_pixels) as image:
        found = _inspected(image)
        rgb = _upright(to_srgb(image), _orientation(image))
    return Decoded(**vars(found), rgb=rgb)


def inspect(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Inspected:
    """Says what `decode` would, and refuses what it would, at a fraction of a JPEG's cost.

    All of the compressed data is read, so truncation is found; a JPEG's pixels are reconstructed
    at an eighth of the size only.

    Raises:
        DecodeError: The bytes aren't an image this project takes.
    """
    with _opened(data, max_pixels) as image:
        found = _inspected(image)
        if found.format == "jpeg":
            image.draft(None, (max(1, image.width // 8), max(1, image.height // 8)))
            image.load()
        else:
            to_srgb(image)
    return found


def decode_rgb(data: bytes, *, max_pixels: int = MAX_PIXELS) -> npt.NDArray[np.uint8]:
    """Returns `decode`'s pixels as an array, height x width x 3, RGB."""
    return np.asarray(decode(data, max_pixels=max_pixels).rgb)


def decode_bgr(data: bytes, *, max_pixels: int = MAX_PIXELS) -> npt.NDArray[np.uint8]:
    """Returns `decode`'s pixels in OpenCV's order, height x width x 3, BGR, contiguous."""
    return np.ascontiguousarray(decode_rgb(data, max_pixels=max_pixels)[:, :, ::-1])


@contextmanager
def _opened(data: bytes, max_pixels: int) -> Iterator[ImageFile.ImageFile]:
    """Opens the image and turns everything that goes wrong in the block into `DecodeError`."""
    if not data:
        raise DecodeError("empty: the file has no bytes")
    try:
        # Pillow warns about odd but harmless metadata; the pixel limit below is ours.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
                if image.width * image.height > max_pixels:
                    raise _too_large(f"{image.width}x{image.height}", max_pixels)
                yield image
    except DecodeError:
        raise
    except UnidentifiedImageError as error:
        raise DecodeError(_unidentified(data)) from error
    except MemoryError as error:
        raise DecodeError("too_many_pixels: not enough memory to decode the image") from error
    except Exception as error:  # hostile bytes make Pillow raise almost anything
        raise DecodeError(_failure(error)) from error


def _too_large(size: str, max_pixels: int) -> DecodeError:
    return DecodeError(f"too_many_pixels: {size} is over the limit of {max_pixels} pixels")


def _unidentified(data: bytes) -> str:
    known = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF")
    if data.startswith(known) or data[4:8] == b"ftyp":
        return "corrupt: the header is that of an image, but it can't be read"
    return "not_an_image: the bytes are no image format that is read here"


def _failure(error: Exception) -> str:
    text = " ".join(str(error).split())[:200] or type(error).__name__
    if isinstance(error, EOFError) or "truncated" in text.lower():
        return f"truncated: the image data ends early ({text})"
    if isinstance(error, NotImplementedError):
        return f"unsupported: {text}"
    return f"corrupt: {text}"


def _inspected(image: ImageFile.ImageFile) -> Inspected:
    width, height = image.size
    if _orientation(image) >= 5:  # 5-8 swap the sides
        width, height = height, width
    name = image.format or ""
    return Inspected(
        format=_FORMAT_NAMES.get(name, name.lower()),
        mode=image.mode,
        width=width,
        height=height,
        jpeg_quality=estimate_quality(getattr(image, "quantization", {})),
    )


def _orientation(image: Image.Image) -> int:
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # a damaged EXIF block doesn't spoil the picture
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    turn = _TURNS.get(orientation)
    return image if turn is None else image.transpose(turn)
