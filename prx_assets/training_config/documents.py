"""The files of a configuration: the lock, plain Streaming's config, a PRX-style trainer's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from prx_assets.training_config.plan import Plan
from prx_resources.contract import Json, canonical_json, fingerprint
from prx_resources.skip_list import SkipList
from prx_resources.training_config import LOCK_FILE, PRX_FILE, STREAMING_FILE, VERSION


@dataclass(frozen=True)
class Compiled:
    """A configuration ready to be written.

    Attributes:
        lock: Its hash and name.
        files: Name -> content.
    """

    lock: str
    files: Mapping[str, bytes]


def compile_documents(
    plan: Plan, made: SkipList, batch_size: int, canonical_nodes: int, skip_list_key: str
) -> Compiled:
    """Makes all files of a configuration.

    Args:
        plan: What is trained on.
        made: The skip-list that the plan was made from.
        batch_size: Samples of one device batch.
        canonical_nodes: Streaming's `num_canonical_nodes`.
        skip_list_key: The list's folder below the lake's root.
    """
    arguments = {
        "batch_size": batch_size,
        "num_canonical_nodes": canonical_nodes,
        "batching_method": "device_per_stream",
    }
    streams = [{**asdict(stream), "leaves": list(stream.leaves)} for stream in plan.streams]
    used = {leaf for stream in plan.streams for leaf in stream.leaves}
    lock_document = {
        "version": VERSION,
        "skip_list": made.hash,
        **arguments,
        "streams": streams,
        "shards": [
            {**shard.to_json(), "kept": shard.samples - len(skip)}
            for shard, skip in made
            if shard.leaf in used
        ],
        "left_out": dict(plan.left_out),
        "empty": list(plan.empty),
    }
    lock = fingerprint(lock_document)
    head = {"version": VERSION, "lock": lock, "skip_list": skip_list_key, **arguments}
    documents = {
        LOCK_FILE: lock_document,
        STREAMING_FILE: {
            **head,
            "streams": [{**stream, "skip_list": skip_list_key} for stream in streams],
        },
        PRX_FILE: {**head, **_directories(plan, made.kept_per_leaf(), skip_list_key)},
    }
    return Compiled(lock, {name: _text(document) for name, document in documents.items()})


def _directories(plan: Plan, kept: Mapping[str, int], skip_list_key: str) -> dict[str, Json]:
    """Streams as a trainer wants them that walks one directory per level and source."""
    directories: dict[str, Json] = {}
    pools = []
    for stream in plan.streams:
        if len(stream.leaves) > 1:
            pools.append(
                {**asdict(stream), "leaves": list(stream.leaves), "skip_list": skip_list_key}
            )
            continue
        parent, _, ratio = stream.leaves[0].rpartition("/")
        directory = directories.setdefault(
            f"mds/{parent}",
            {
                "directory": f"mds/{parent}",
                "skip_list": skip_list_key,
                "source": parent.split("/")[0],
                "level": stream.level,
                "repeat": stream.repeat,
                "buckets": {},
            },
        )
        directory["buckets"][ratio] = kept[stream.leaves[0]]
    return {"directories": [directories[name] for name in sorted(directories)], "pools": pools}


def _text(document: Json) -> bytes:
    return canonical_json(document).encode()
