"""Samples/s through the loader with a 10 % skip-list, against the plain loader on the same leaf.

python tests/benchmarks/loader.py [--samples 20000] [--rounds 5] [--workers 0]

Bar: at least 0.95 of the plain loader's rate. `bytes` reads small samples that need no decoding,
where a loader's own cost shows most; `jpeg` decodes 512x512 images as a trainer does.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from streaming import MDSWriter, Stream, StreamingDataLoader, StreamingDataset

from prx_resources.skip_dataset import SkipDataset, SkipStream
from prx_resources.skip_list import ShardKey, SkipList

LEAF = "bench/fp/512/1.000"
BATCH = 32
BAR = 0.95


def write(root: Path, kind: str, samples: int) -> tuple[Path, Path]:
    """Writes a leaf and a list that skips every tenth sample or so; returns both places."""
    rng = np.random.default_rng(1)
    if kind == "jpeg":
        pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).resize((512, 512)).save(buffer, "JPEG", quality=92)
        payload = buffer.getvalue()
    else:
        payload = rng.bytes(4096)
    leaf = root / "mds" / LEAF
    columns = {"image": kind, "caption": "str", "id": "str"}
    with MDSWriter(
        out=str(leaf / "p0000"), columns=columns, hashes=["sha256"], size_limit=1 << 24
    ) as writer:
        for number in range(samples):
            writer.write({"image": payload, "caption": "A street. " * 60, "id": f"bench/{number}"})
    infos = json.loads((leaf / "p0000" / "index.json").read_text())["shards"]
    pairs = []
    for info in infos:
        raw, count = info["raw_data"], info["samples"]
        raw["basename"] = f"p0000/{raw['basename']}"
        key = ShardKey(LEAF, raw["basename"], raw["bytes"], raw["hashes"], count)
        pairs.append((key, np.flatnonzero(rng.random(count) < 0.1)))
    (leaf / "index.json").write_text(json.dumps({"version": 2, "shards": infos}))
    made = SkipList.build(pairs)
    folder = root / "skip_lists" / made.hash
    folder.mkdir(parents=True)
    for name, data in made.files().items():
        (folder / name).write_bytes(data)
    return leaf, folder


def collate(batch: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: [sample[name] for sample in batch] for name in batch[0]}


def rate(dataset: StreamingDataset, workers: int) -> float:
    loader = StreamingDataLoader(dataset, batch_size=BATCH, num_workers=workers, collate_fn=collate)
    started = time.perf_counter()
    seen = sum(len(batch["id"]) for batch in loader)
    return seen / (time.perf_counter() - started)


def measure(kind: str, samples: int, rounds: int, workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        leaf, skip_list = write(Path(folder), kind, samples)
        shared = {"batch_size": BATCH, "shuffle": True}
        makers: list[tuple[str, Callable[[], StreamingDataset]]] = [
            ("plain", lambda: StreamingDataset(streams=[Stream(local=str(leaf))], **shared)),
            (
                "skip",
                lambda: SkipDataset(
                    streams=[SkipStream(local=str(leaf), skip_list=skip_list)], **shared
                ),
            ),
        ]
        rates: dict[str, list[float]] = {"plain": [], "skip": []}
        # Taking turns, so that both see the same machine; the first round only warms it up.
        for number in range(rounds + 1):
            for name, make in makers if number % 2 else reversed(makers):
                rates[name].append(rate(make(), workers))
    best = {name: max(values[1:]) for name, values in rates.items()}
    ratio = best["skip"] / best["plain"]
    print(
        f"{kind:5}  plain {best['plain']:9,.0f} samples/s  with skip-list {best['skip']:9,.0f}"
        f" samples/s  ratio {ratio:.3f}  bar {BAR}  {'ok' if ratio >= BAR else 'MISSED'}"
    )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    for kind, samples in (("bytes", options.samples), ("jpeg", options.samples // 20)):
        measure(kind, samples, options.rounds, options.workers)


if __name__ == "__main__":
    main()
