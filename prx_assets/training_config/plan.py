"""From kept samples per leaf to streams that all fill their batches. Pure.

Streaming's `device_per_stream` batching raises on a stream that can't fill one device batch on
every node, or whose share of the shuffle block is less than one sample. So small leaves of one
bucket are pooled over their sources, and what even that doesn't fill is left out and reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prx_resources.training_config import StreamConfig


@dataclass(frozen=True)
class Leaf:
    """A leaf with what its skip-list keeps.

    Attributes:
        name: `<source>/<export_fp>/<level>/<ar>`.
        kept: Samples kept.
        weight: How often each is drawn in an epoch.
    """

    name: str
    kept: int
    weight: float = 1.0

    @property
    def source(self) -> str:
        """The source's name."""
        return self.name.split("/")[0]

    @property
    def bucket(self) -> tuple[int, str]:
        """Level and aspect-ratio folder."""
        *_, level, ratio = self.name.split("/")
        return int(level), ratio

    @property
    def drawn(self) -> float:
        """Samples drawn in an epoch."""
        return self.kept * self.weight


@dataclass(frozen=True)
class Plan:
    """What is trained on.

    Attributes:
        streams: In the order of level, ratio, first leaf.
        empty: Leaves of which nothing is kept.
        left_out: Leaves with samples that fill no batch, with their kept samples.
    """

    streams: tuple[StreamConfig, ...]
    empty: tuple[str, ...]
    left_out: Mapping[str, int]


def plan(leaves: Iterable[Leaf], batch_size: int, canonical_nodes: int) -> Plan:
    """Groups leaves into streams that Streaming takes."""
    leaves = sorted(leaves, key=lambda leaf: leaf.name)
    least = _least_samples(batch_size, canonical_nodes, sum(leaf.drawn for leaf in leaves))
    buckets: dict[tuple[int, str], list[Leaf]] = defaultdict(list)
    empty, left_out = [], {}
    for leaf in leaves:
        if leaf.kept:
            buckets[leaf.bucket].append(leaf)
        else:
            empty.append(leaf.name)
    streams = []
    for bucket in sorted(buckets):
        for group in _groups(buckets[bucket], least):
            stream = _stream(group)
            # Streaming draws int(repeat * samples).
            if int(stream.repeat * stream.samples) >= least:
                streams.append(stream)
            else:
                left_out.update({leaf.name: leaf.kept for leaf in group})
    return Plan(tuple(streams), tuple(empty), left_out)


def _least_samples(batch_size: int, canonical_nodes: int, total: float) -> int:
    """Samples below which Streaming refuses a stream of a data set that draws `total`."""
    # A shuffled stream gets its share of the shuffle block, which must not round to nothing.
    shuffle_block = max(4_000_000 // canonical_nodes, 1 << 18)
    return max(batch_size * canonical_nodes, int(total / shuffle_block) + 1)


def _groups(leaves: list[Leaf], least: int) -> list[list[Leaf]]:
    """Splits a bucket's leaves: large ones alone, small ones pooled."""
    ascending = sorted(leaves, key=lambda leaf: (leaf.drawn, leaf.name))
    small = [leaf for leaf in ascending if int(leaf.drawn) < least]
    large = ascending[len(small) :]
    if small and large and int(sum(leaf.drawn for leaf in small)) < least:
        # Together still too few: they join the smallest large one instead of being lost.
        small.append(large.pop(0))
    groups = [sorted(small, key=lambda leaf: leaf.name), *([leaf] for leaf in large)]
    return sorted((group for group in groups if group), key=lambda group: group[0].name)


def _stream(group: list[Leaf]) -> StreamConfig:
    level, ratio = group[0].bucket
    samples = sum(leaf.kept for leaf in group)
    repeat = sum(leaf.drawn for leaf in group) / samples
    return StreamConfig(
        leaves=tuple(leaf.name for leaf in group),
        level=level,
        ratio=ratio,
        samples=samples,
        repeat=repeat,
    )
