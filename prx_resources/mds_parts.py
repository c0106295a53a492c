"""Writing to the tree of MDS leaves (`mds_tree`): new parts, lists, merged indexes, leftovers.

The order makes a crash harmless: shards, `samples.parquet`, the part's `index.json`, then under the
leaf's lease the numbered list, then the leaf's merged index, which the next run repairs.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from prx_resources.contract import Json, canonical_json
from prx_resources.errors import ConflictError
from prx_resources.lease import Lease
from prx_resources.mds_tree import (
    LIST_KEY,
    SAMPLES_SCHEMA,
    Leaf,
    Part,
    get,
    index_bytes,
    live_shards,
    merged_index,
    open_leaf,
)
from prx_resources.object_store import ObjectStore, next_pointer

PLAN = "plan.txt"
"""Object of a part's folder that says for which content the folder was begun."""

SLICES = "slices"
"""Folder in a part that is being written: what is known of its finished shards."""

FAILED = "failed"
"""Folder beside an export's levels: content-addressed notes on rows that can't be exported."""

_PART = re.compile(r"p(\d{4,})")


@dataclass(frozen=True)
class Failure:
    """A row that could not be exported.

    Attributes:
        image_id: The row.
        content_sha256: Its image bytes.
        reason: `<code>: <sentence>`.
    """

    image_id: str
    content_sha256: str
    reason: str


def claim_part(store: ObjectStore, leaf: Leaf, digest: str) -> str:
    """Returns the folder to write a part into and marks it as this plan's.

    A crashed run's folder is taken up again if it was meant for the very same part. Otherwise the
    number is above that of every part that a list ever named and of every folder that is there.

    Args:
        store: The lake's store.
        leaf: Where the part belongs.
        digest: Identity of the part's content: rows, order, layout, encoder.
    """
    keys = store.list(leaf.prefix)
    listed = _ever_listed(store, keys)
    folders = {_folder(leaf, key) for key in keys}
    for name in sorted(folders - listed):
        plan = f"{leaf.prefix}/{name}/{PLAN}"
        if plan in keys and store.get(plan).decode() == digest:
            return name
    numbers = [int(match.group(1)) for n in folders | listed if (match := _PART.fullmatch(n))]
    number = max(numbers, default=-1) + 1
    while not store.put_if_absent(f"{leaf.prefix}/p{number:04d}/{PLAN}", digest.encode()):
        number += 1
    return f"p{number:04d}"


def finish_part(
    store: ObjectStore, leaf: Leaf, name: str, shards: Sequence[Json], samples: pa.Table
) -> Part:
    """Writes a part's `samples.parquet` and, last, its `index.json`; all its shards lie there.

    Args:
        store: The lake's store.
        leaf: Where the part belongs.
        name: The part.
        shards: Streaming's description of each shard, in order; basenames without the part.
        samples: `SAMPLES_SCHEMA` rows of the whole part, in order.

    Raises:
        ConflictError: Another writer left a different part under this name.
    """
    buffer = io.BytesIO()
    pq.write_table(samples.cast(SAMPLES_SCHEMA), buffer, compression="zstd")
    index = index_bytes(shards)
    folder = f"{leaf.prefix}/{name}"
    put_same(store, f"{folder}/samples.parquet", buffer.getvalue())
    put_same(store, f"{folder}/index.json", index)
    size = sum(shard["raw_data"]["bytes"] for shard in shards)
    return Part(name, hashlib.sha256(index).hexdigest(), samples.num_rows, size)


def put_same(store: ObjectStore, key: str, data: bytes) -> None:
    """Writes an object that may be there already, but only with the same bytes.

    Raises:
        ConflictError: It is there with other bytes.
    """
    if not store.put_if_absent(key, data) and store.get(key) != data:
        raise ConflictError(
            "another writer left a different object here", where=key, fix="run it again"
        )


def commit_parts(store: ObjectStore, leaf: Leaf, parts: Sequence[Part], lease: Lease) -> Leaf:
    """Makes `parts` the leaf's live parts and rewrites the merged index; returns the new leaf.

    Args:
        store: The lake's store.
        leaf: The leaf as it was when the parts were planned.
        parts: The live parts from now on, in order.
        lease: The leaf's lease (`leaf_lease_name`), held.

    Raises:
        ConflictError: Another export changed the list meanwhile.
    """
    now = open_leaf(store, leaf.source, leaf.export_fp, leaf.level, leaf.ar)
    if now.list_number != leaf.list_number:
        raise ConflictError(
            "another export added parts to this leaf", where=leaf.prefix, fix="run it again"
        )
    _check_whole(store, leaf, [part for part in parts if part not in leaf.parts])
    data = canonical_json({"parts": [asdict(part) for part in parts]}).encode()
    lease.check()
    number = next_pointer(store, f"{leaf.prefix}/parts", data, after=leaf.list_number)
    committed = replace(leaf, parts=tuple(parts), list_number=number)
    write_merged_index(store, committed, lease)
    return committed


def _check_whole(store: ObjectStore, leaf: Leaf, parts: Sequence[Part]) -> None:
    """Refuses parts of which another export removed something as a crashed run's rest."""
    files = [f"{part.name}/{name}" for part in parts for name in ("index.json", "samples.parquet")]
    _check_there(store, leaf, files)
    shards = live_shards(store, replace(leaf, parts=tuple(parts)))
    _check_there(store, leaf, [shard.basename for shard in shards])


def _check_there(store: ObjectStore, leaf: Leaf, files: Sequence[str]) -> None:
    for key in (f"{leaf.prefix}/{file}" for file in files):
        if not store.exists(key):
            raise ConflictError(
                "another export removed an object of this part", where=key, fix="run it again"
            )


def leaf_lease_name(leaf: Leaf) -> str:
    """Returns the name of the lease under which the leaf's list and merged index change."""
    return leaf.prefix


def write_merged_index(store: ObjectStore, leaf: Leaf, lease: Lease) -> None:
    """Replaces the leaf's `index.json`, the one object that is ever overwritten."""
    data = merged_index(store, leaf)
    lease.check()
    store.replace(f"{leaf.prefix}/index.json", data)


def has_leftovers(store: ObjectStore, leaf: Leaf) -> bool:
    """Tells whether `remove_leftovers` would remove something."""
    return bool(_leftovers(store, leaf))


def remove_leftovers(store: ObjectStore, leaf: Leaf, lease: Lease) -> None:
    """Removes the parts that no list ever named, and live parts' notes on finished slices.

    Args:
        store: The lake's store.
        leaf: The leaf; its list is read again.
        lease: The leaf's lease, held: nobody lists a part meanwhile.
    """
    for key in _leftovers(store, leaf):
        lease.check()
        store.delete(key)


def _leftovers(store: ObjectStore, leaf: Leaf) -> list[str]:
    keys = store.list(leaf.prefix)
    listed = _ever_listed(store, keys)
    folders = {key: _folder(leaf, key) for key in keys}
    return [
        key
        for key, name in folders.items()
        if _PART.fullmatch(name) and (name not in listed or f"/{name}/{SLICES}/" in key)
    ]


def _ever_listed(store: ObjectStore, keys: Sequence[str]) -> set[str]:
    lists = [json.loads(get(store, key)) for key in keys if LIST_KEY.fullmatch(key)]
    return {part["name"] for parts in lists for part in parts["parts"]}


def _folder(leaf: Leaf, key: str) -> str:
    return key.removeprefix(f"{leaf.prefix}/").partition("/")[0]


def note_failures(store: ObjectStore, export: str, failures: Sequence[Failure]) -> None:
    """Writes down rows that can't be exported, so that no run tries them again unasked.

    Args:
        store: The lake's store.
        export: `Lake.mds_prefix` of the export.
        failures: The rows.
    """
    if failures:
        data = canonical_json(sorted(astuple(failure) for failure in failures)).encode()
        name = hashlib.sha256(data).hexdigest()[:24]
        store.put_if_absent(f"{export}/{FAILED}/{name}.json", data)


def failures(store: ObjectStore, export: str) -> dict[tuple[str, str], str]:
    """Returns (image_id, content_sha256) -> reason of every row that ever failed this export."""
    rows = [row for key in store.list(f"{export}/{FAILED}") for row in json.loads(get(store, key))]
    return {(image_id, content): reason for image_id, content, reason in rows}
