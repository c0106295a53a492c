"""Streams that present only what their skip-list keeps.

Every shard reader counts and reads its kept samples only, so all that Streaming builds on readers
(sizes, proportions, batching, shuffling, elasticity, resuming) is right without more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from streaming import Stream
from streaming.base.format import Reader
from streaming.base.world import World

from prx_resources.errors import RefusedError
from prx_resources.skip_list import Indexes, Kept, ShardKey, SkipList, load_skip_list

_LEAF_PARTS = 4


class KeptReader(Reader):  # type: ignore[misc]  # Streaming is untyped here
    """A shard reader that presents only its kept samples; files and cache are the inner one's."""

    def __init__(self, reader: Reader, skip: Indexes) -> None:
        self._kept = Kept(reader.samples, skip)
        super().__init__(
            reader.dirname,
            reader.split,
            reader.compression,
            reader.hashes,
            len(self._kept),
            reader.size_limit,
        )
        self._reader = reader
        self.file_pairs = reader.file_pairs

    def __getattr__(self, name: str) -> Any:
        # Columns and the like. Unpickling asks for names before `_reader` is there.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._reader, name)

    def decode_sample(self, data: bytes) -> Any:
        """See `Reader.decode_sample`."""
        return self._reader.decode_sample(data)

    def get_sample_data(self, idx: int) -> Any:
        """See `Reader.get_sample_data`; `idx` counts kept samples."""
        return self._reader.get_sample_data(self._kept[idx])

    def get_item(self, idx: int) -> Any:
        """See `Reader.get_item`; `idx` counts kept samples."""
        return self._reader.get_item(self._kept[idx])


class SkipMixin:
    """Makes any `Stream` subclass honour a skip-list: `class Mine(SkipMixin, TheirStream)`.

    Args:
        skip_list: The list's folder.
        leaf: The leaf's path below `mds/`; by default the last four parts of `remote` or `local`.
        pinned: Leave out shards that the list doesn't name (parts added later) instead of refusing
            them.
        **arguments: For the other class.
    """

    def __init__(
        self,
        *,
        skip_list: str | Path,
        leaf: str | None = None,
        pinned: bool = False,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        place = str(arguments.get("remote") or arguments.get("local") or "")
        self.leaf = leaf or "/".join(place.rstrip("/").split("/")[-_LEAF_PARTS:])
        self.pinned = pinned
        self.skip_list_folder = str(skip_list)
        self._skip_list_hash = self.skip_list.hash

    @property
    def skip_list(self) -> SkipList:
        """The list; not an attribute, so that a spawned worker doesn't get a copy per stream."""
        return load_skip_list(self.skip_list_folder)

    def skip_identity(self) -> list[dict[str, Any]]:
        """Returns what decides the numbering of this stream's samples."""
        return [{"leaf": self.leaf, "pinned": self.pinned, "list": self._skip_list_hash}]

    def get_shards(self, world: World, allow_unsafe_types: bool) -> list[Reader]:
        """Returns the readers of the leaf's shards that keep a sample.

        Raises:
            RefusedError: The list doesn't name a shard (unless pinned), or names one that the leaf
                no longer has or has otherwise, or nothing is kept.
        """
        readers = super().get_shards(world, allow_unsafe_types)  # type: ignore[misc]
        wanted = {
            shard.basename: (shard, skip) for shard, skip in self.skip_list.of_leaf(self.leaf)
        }
        kept = []
        for reader in readers:
            basename = _basename(reader)
            if basename not in wanted:
                self._unknown(basename)
                continue
            shard, skip = wanted.pop(basename)
            _match(reader, shard)
            if len(skip) < shard.samples:
                kept.append(KeptReader(reader, skip))
        if wanted:
            raise RefusedError(
                f"{len(wanted)} shards that the skip-list names are gone, {min(wanted)} first",
                where=f"leaf {self.leaf}, list {self._skip_list_hash}",
                fix="compile skip_lists and training_config again: the leaf was rewritten",
            )
        if not kept:
            raise RefusedError(
                "the skip-list keeps no sample of this leaf",
                where=f"leaf {self.leaf}, list {self._skip_list_hash}",
                fix="leave the stream out, or take the streams of a compiled training_config",
            )
        return kept

    def _unknown(self, basename: str) -> None:
        if not self.pinned:
            raise RefusedError(
                f"the skip-list doesn't know shard {basename}",
                where=f"leaf {self.leaf}, list {self._skip_list_hash}",
                fix="compile skip_lists again, or pass pinned=True to leave such shards out",
            )


def _basename(reader: Reader) -> str:
    return str(reader.file_pairs[0][0].basename)


def _match(reader: Reader, shard: ShardKey) -> None:
    info = reader.file_pairs[0][0]
    same = info.bytes == shard.size and reader.samples == shard.samples
    if not same or any(info.hashes.get(name) != text for name, text in shard.hashes.items()):
        raise RefusedError(
            "a shard isn't the one that the skip-list was made for",
            where=f"leaf {shard.leaf}, shard {shard.basename}",
            fix="compile skip_lists and training_config again: the leaf was rewritten",
        )


class SkipStream(SkipMixin, Stream):  # type: ignore[misc]
    """A Streaming `Stream` over one leaf with its skip-list; `prx_skip` in the registry."""


class PooledStream(Stream):  # type: ignore[misc]
    """Several small leaves of one bucket as one stream, so that they fill a device batch together.

    Args:
        members: One stream per leaf; they own their files.
        **arguments: Weights (`repeat`, `proportion`, `choose`) of the whole.
    """

    def __init__(self, members: Sequence[Any], **arguments: Any) -> None:
        # Streaming wants a place of its own for every stream; the first member's is nobody else's.
        first = members[0]
        super().__init__(remote=first.remote, local=first.local, **arguments)
        self.members = list(members)
        self._shards_per_member: list[int] = []

    def apply_default(self, default: dict[str, Any]) -> None:
        """See `Stream.apply_default`."""
        super().apply_default(default)
        for member in self.members:
            member.apply_default(default)

    def skip_identity(self) -> list[dict[str, Any]]:
        """Returns what decides the numbering of this stream's samples."""
        return [entry for member in self.members for entry in stream_identity(member)]

    def get_shards(self, world: World, allow_unsafe_types: bool) -> list[Reader]:
        """See `SkipMixin.get_shards`."""
        lists = [member.get_shards(world, allow_unsafe_types) for member in self.members]
        self._shards_per_member = [len(shards) for shards in lists]
        self._owners = {
            (shard.dirname, shard.split): member
            for member, shards in zip(self.members, lists, strict=True)
            for shard in shards
        }
        return [shard for shards in lists for shard in shards]

    def prepare_shard(self, shard: Reader) -> int:
        """See `Stream.prepare_shard`."""
        return int(self._owners[shard.dirname, shard.split].prepare_shard(shard))

    def set_up_local(self, shards: list[Reader], cache_usage_per_shard: NDArray[np.int64]) -> None:
        """See `Stream.set_up_local`."""
        begin = 0
        for member, count in zip(self.members, self._shards_per_member, strict=True):
            end = begin + count
            member.set_up_local(shards[begin:end], cache_usage_per_shard[begin:end])
            begin = end

    def get_index_size(self) -> int:
        """See `Stream.get_index_size`."""
        return sum(member.get_index_size() for member in self.members)


def stream_identity(stream: Any) -> list[dict[str, Any]]:
    """Returns what decides the numbering of any stream's samples."""
    if hasattr(stream, "skip_identity"):
        found: list[dict[str, Any]] = stream.skip_identity()
        return found
    return [{"leaf": stream.remote or stream.local, "pinned": False, "list": None}]
