from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

import prx_assets.demo
from prx_assets.image import decode
from prx_assets.perceptual_hashes.dct import coefficients, phash
from prx_assets.perceptual_hashes.reduced import Axis, Reduced, divisor, full, read
from prx_assets.perceptual_hashes.signature import FLAT_STD, gray_std, is_flat, signature
from prx_assets.perceptual_hashes.spec import DECODE_VERSION, PerceptualHashesSpec

PHOTOS = sorted((Path(prx_assets.demo.__file__).parent / "photos").glob("*.jpg"))
TOLERANCE = 12
CLEAR = 0.01


def encode(image: Image.Image, quality: int = 92, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, options.pop("format", "JPEG"), quality=quality, **options)
    return buffer.getvalue()


def photo(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def scaled(image: Image.Image, by: float) -> Image.Image:
    size = round(image.width * by), round(image.height * by)
    return image.resize(size, Image.Resampling.LANCZOS)


def distance(left: int, right: int) -> int:
    return (left ^ right).bit_count()


def spread(left: Reduced, right: Reduced) -> int:
    """The largest difference of two signatures' bytes."""
    a, b = (np.frombuffer(signature(p), np.uint8).astype(int) for p in (left, right))
    return int(np.abs(a - b).max())


@pytest.fixture(scope="module")
def copies() -> list[tuple[bytes, bytes]]:
    """Each photo of at least 500 pixels with copies re-encoded, halved and quartered."""
    pairs = []
    for path in PHOTOS:
        image = photo(path)
        if min(image.size) < 500:
            continue
        original = encode(image)
        for by in (1, 0.5, 0.25):
            smaller = scaled(image, by)
            pairs += [(original, encode(smaller, quality)) for quality in (90, 85, 75)]
    return pairs


def diagrams() -> list[Image.Image]:
    """Slides of one template: the same boxes at the same places, in each one's own colours."""
    palette = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b"]
    drawn = []
    for shift in range(6):
        image = Image.new("RGB", (1280, 720), "white")
        draw = ImageDraw.Draw(image)
        for box in range(6):
            left, top = 60 + box % 3 * 400, 120 + box // 3 * 290
            fill = palette[(box + shift) % 6]
            draw.rectangle((left, top, left + 340, top + 220), fill=fill, outline="black")
        drawn.append(image)
    return drawn


def test_reduced_decode_matches_the_same_copies_as_a_full_decode(
    copies: list[tuple[bytes, bytes]],
) -> None:
    found: dict[str, int] = {}
    for name, decoder in (("reduced", read), ("full", full)):
        matches = [phash(decoder(a)) == phash(decoder(b)) for a, b in copies]
        found[name] = sum(matches)
    assert found["reduced"] >= found["full"]
    assert found["reduced"] >= 0.9 * len(copies)


def test_reduced_and_full_decode_agree_on_each_photo() -> None:
    for path in PHOTOS:
        data = path.read_bytes()
        assert distance(phash(read(data)), phash(full(data))) <= 2, path.name
        assert spread(read(data), full(data)) <= 2, path.name


def test_an_unrelated_photo_never_matches() -> None:
    # Crops of one scene are among them: those aren't copies. The thumbnail is one.
    hashes = {path.stem: phash(read(path.read_bytes())) for path in PHOTOS}
    assert hashes.pop("sunrise-thumb") == hashes["summit-sunrise"]
    assert len(set(hashes.values())) == len(hashes)


def test_the_tolerance_keeps_copies_together_and_diagrams_of_one_layout_apart(
    copies: list[tuple[bytes, bytes]],
) -> None:
    copied = max(spread(read(a), read(b)) for a, b in copies)
    drawn = [read(encode(image)) for image in diagrams()]
    apart = min(spread(a, b) for i, a in enumerate(drawn) for b in drawn[:i])
    assert copied <= TOLERANCE / 2
    assert apart >= 2 * TOLERANCE


def test_the_flat_threshold_lies_between_empty_pictures_and_photos_in_fog() -> None:
    rng = np.random.default_rng(0)
    paper = np.clip(rng.normal(245, 2, (600, 800, 3)), 0, 255).astype(np.uint8)
    empty = [Image.new("RGB", (800, 600), colour) for colour in ("white", "black", "#c03020")]
    for image in (*empty, Image.fromarray(paper)):
        assert gray_std(read(encode(image))) < FLAT_STD / 2
    for path in PHOTOS:
        fog = Image.blend(photo(path), Image.new("RGB", photo(path).size, "white"), 0.7)
        assert gray_std(read(encode(fog))) > FLAT_STD, path.name


def test_flat_pictures_share_a_hash_whatever_their_colour() -> None:
    # Why they must never be grouped by it.
    white, red = (read(encode(Image.new("RGB", (640, 480), c))) for c in ("white", "red"))
    assert phash(white) == phash(red)
    assert is_flat(white)
    assert is_flat(red)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int) -> None:
    image = photo(PHOTOS[0]).resize((1203, 805))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(image, exif=exif)
    upright = read(encode(decode.decode(data, max_pixels=10**8).rgb))
    turned = read(data)
    assert turned.rgb.shape == upright.rgb.shape
    assert distance(phash(turned), phash(upright)) <= 2
    assert spread(turned, upright) <= 2


@pytest.mark.parametrize(
    "convert",
    [
        lambda image: encode(image, format="PNG"),
        lambda image: encode(image, format="WEBP", lossless=True),
        lambda image: encode(image.convert("RGBA"), format="PNG"),
        lambda image: encode(image, progressive=True),
        lambda image: encode(image, subsampling=0),
    ],
    ids=["png", "webp", "alpha", "progressive", "full-chroma"],
)
def test_every_way_to_store_a_photo_gives_its_hash(
    convert: Callable[[Image.Image], bytes],
) -> None:
    image = photo(PHOTOS[5])
    plain, stored = read(encode(image)), read(convert(image))
    assert phash(plain) == phash(stored)
    assert spread(plain, stored) <= 2


def test_transparent_parts_are_white() -> None:
    image = Image.new("RGBA", (400, 300), (0, 0, 0, 0))
    image.paste((200, 30, 30, 255), (0, 0, 200, 300))
    cells = np.frombuffer(signature(read(encode(image, format="PNG"))), np.uint8).reshape(4, 4, 3)
    assert (cells[:, :2] == (200, 30, 30)).all()
    assert (cells[:, 2:] == 255).all()


def test_a_cut_off_file_is_refused() -> None:
    data = PHOTOS[0].read_bytes()
    with pytest.raises(decode.DecodeError, match="truncated"):
        read(data[: len(data) // 2])


def test_too_many_pixels_are_refused_before_decoding() -> None:
    with pytest.raises(decode.DecodeError, match="too_many_pixels"):
        read(PHOTOS[0].read_bytes(), max_pixels=1000)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_give_a_picture_or_a_reason(data: bytes, marked: bool) -> None:
    if marked:
        data = b"\xff\xd8\xff\xe0" + data + b"\xff\xd9"
    with pytest.raises(decode.DecodeError):
        read(data)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_the_divisor_keeps_the_short_side(width: int, height: int) -> None:
    by = divisor(width, height)
    assert by in (1, 2, 4, 8)
    assert by == 1 or min(width, height) // by >= 128
    assert by == 8 or min(width, height) < 128 * by * 2


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 60), st.sampled_from([1, 2, 3])
)
def test_repeating_each_pixel_changes_no_frequency(
    seed: int, height: int, width: int, times: int
) -> None:
    small = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    large = small.repeat(times, axis=0).repeat(times, axis=1)
    one = Reduced(small, Axis(height, height), Axis(width, width))
    other = Reduced(large, Axis(height * times, height * times), Axis(width * times, width * times))
    np.testing.assert_allclose(coefficients(one), coefficients(other), atol=CLEAR)
    assert spread(one, other) <= 1


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-20, 20))
def test_brightness_moves_the_mean_only(seed: int, shift: int) -> None:
    rgb = np.random.default_rng(seed).integers(30, 220, (40, 50, 1))
    rgb = rgb.repeat(3, axis=2)
    axes = Axis(40, 40.0), Axis(50, 50.0)
    before = coefficients(Reduced(rgb.astype(np.uint8), *axes))
    after = coefficients(Reduced((rgb + shift).astype(np.uint8), *axes))
    assert after[0, 0] - before[0, 0] == pytest.approx(shift, abs=CLEAR)
    after[0, 0] = before[0, 0]
    np.testing.assert_allclose(after, before, atol=CLEAR)


def test_a_wave_has_one_coefficient() -> None:
    wave = 128 + 100 * np.cos(np.pi * 3 * (np.arange(240) + 0.5) / 240)
    rgb = np.broadcast_to(wave[None, :, None], (200, 240, 3)).round().astype(np.uint8)
    found = coefficients(Reduced(np.ascontiguousarray(rgb), Axis(200, 200.0), Axis(240, 240.0)))
    assert found[0, 3] == pytest.approx(100 / np.sqrt(2), abs=0.2)
    found[0, [0, 3]] = 0
    assert np.abs(found).max() < 0.2


def test_an_incomplete_last_pixel_counts_for_its_part() -> None:
    # 100 columns of 8 and one of 4: the last reduced column is half a column.
    wide = np.random.default_rng(3).integers(0, 256, (64, 804), dtype=np.uint8)
    blocks = [wide[:, i : i + 8].mean(axis=1) for i in range(0, 804, 8)]
    small = np.stack(blocks, axis=1).round().astype(np.uint8)[:, :, None].repeat(3, axis=2)
    exact = coefficients(Reduced(cv2.merge([wide, wide, wide]), Axis(64, 64.0), Axis(804, 804.0)))
    reduced = coefficients(Reduced(small, Axis(64, 64.0), Axis(101, 100.5)))
    np.testing.assert_allclose(reduced, exact, atol=0.2)


def test_the_decode_policy_is_part_of_the_identity() -> None:
    assert decode.DECODE_VERSION == DECODE_VERSION
    assert PerceptualHashesSpec().ingredients()["decode_version"] == DECODE_VERSION
    assert PerceptualHashesSpec().flat_std == FLAT_STD
