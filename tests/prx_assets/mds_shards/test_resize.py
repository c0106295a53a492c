from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from prx_assets.image.buckets import assign
from prx_assets.image.decode import DECODE_VERSION, DecodeError
from prx_assets.mds_shards import spec
from prx_assets.mds_shards.resize import encode, resize, to_bucket
from prx_assets.mds_shards.slices import quality_tables

PHOTOS = Path(__file__).parents[3] / "prx_assets" / "demo" / "photos"


def textured(width: int, height: int) -> Image.Image:
    """Noise over a gradient: detail at every scale, so that filters differ where they can."""
    rng = np.random.default_rng(7)
    noise = rng.normal(0, 18, (height, width, 3))
    ramp = np.linspace(40, 200, width)[None, :, None]
    return Image.fromarray(np.clip(ramp + noise, 0, 255).astype(np.uint8))


def saved(image: Image.Image, format: str = "JPEG", **options: object) -> bytes:  # noqa: A002
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def psnr(one: Image.Image, other: Image.Image) -> float:
    difference = np.asarray(one, np.float64) - np.asarray(other, np.float64)
    error = float((difference**2).mean())
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize(
    ("size", "target"),
    [
        ((900, 700), (576, 448)),  # shrinks
        ((800, 615), (576, 448)),  # shrinks a little
        ((400, 400), (512, 512)),  # grows
        ((700, 440), (608, 480)),  # one side each
        ((1200, 900), (576, 448)),  # shrinks more than any image does on its way to its level
        ((512, 512), (512, 512)),
    ],
)
def test_the_result_is_that_of_pillows_lanczos(
    size: tuple[int, int], target: tuple[int, int]
) -> None:
    image = textured(*size)
    ours = resize(image, *target)
    assert ours.size == target
    assert ours.mode == "RGB"
    lanczos = psnr(ours, image.resize(target, Image.Resampling.LANCZOS))
    assert lanczos >= 50
    if size != target:
        assert lanczos > psnr(ours, image.resize(target, Image.Resampling.BICUBIC)) + 3


@pytest.mark.parametrize("name", ["bark", "nuthatch", "forest-stream", "picos-trail"])
def test_a_photo_differs_from_plain_pillows_far_less_than_coding_changes_it(name: str) -> None:
    photo = opened((PHOTOS / f"{name}.jpg").read_bytes())
    bucket = assign(*photo.size)
    assert bucket is not None
    ours = resize(photo, bucket.width, bucket.height)
    peer = photo.resize(ours.size, Image.Resampling.LANCZOS)
    assert psnr(ours, peer) >= 53
    # After coding the number says more about quantisation than about the filter: one grey level
    # in a tenth of the pixels alone brings a detailed photo down to 44 dB.
    coded = opened(encode(peer, 92))
    assert psnr(opened(encode(ours, 92)), coded) >= psnr(peer, coded) + 3


def test_the_same_bytes_come_out_every_time() -> None:
    data = saved(textured(900, 700))
    assert len({to_bucket(data, 576, 448, quality=92) for _ in range(3)}) == 1


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA", "I;16", "1"])
def test_every_mode_becomes_three_channels_of_the_set_quality(mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.full((420, 400), 30_000, np.uint16))
    else:
        image = textured(400, 420).convert(mode)
    data = saved(image, "JPEG" if mode == "CMYK" else "PNG")
    result = opened(to_bucket(data, 512, 512, quality=92))
    assert (result.format, result.mode, result.size) == ("JPEG", "RGB", (512, 512))
    assert getattr(result, "quantization", None) == quality_tables(92)


def test_orientation_is_applied_and_metadata_left_behind() -> None:
    image = Image.new("RGB", (600, 400), "white")
    image.paste("black", (0, 0, 300, 400))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise to view: the left half is on top
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = saved(image, exif=exif, icc_profile=profile, comment=b"mine", dpi=(72, 72))
    result = opened(to_bucket(data, 384, 640, quality=92))
    pixels = np.asarray(result.convert("L"))
    assert pixels[:300].mean() < 10
    assert pixels[-300:].mean() > 245
    assert not {"exif", "icc_profile", "comment"} & set(result.info)


def test_an_image_that_has_its_bucket_size_loses_its_comment_too() -> None:
    data = saved(textured(512, 512), comment=b"mine")
    assert "comment" not in opened(to_bucket(data, 512, 512, quality=92)).info


def test_alpha_lies_on_white() -> None:
    data = saved(Image.new("RGBA", (400, 400), (0, 0, 0, 0)), "PNG")
    assert np.asarray(opened(to_bucket(data, 512, 512, quality=92))).min() >= 254


def test_quality_sets_the_tables_and_colour_is_subsampled() -> None:
    result = opened(encode(textured(64, 64), 80))
    assert getattr(result, "quantization", None) == quality_tables(80)
    assert [layer[1:3] for layer in result.layer] == [(2, 2), (1, 1), (1, 1)]  # type: ignore[attr-defined]


def test_damaged_bytes_are_a_reason() -> None:
    data = saved(textured(900, 700))
    with pytest.raises(DecodeError, match="truncated"):
        to_bucket(data[: len(data) // 2], 576, 448, quality=92)
    with pytest.raises(DecodeError, match="too_many_pixels"):
        to_bucket(data, 576, 448, quality=92, max_pixels=1000)


def test_the_spec_knows_the_decoder_it_was_written_for() -> None:
    assert spec.DECODE_VERSION == DECODE_VERSION
