"""Loading MDS leaves through their skip-list: the part of this project that a trainer imports.

    config = load_training_config("lake/training_configs/current/default")
    dataset = SkipDataset(streams=streams(config), shuffle=True, **config.dataset_arguments)
    loader = StreamingDataLoader(dataset, batch_size=config.batch_size, num_workers=8)

Every shard reader presents only its kept samples, so sizes, proportions, batching, shuffling,
elasticity and resuming are Streaming's own. Needs mosaicml-streaming and numpy, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from streaming import Stream, StreamingDataset
from streaming.base.format import Reader
from streaming.base.world import World

from prx_resources.contract import fingerprint
from prx_resources.errors import RefusedError, UsageError
from prx_resources.skip_list import (
    Indexes,
    Kept,
    ShardKey,
    SkipList,
    describe_change,
    load_skip_list,
)
from prx_resources.training_config import StreamConfig, TrainingConfig, load_training_config

__all__ = [
    "PooledStream",
    "SkipDataset",
    "SkipDatasetMixin",
    "SkipMixin",
    "SkipStream",
    "load_training_config",
    "streams",
]

_LISTS = "prx_skip_lists"
_STREAMS = "prx_streams"
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
        return [entry for member in self.members for entry in _identity(member)]

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


def _identity(stream: Any) -> list[dict[str, Any]]:
    if hasattr(stream, "skip_identity"):
        found: list[dict[str, Any]] = stream.skip_identity()
        return found
    return [{"leaf": stream.remote or stream.local, "pinned": False, "list": None}]


class SkipDatasetMixin:
    """Makes any `StreamingDataset` subclass remember its skip-lists over a resume.

    Args:
        accept_changed_list: Resume also when the samples are others than those of the checkpoint.
            Their numbers then mean other samples: some of the epoch come twice, some not at all.
        **arguments: For the other class.
    """

    def __init__(self, *, accept_changed_list: bool = False, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.accept_changed_list = accept_changed_list

    def _skip_state(self) -> dict[str, Any]:
        streams: Sequence[Any] = self.streams  # type: ignore[attr-defined]
        entries = [_identity(stream) for stream in streams]
        lists = sorted({entry["list"] for group in entries for entry in group if entry["list"]})
        return {_LISTS: lists, _STREAMS: fingerprint(entries)}

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Returns Streaming's state with the hash of the skip-list in it."""
        state = super().state_dict(num_samples, from_beginning)  # type: ignore[misc]
        return {**state, **self._skip_state()}

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Takes a checkpoint's state.

        Raises:
            RefusedError: It was made with another list or other streams, and that isn't accepted.
        """
        mine = self._skip_state()
        theirs = {key: obj.get(key) for key in mine}
        if theirs != mine and not self.accept_changed_list:
            raise RefusedError(
                f"the checkpoint was made with other samples: {self._changed(theirs, mine)}",
                where=f"checkpoint's list {theirs[_LISTS]}, this run's {mine[_LISTS]}",
                fix="resume with the config that the run began with, or start a new epoch, or pass"
                " accept_changed_list=True and accept that samples come twice or not at all",
            )
        super().load_state_dict(obj)  # type: ignore[misc]

    def _changed(self, theirs: dict[str, Any], mine: dict[str, Any]) -> str:
        if not theirs[_LISTS]:
            return "it had no skip-list"
        if theirs[_LISTS] == mine[_LISTS]:
            return "the list is the same, the streams or their order are not"
        folders = [
            Path(member.skip_list_folder)
            for stream in self.streams  # type: ignore[attr-defined]
            for member in getattr(stream, "members", [stream])
            if isinstance(member, SkipMixin)
        ]
        try:
            old = load_skip_list(folders[0].parent / theirs[_LISTS][0])
            return describe_change(old, load_skip_list(folders[0]))
        except (RefusedError, IndexError):
            return "another list, which isn't beside this run's, so the difference is unknown"


class SkipDataset(SkipDatasetMixin, StreamingDataset):  # type: ignore[misc]
    """A `StreamingDataset` whose checkpoints name the skip-list, and refuse another one."""


def streams(
    config: TrainingConfig,
    *,
    remote: str | None = None,
    local: str | Path | None = None,
    stream_class: type[Any] = SkipStream,
    **arguments: Any,
) -> list[Any]:
    """Builds the streams of a compiled configuration, one per bucket and source or pool.

    Args:
        config: What `load_training_config` returned.
        remote: Root of a remote copy of the lake; None reads the shards where `local` is.
        local: Root of the lake's copy or cache on this machine; by default the lake the
            configuration lies in, or, with `remote`, required.
        stream_class: `SkipStream` or another mix of `SkipMixin` and a `Stream` subclass.
        **arguments: Further arguments of every stream (`download_retry`, `validate_hash`, ...).

    Raises:
        UsageError: A remote without a local folder to cache it in.
    """
    if remote is not None and local is None:
        raise UsageError("a remote lake wants a local folder to cache it in", fix="pass local=...")
    root = Path(local) if local is not None else config.lake

    def member(leaf: str, **weights: Any) -> Any:
        return stream_class(
            remote=None if remote is None else f"{remote.rstrip('/')}/mds/{leaf}",
            local=str(root / "mds" / leaf),
            skip_list=config.skip_list,
            leaf=leaf,
            pinned=True,
            **weights,
            **arguments,
        )

    def build(stream: StreamConfig) -> Any:
        if len(stream.leaves) == 1:
            return member(stream.leaves[0], repeat=stream.repeat)
        return PooledStream([member(leaf) for leaf in stream.leaves], repeat=stream.repeat)

    return [build(stream) for stream in config.streams]
