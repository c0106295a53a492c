"""Any stored colour to 8-bit sRGB without alpha."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageChops, ImageCms

_WHITE = (255, 255, 255, 255)
_SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
_LAB = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
_PROFILE_MODES = {"RGB ": "RGB", "GRAY": "L", "CMYK": "CMYK", "Lab ": "LAB"}


def to_srgb(image: Image.Image) -> Image.Image:
    """Returns the image (its first frame) as mode RGB in sRGB, alpha composited on white.

    Args:
        image: An opened Pillow image of any mode.

    Raises:
        NotImplementedError: Samples whose range says nothing about black and white.
        Exception: Whatever Pillow raises for damaged data.
    """
    image.load()
    profile = image.info.get("icc_profile")
    if image.mode == "CMYK" and hasattr(image, "quantization") and "adobe" not in image.info:
        # Only Adobe's marker means inverted inks; Pillow inverts every CMYK JPEG.
        image = ImageChops.invert(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = _eight_bit(image)
    if not image.has_transparency_data:
        return _opaque(image, profile)
    rgba = image.convert("RGBA")
    alpha = rgba.getchannel("A")
    colour = _opaque(rgba.convert("RGB"), profile)
    colour.putalpha(alpha)
    return Image.alpha_composite(Image.new("RGBA", colour.size, _WHITE), colour).convert("RGB")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Scales 16-bit and float greys; Pillow's own conversion cuts them off at 255."""
    values = np.asarray(image)
    if image.mode == "F":
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
            raise NotImplementedError("float samples outside 0..1")
        return Image.fromarray((values * 255 + 0.5).astype(np.uint8))
    wide = values.astype(np.int64)
    if wide.min() < 0 or wide.max() > 65_535:
        raise NotImplementedError("integer samples outside 0..65535")
    return Image.fromarray(((wide + 128) // 257).astype(np.uint8))


def _opaque(image: Image.Image, profile: bytes | None) -> Image.Image:
    if image.mode == "LAB":
        return _transform(image, _LAB)
    if image.mode not in ("L", "RGB", "CMYK"):
        image = image.convert("RGB")
    if profile:
        try:
            return _from_profile(image, profile)
        except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
            pass  # a damaged profile: the plain reading is what most viewers show
    return image.convert("RGB")


def _from_profile(image: Image.Image, profile: bytes) -> Image.Image:
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    mode = _PROFILE_MODES.get(source.profile.xcolor_space)
    if mode == "RGB" and image.mode == "L":
        image = image.convert("RGB")
    is_srgb = "srgb" in (source.profile.profile_description or "").lower()
    if mode != image.mode or is_srgb:
        return image.convert("RGB")
    return _transform(image, source)


def _transform(image: Image.Image, source: ImageCms.ImageCmsProfile) -> Image.Image:
    converted = ImageCms.profileToProfile(image, source, _SRGB, outputMode="RGB")
    if converted is None:
        raise ValueError("colour conversion gave no image")
    return converted
