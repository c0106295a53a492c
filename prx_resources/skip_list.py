"""Skip-lists: which samples of which shards a loader must not present.

A list is a folder named after its content: `list.json` names every shard it was made for, in order,
and `skip.npy` holds the skipped sample indexes of all of them, one shard after the other, sorted.
Only the standard library and numpy: a trainer imports this.
"""

from __future__ import annotations

import hashlib
import io
import json
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prx_resources.contract import canonical_json
from prx_resources.errors import RefusedError, TableError

LIST_FILE = "list.json"
SKIP_FILE = "skip.npy"
VERSION = 1

Indexes = NDArray[np.uint32]


@dataclass(frozen=True)
class ShardKey:
    """What a list says about one shard, so that it can't be applied to another.

    Attributes:
        leaf: `<source>/<export_fp>/<level>/<ar>`, the leaf's path below `mds/`.
        basename: File name as the leaf's merged index spells it: `<part>/<file>`.
        size: Bytes of the file.
        hashes: Hash name -> hex digest, as the index has them.
        samples: Number of samples in the file.
    """

    leaf: str
    basename: str
    size: int
    hashes: Mapping[str, str]
    samples: int

    @property
    def place(self) -> tuple[str, str]:
        """Where the shard lies: leaf and basename."""
        return self.leaf, self.basename

    @property
    def part(self) -> str:
        """Name of the immutable part that the shard belongs to."""
        return self.basename.rpartition("/")[0]

    def to_json(self) -> dict[str, Any]:
        """Returns the shard as plain JSON."""
        return {
            "leaf": self.leaf,
            "part": self.part,
            "basename": self.basename,
            "size": self.size,
            "hashes": dict(self.hashes),
            "samples": self.samples,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ShardKey:
        """Rebuilds a shard from `to_json`'s dict; other keys are ignored."""
        names = ("leaf", "basename", "size", "hashes", "samples")
        return cls(**{name: data[name] for name in names})


class Kept:
    """Maps the positions of kept samples to their indexes in the shard.

    With sorted skipped indexes s_0 < s_1 < ..., `gaps` = s_j - j counts the kept samples before
    each skipped one, so kept position k has as many skipped samples before it as gaps are <= k.

    Args:
        samples: Samples in the shard.
        skip: Sorted, distinct skipped indexes below `samples`.
    """

    def __init__(self, samples: int, skip: Indexes) -> None:
        gaps = skip - np.arange(len(skip), dtype=np.uint32)
        # One position at a time is looked up: `bisect` on an array is faster there than numpy.
        self.gaps = array("I", gaps.tobytes())
        self.size = samples - len(skip)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, position: int) -> int:
        return position + bisect_right(self.gaps, position)


@dataclass(frozen=True)
class SkipList:
    """Shards in order with the samples to skip in each.

    Attributes:
        shards: Every shard the list knows, also those without a skipped sample.
        bounds: int64 [len(shards) + 1]; shard i's indexes are `indexes[bounds[i]:bounds[i + 1]]`.
        indexes: uint32, sorted and distinct within each shard.
    """

    shards: tuple[ShardKey, ...]
    bounds: NDArray[np.int64]
    indexes: Indexes = field(repr=False)

    @classmethod
    def build(cls, shards: Iterable[tuple[ShardKey, Sequence[int] | NDArray[Any]]]) -> SkipList:
        """Makes a list from shards and their skipped indexes, in the canonical order.

        Raises:
            TableError: Indexes aren't sorted, distinct and within their shard, or a shard is
                named twice.
        """
        pairs = sorted(
            ((key, np.asarray(skip, dtype=np.uint32)) for key, skip in shards),
            key=lambda pair: pair[0].place,
        )
        bounds = np.zeros(len(pairs) + 1, np.int64)
        np.cumsum([len(skip) for _, skip in pairs], out=bounds[1:])
        indexes = np.concatenate([np.zeros(0, np.uint32), *(skip for _, skip in pairs)])
        made = cls(tuple(key for key, _ in pairs), bounds, indexes)
        made._check()
        return made

    def _check(self) -> None:
        if len(self._numbers) != len(self.shards):
            raise TableError("a skip-list names a shard twice", fix="compile skip_lists again")
        samples = np.array([shard.samples for shard in self.shards], np.int64)
        counts = np.diff(self.bounds)
        consistent = len(counts) == len(samples) and self.bounds[-1] == len(self.indexes)
        if not consistent or (counts < 0).any() or (counts > samples).any():
            raise TableError("a skip-list's indexes don't fit its shards", fix="compile it again")
        owner = np.repeat(np.arange(len(samples)), counts)
        rising = np.diff(self.indexes.astype(np.int64)) > 0
        if (self.indexes >= samples[owner]).any() or not (rising | (np.diff(owner) > 0)).all():
            raise TableError(
                "a skip-list's indexes aren't sorted, distinct and within their shard",
                fix="compile skip_lists again",
            )

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], int]:
        return {shard.place: number for number, shard in enumerate(self.shards)}

    @cached_property
    def _leaves(self) -> dict[str, list[int]]:
        leaves: dict[str, list[int]] = {}
        for number, shard in enumerate(self.shards):
            leaves.setdefault(shard.leaf, []).append(number)
        return leaves

    def _document(self) -> bytes:
        entries = [
            {**shard.to_json(), "skipped": int(count)}
            for shard, count in zip(self.shards, np.diff(self.bounds), strict=True)
        ]
        return canonical_json({"version": VERSION, "shards": entries}).encode()

    @cached_property
    def hash(self) -> str:
        """32 hex digits over shards and indexes: the list's name and data version."""
        digest = hashlib.sha256(self._document())
        digest.update(np.ascontiguousarray(self.indexes, dtype="<u4").tobytes())
        return digest.hexdigest()[:32]

    def __iter__(self) -> Iterator[tuple[ShardKey, Indexes]]:
        for number, shard in enumerate(self.shards):
            yield shard, self._skip(number)

    def _skip(self, number: int) -> Indexes:
        return self.indexes[self.bounds[number] : self.bounds[number + 1]]

    def find(self, leaf: str, basename: str) -> tuple[ShardKey, Indexes] | None:
        """Returns a shard and its skipped indexes, or None if the list doesn't name it."""
        number = self._numbers.get((leaf, basename))
        return None if number is None else (self.shards[number], self._skip(number))

    def of_leaf(self, leaf: str) -> list[tuple[ShardKey, Indexes]]:
        """Returns a leaf's shards with their skipped indexes."""
        return [(self.shards[number], self._skip(number)) for number in self._leaves.get(leaf, ())]

    def kept_per_leaf(self) -> dict[str, int]:
        """Returns the number of samples that each leaf still presents."""
        kept: dict[str, int] = {}
        for shard, count in zip(self.shards, np.diff(self.bounds), strict=True):
            kept[shard.leaf] = kept.get(shard.leaf, 0) + shard.samples - int(count)
        return kept

    def files(self) -> dict[str, bytes]:
        """Returns the list's files by name; `skip.npy` first, since `list.json` makes it whole."""
        buffer = io.BytesIO()
        np.save(buffer, self.indexes.astype("<u4"), allow_pickle=False)
        return {SKIP_FILE: buffer.getvalue(), LIST_FILE: self._document()}

    @classmethod
    def from_files(cls, document: bytes, skip: bytes, *, where: str = "") -> SkipList:
        """Rebuilds a list from its two files.

        Raises:
            TableError: They are damaged or of another version.
        """
        try:
            data = json.loads(document)
            entries = data["shards"]
            indexes = np.load(io.BytesIO(skip), allow_pickle=False).astype(np.uint32)
            shards = tuple(ShardKey.from_json(entry) for entry in entries)
            bounds = np.zeros(len(entries) + 1, np.int64)
            np.cumsum([entry["skipped"] for entry in entries], out=bounds[1:])
        except (ValueError, KeyError, TypeError, EOFError) as error:
            raise TableError(
                f"a skip-list can't be read: {error}", where=where, fix="compile skip_lists again"
            ) from error
        if data.get("version") != VERSION:
            raise TableError(
                f"a skip-list of version {data.get('version')!r}",
                where=where,
                fix="update prx-data",
            )
        made = cls(shards, bounds, indexes)
        made._check()
        return made


@lru_cache(maxsize=4)
def _load(path: str) -> SkipList:
    folder = Path(path)
    try:
        document = (folder / LIST_FILE).read_bytes()
        skip = (folder / SKIP_FILE).read_bytes()
    except OSError as error:
        raise RefusedError(
            f"there is no skip-list here: {error.strerror}",
            where=path,
            fix="copy the list's folder along with the shards, or compile skip_lists",
        ) from error
    made = SkipList.from_files(document, skip, where=path)
    if made.hash != folder.name:
        raise TableError(
            f"a skip-list's content ({made.hash}) isn't what its folder's name says",
            where=path,
            fix="copy the folder again",
        )
    return made


def load_skip_list(path: str | Path) -> SkipList:
    """Reads a list's folder and checks that the content is what the folder's name says.

    One copy per process, however many streams use it.

    Raises:
        RefusedError: There is no list.
        TableError: It is damaged.
    """
    return _load(str(Path(path).resolve()))


def describe_change(old: SkipList, new: SkipList) -> str:
    """Says in one sentence what differs between two lists, for a person who resumes a run."""
    before = {shard.place: (shard, skip) for shard, skip in old}
    after = {shard.place: (shard, skip) for shard, skip in new}
    hidden = shown = 0
    for place in before.keys() & after.keys():
        _, was = before[place]
        _, now = after[place]
        hidden += len(np.setdiff1d(now, was, assume_unique=True))
        shown += len(np.setdiff1d(was, now, assume_unique=True))
    parts = [
        _count(hidden, "sample", "newly skipped"),
        _count(shown, "sample", "no longer skipped"),
        _count(len(after.keys() - before.keys()), "shard", "added"),
        _count(len(before.keys() - after.keys()), "shard", "gone"),
    ]
    return ", ".join(part for part in parts if part) or "the same samples"


def _count(number: int, noun: str, what: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''} {what}" if number else ""
