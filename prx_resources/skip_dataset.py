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

from streaming import StreamingDataset

from prx_resources.contract import fingerprint
from prx_resources.errors import RefusedError, UsageError
from prx_resources.skip_list import describe_change, load_skip_list
from prx_resources.skip_streams import PooledStream, SkipMixin, SkipStream, stream_identity
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
        entries = [stream_identity(stream) for stream in streams]
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
