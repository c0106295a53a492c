"""Bucket resize and JPEG q92 on one core, against plain Pillow in the same run.

Run by hand: `python tests/benchmarks/bucket_resize.py`. Rates are images per second of CPU time.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from prx_assets.image.buckets import assign
from prx_assets.mds_shards.resize import resize, to_bucket

PHOTOS = Path(__file__).parents[2] / "prx_assets" / "demo" / "photos"
QUALITY = 92
# (what, source size, target size; None: the source's own bucket)
CASES = [
    ("2 MP, own bucket", (1632, 1224), None),
    ("2 MP wide, own bucket", (2000, 1000), None),
    ("8 MP, own bucket", (3264, 2448), None),
    ("12 MP, own bucket (enlarges)", (4000, 3000), None),
    ("12 MP, two levels down", (4000, 3000), (1152, 896)),
    ("12 MP, three levels down", (4000, 3000), (576, 448)),
]


def plain_pillow(data: bytes, width: int, height: int) -> bytes:
    """The peer: open, convert, resize, save."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    buffer = io.BytesIO()
    image.resize((width, height), Image.Resampling.LANCZOS).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def ours(data: bytes, width: int, height: int) -> bytes:
    """What the stage does."""
    return to_bucket(data, width, height, quality=QUALITY)


def mosaic(width: int, height: int) -> bytes:
    """A JPEG of real photographs' texture at its own scale."""
    tiles = [Image.open(path).convert("RGB") for path in sorted(PHOTOS.glob("*.jpg"))]
    tiles = [tile for tile in tiles if tile.width >= 700 and tile.height >= 500]
    image = Image.new("RGB", (width, height))
    places = [(x, y) for y in range(0, height, 500) for x in range(0, width, 700)]
    for number, place in enumerate(places):
        image.paste(tiles[number % len(tiles)].crop((0, 0, 700, 500)), place)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def pixels(data: bytes) -> NDArray[np.uint8]:
    """A JPEG's pixels."""
    return np.asarray(Image.open(io.BytesIO(data)))


def psnr(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Peak signal-to-noise ratio of two images in dB."""
    error = float(((one.astype(np.float64) - other) ** 2).mean())
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def rates(works: list[Callable[[], bytes]], seconds: float = 4) -> list[float]:
    """Best rate of each, measured in turns so that a busy machine hits all alike."""
    best = [math.inf] * len(works)
    for work in works:
        work()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for number, work in enumerate(works):
            start = time.process_time()
            work()
            best[number] = min(best[number], time.process_time() - start)
    return [1 / value for value in best]


def main() -> None:
    """Prints a line per case."""
    print("images per second of CPU time; PSNR in dB against Pillow's: JPEG, and before coding")
    print(
        f"{'case':32} {'target':>10} {'pillow':>8} {'ours':>8} {'ratio':>6} {'jpeg':>6} {'raw':>6}"
    )
    for what, size, target in CASES:
        bucket = assign(*size)
        assert bucket is not None
        width, height = target or (bucket.width, bucket.height)
        task = (mosaic(*size), width, height)
        peer, own = rates([partial(plain_pillow, *task), partial(ours, *task)])
        coded = psnr(pixels(plain_pillow(*task)), pixels(ours(*task)))
        photo = Image.open(io.BytesIO(task[0])).convert("RGB")
        peers = photo.resize((width, height), Image.Resampling.LANCZOS)
        raw = psnr(np.asarray(peers), np.asarray(resize(photo, width, height)))
        print(
            f"{what:32} {width}x{height:<5} {peer:8.1f} {own:8.1f} {own / peer:6.2f} {coded:6.1f}"
            f" {raw:6.1f}"
        )


if __name__ == "__main__":
    main()
