from __future__ import annotations

import contextlib
import io
import struct
import zlib
from collections.abc import Callable
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageOps

from prx_assets.image.decode import (
    DecodeError,
    Inspected,
    decode,
    decode_bgr,
    decode_rgb,
    inspect,
)


def photo(side: int = 96) -> Image.Image:
    path = files("prx_assets.demo").joinpath("photos/bark.jpg")
    with Image.open(io.BytesIO(path.read_bytes())) as image:
        return image.convert("RGB").resize((side, side * 3 // 4))


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def distance(got: Image.Image, want: Image.Image) -> float:
    return float(np.abs(np.asarray(got, np.int16) - np.asarray(want, np.int16)).mean())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("JPEG", "jpeg"),
        ("PNG", "png"),
        ("WEBP", "webp"),
        ("GIF", "gif"),
        ("BMP", "bmp"),
        ("TIFF", "tiff"),
        ("PPM", "ppm"),
        ("AVIF", "avif"),
        ("JPEG2000", "jpeg2000"),
    ],
)
def test_the_content_decides_the_format(kind: str, name: str) -> None:
    got = decode(encoded(photo(), kind))
    assert (got.format, got.width, got.height, got.rgb.mode) == (name, 96, 72, "RGB")
    assert distance(got.rgb, photo()) < 12


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(photo(), "JPEG", quality=95, exif=exif)
    got = decode(data)
    with Image.open(io.BytesIO(data)) as image:
        want = ImageOps.exif_transpose(image)
    assert got.rgb.size == (got.width, got.height) == want.size
    assert distance(got.rgb, want) == 0
    assert (inspect(data).width, inspect(data).height) == want.size


def test_nonsense_in_exif_is_ignored() -> None:
    exif = Image.Exif()
    exif[0x0112] = 77
    assert decode(encoded(photo(), "JPEG", exif=exif)).width == 96
    assert decode(encoded(photo(), "JPEG", exif=b"Exif\0\0MM\0*garbage")).width == 96


def test_cmyk_jpeg_with_and_without_adobe_marker() -> None:
    image = photo()
    data = encoded(image.convert("CMYK"), "JPEG", quality=98)
    assert (decode(data).mode, distance(decode(data).rgb, image) < 3) == ("CMYK", True)
    at = data.index(b"Adobe") - 4
    length = int.from_bytes(data[at + 2 : at + 4], "big")
    plain = data[:at] + data[at + 2 + length :]
    # The same samples without the marker are inks, not inverted inks.
    assert distance(decode(plain).rgb, image) > 30


def test_icc_profile_is_converted_and_a_broken_one_ignored() -> None:
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
    srgb = ImageCms.createProfile("sRGB")
    as_lab = ImageCms.profileToProfile(photo(), srgb, lab, outputMode="LAB")
    assert as_lab is not None
    assert distance(decode(encoded(as_lab, "TIFF")).rgb, photo()) < 3
    assert distance(decode(encoded(photo(), icc_profile=b"no profile at all")).rgb, photo()) == 0
    own = ImageCms.ImageCmsProfile(srgb).tobytes()
    assert distance(decode(encoded(photo(), icc_profile=own)).rgb, photo()) == 0


def test_a_wide_gamut_profile_changes_the_pixels() -> None:
    # sRGB with its red and green primaries exchanged: what is stored as red is shown as green.
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    count = int.from_bytes(profile[128:132], "big")
    entries = {bytes(profile[132 + 12 * i : 136 + 12 * i]): 132 + 12 * i for i in range(count)}
    profile[entries[b"rXYZ"] : entries[b"rXYZ"] + 4] = b"gXYZ"
    profile[entries[b"gXYZ"] : entries[b"gXYZ"] + 4] = b"rXYZ"
    text = bytes(profile).replace("sRGB".encode("utf-16-be"), "test".encode("utf-16-be"))
    got = decode(encoded(Image.new("RGB", (8, 8), (255, 0, 0)), icc_profile=text))
    red, green, _blue = np.asarray(got.rgb).reshape(-1, 3).mean(axis=0)
    assert green > 200
    assert red < 60


def test_sixteen_bits_are_scaled_not_cut_off() -> None:
    ramp = np.linspace(0, 65_535, 64).astype(np.uint16).reshape(8, 8)
    for kind in ("PNG", "TIFF", "PPM"):
        got = decode_rgb(encoded(Image.fromarray(ramp), kind))
        assert np.abs(got[:, :, 0].astype(int) - ramp / 257).max() <= 1


def test_float_samples_need_a_known_range() -> None:
    grey = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
    assert decode_rgb(encoded(Image.fromarray(grey), "TIFF")).max() == 255
    for call in (decode, inspect):
        with pytest.raises(DecodeError, match="unsupported"):
            call(encoded(Image.fromarray(grey * 9), "TIFF"))


def test_alpha_is_composited_on_white() -> None:
    clear = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    half = Image.new("RGBA", (8, 8), (0, 0, 0, 128))
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([9, 9, 9, 200, 0, 0])
    assert decode_rgb(encoded(clear)).min() == 255
    assert abs(int(decode_rgb(encoded(half)).mean()) - 127) <= 1
    assert decode_rgb(encoded(palette, transparency=1)).min() == 255
    assert tuple(decode_rgb(encoded(palette))[0, 0]) == (200, 0, 0)
    assert decode_rgb(encoded(Image.new("LA", (8, 8), (10, 0)))).min() == 255
    assert decode_rgb(encoded(Image.new("1", (8, 8), 1))).min() == 255


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_an_animation_gives_its_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "green")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    red, green, blue = decode_rgb(data).reshape(-1, 3).mean(axis=0)
    assert red > 240
    assert max(green, blue) < 15


def test_bgr_is_rgb_reversed() -> None:
    data = encoded(photo())
    assert np.array_equal(decode_bgr(data)[:, :, ::-1], decode_rgb(data))


@pytest.mark.parametrize("call", [decode, inspect])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "AVIF"])
@pytest.mark.parametrize("progressive", [False, True])
def test_truncated_files_are_refused(
    call: Callable[[bytes], Inspected], kind: str, progressive: bool
) -> None:
    data = encoded(photo(), kind, progressive=progressive)
    with pytest.raises(DecodeError) as caught:
        call(data[: len(data) * 6 // 10])
    assert caught.value.code in {"truncated", "corrupt"}


def test_reasons_a_person_understands() -> None:
    with pytest.raises(DecodeError, match=r"empty: the file has no bytes"):
        decode(b"")
    with pytest.raises(DecodeError, match=r"not_an_image: "):
        decode(b"<html>404</html>")
    with pytest.raises(DecodeError, match=r"not_an_image: "):
        decode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    with pytest.raises(DecodeError, match=r"truncated: the image data ends early"):
        decode(encoded(photo(), "JPEG")[:-300])


@pytest.mark.parametrize("side", [20_000, 2_000_000])
def test_a_bomb_is_refused_before_its_pixels_are_made(side: int) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99))
    for call in (decode, inspect):
        with pytest.raises(DecodeError, match="too_many_pixels"):
            call(bomb)


def test_the_pixel_limit_is_the_callers() -> None:
    data = encoded(photo())
    assert decode(data, max_pixels=96 * 72).width == 96
    with pytest.raises(DecodeError, match="too_many_pixels: 96x72 is over the limit of 6911"):
        decode(data, max_pixels=96 * 72 - 1)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_bytes_decode_or_say_why(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"]))
    broken = bytearray(encoded(photo(32), kind))
    for _ in range(data.draw(st.integers(1, 6))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    # Anything but a DecodeError fails the test.
    with contextlib.suppress(DecodeError):
        got = decode(bytes(broken), max_pixels=1_000_000)
        assert got.rgb.mode == "RGB"
        assert inspect(bytes(broken), max_pixels=1_000_000).format == got.format
