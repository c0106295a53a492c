"""Leaves written by Streaming's own writer, and the same leaves without the skipped samples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streaming import MDSWriter

from prx_resources.skip_list import ShardKey, SkipList

COLUMNS = {"id": "str", "n": "int"}
Rows = Sequence[Mapping[str, Any]]


def write_leaf(folder: Path, shards: Sequence[Rows]) -> None:
    """Writes a leaf of one part, one shard file per given list of rows."""
    infos = []
    for number, rows in enumerate(shards):
        place = folder / f"p{number:04d}"
        with MDSWriter(out=str(place), columns=COLUMNS, hashes=["sha256"]) as writer:
            for row in rows:
                writer.write(dict(row))
        (info,) = json.loads((place / "index.json").read_text())["shards"]
        info["raw_data"]["basename"] = f"{place.name}/{info['raw_data']['basename']}"
        infos.append(info)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": infos}))


def shard_keys(folder: Path, leaf: str) -> list[ShardKey]:
    infos = json.loads((folder / "index.json").read_text())["shards"]
    raws = [info["raw_data"] for info in infos]
    return [
        ShardKey(leaf, raw["basename"], raw["bytes"], raw["hashes"], info["samples"])
        for raw, info in zip(raws, infos, strict=True)
    ]


class Tree:
    """Leaves with a skip-list, and plain leaves with only the kept samples."""

    def __init__(self, root: Path, sizes: Mapping[str, Sequence[int]], share: float) -> None:
        self.root = root
        self.leaves = list(sizes)
        total = sum(map(sum, sizes.values()))
        flags = np.zeros(total, np.bool_)
        flags[np.random.default_rng(7).choice(total, round(share * total), replace=False)] = True
        pairs = []
        self.kept: dict[str, list[str]] = {}
        for leaf, counts in sizes.items():
            shards = [
                [{"id": f"{leaf}#{shard}.{n}", "n": n} for n in range(count)]
                for shard, count in enumerate(counts)
            ]
            write_leaf(self.place(leaf), shards)
            *own, flags = np.split(flags, np.cumsum(counts))
            skips = [np.flatnonzero(part) for part in own]
            pairs += list(zip(shard_keys(self.place(leaf), leaf), skips, strict=True))
            left = [
                [row for n, row in enumerate(rows) if n not in set(skip.tolist())]
                for rows, skip in zip(shards, skips, strict=True)
            ]
            write_leaf(self.plain(leaf), [rows for rows in left if rows])
            self.kept[leaf] = [row["id"] for rows in left for row in rows]
        self.list = SkipList.build(pairs)
        self.skip_list = self.store(self.list)

    def place(self, leaf: str) -> Path:
        return self.root / "mds" / leaf

    def plain(self, leaf: str) -> Path:
        return self.root / "plain" / leaf

    def store(self, made: SkipList) -> Path:
        folder = self.root / "skip_lists" / made.hash
        folder.mkdir(parents=True)
        for name, data in made.files().items():
            (folder / name).write_bytes(data)
        return folder


@pytest.fixture
def make_tree(tmp_path: Path) -> Iterator[Callable[..., Tree]]:
    def make(sizes: Mapping[str, Sequence[int]], share: float = 0.3) -> Tree:
        return Tree(tmp_path / "lake", sizes, share)

    return make


@pytest.fixture
def tree(make_tree: Callable[..., Tree]) -> Tree:
    """Keeps 160 samples: nothing is repeated to fill the nodes and batches of the tests."""
    return make_tree({"a/fp/512/1.000": [40, 7, 64], "b/fp/512/0.500": [80, 33]}, 64 / 224)
