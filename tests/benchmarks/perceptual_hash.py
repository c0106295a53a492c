"""Images a second of our hash and of the imagehash package's, from JPEG bytes, on one core.

`python tests/benchmarks/perceptual_hash.py`. The bar: at least 4 times the peer's rate on JPEGs of
2 MP, and as many matches between copies as a full decode finds.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import imagehash
from PIL import Image

import prx_assets.demo
from prx_assets.perceptual_hashes.hasher import Hasher
from prx_assets.perceptual_hashes.reduced import full, read
from prx_assets.perceptual_hashes.spec import PerceptualHashesSpec

PIXELS = 2_000_000
ROUNDS = 7


def main() -> None:
    """Prints the rates and the matches."""
    cv2.setNumThreads(1)
    photos = Path(prx_assets.demo.__file__).parent / "photos"
    images = [Image.open(path).convert("RGB") for path in sorted(photos.glob("*.jpg"))]
    images = [image for image in images if image.width * image.height >= PIXELS / 2]
    images = [_scaled(image, (PIXELS / (image.width * image.height)) ** 0.5) for image in images]
    for quality in (80, 85, 90):
        _rates(quality, [_jpeg(image, quality) for image in images])
    _matches(images)


def _rates(quality: int, jpegs: list[bytes]) -> None:
    hasher = Hasher(PerceptualHashesSpec())
    ways: dict[str, Callable[[bytes], object]] = {
        "ours": hasher.hash,
        "imagehash": lambda data: imagehash.phash(Image.open(io.BytesIO(data))),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):  # in turns, so that a busy machine is unfair to neither
        for name, way in ways.items():
            started = time.process_time()
            for data in jpegs:
                way(data)
            best[name] = min(best[name], (time.process_time() - started) / len(jpegs))
    size = sum(map(len, jpegs)) / len(jpegs) / 1000
    print(
        f"quality {quality}, {len(jpegs)} JPEGs of 2 MP, {size:.0f} kB each: "
        f"ours {1 / best['ours']:.0f} images/s (hash, signature, flatness), "
        f"imagehash {1 / best['imagehash']:.0f} images/s, "
        f"{best['imagehash'] / best['ours']:.2f} times"
    )


def _matches(images: list[Image.Image]) -> None:
    from prx_assets.perceptual_hashes.dct import phash

    for scale in (1, 0.5, 0.25):
        found = {read: 0, full: 0}
        total = 0
        for image in images:
            original = _jpeg(image, 92)
            smaller = _scaled(image, scale)
            for quality in (90, 85, 75):
                copy = _jpeg(smaller, quality)
                total += 1
                for way in found:
                    found[way] += phash(way(original)) == phash(way(copy))
        print(f"copies at {scale}: {found[read]} of {total} match, full decode {found[full]}")


def _scaled(image: Image.Image, by: float) -> Image.Image:
    size = round(image.width * by), round(image.height * by)
    return image.resize(size, Image.Resampling.LANCZOS)


def _jpeg(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
