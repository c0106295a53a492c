"""Writing lists: content-addressed, with a numbered pointer per profile."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prx_assets.skip_lists.bind import Export
from prx_assets.skip_lists.compile import Masks, Policy, reason_names
from prx_resources.contract import Json, canonical_json
from prx_resources.errors import UnknownError
from prx_resources.lake import Lake
from prx_resources.lease import Lease
from prx_resources.object_store import latest_pointer, next_pointer
from prx_resources.skip_list import LIST_FILE, SKIP_FILE, SkipList


@dataclass(frozen=True)
class Published:
    """What a profile's pointer says now.

    Attributes:
        list_hash: Name of the list.
        changed: Whether the pointer moved.
    """

    list_hash: str
    changed: bool


def publish(
    lake: Lake,
    profile: str,
    policy: Policy,
    export: Export,
    made: SkipList,
    masks: Masks,
    held: Lease,
) -> Published:
    """Writes a list with its reasons and points the profile to it; writes nothing if unchanged.

    Raises:
        ConflictError: The lease was lost: another list may be newer.
    """
    prefix = lake.skip_list_prefix(made.hash)
    reasons = _reasons(export, masks)
    # The list is the same when only reasons change, so those have a name of their own.
    reasons_file = f"reasons-{hashlib.sha256(reasons).hexdigest()[:16]}.parquet"
    lake.store.put_if_absent(f"{prefix}/{reasons_file}", reasons)
    for name, data in made.files().items():
        lake.store.put_if_absent(f"{prefix}/{name}", data)
    pointer = {
        "list": made.hash,
        "reasons": reasons_file,
        "allow": sorted(policy.allow),
        "blocking_gates": sorted(policy.blocking_gates),
        "samples": len(masks),
        "kept": int((masks == 0).sum()),
    }
    data = canonical_json(pointer).encode()
    latest = latest_pointer(lake.store, lake.skip_list_pointer(profile))
    if latest is not None and latest[1] == data:
        return Published(made.hash, changed=False)
    held.check()
    next_pointer(lake.store, lake.skip_list_pointer(profile), data)
    return Published(made.hash, changed=True)


def current(lake: Lake, profile: str) -> dict[str, Json]:
    """Returns a profile's pointer: `list`, `reasons`, `allow`, `blocking_gates`, counts.

    Raises:
        UnknownError: No list was compiled for the profile yet.
    """
    latest = latest_pointer(lake.store, lake.skip_list_pointer(profile))
    if latest is None:
        raise UnknownError(
            f"there is no skip-list of profile {profile!r} yet",
            where=lake.root,
            fix="prx materialize skip_lists",
        )
    pointer: dict[str, Json] = json.loads(latest[1])
    return pointer


def read_list(lake: Lake, list_hash: str) -> SkipList:
    """Returns a list of the lake."""
    prefix = lake.skip_list_prefix(list_hash)
    document, skip = (lake.store.get(f"{prefix}/{name}") for name in (LIST_FILE, SKIP_FILE))
    return SkipList.from_files(document, skip, where=prefix)


def read_reasons(lake: Lake, profile: str) -> pa.Table:
    """Returns `leaf, shard, index, image_id, reasons` of every skipped sample of a profile."""
    pointer = current(lake, profile)
    key = f"{lake.skip_list_prefix(pointer['list'])}/{pointer['reasons']}"
    return pq.read_table(io.BytesIO(lake.store.get(key)))


def _reasons(export: Export, masks: Masks) -> bytes:
    skipped = np.flatnonzero(masks)
    samples = export.samples.take(skipped)
    shard = samples["shard"].to_numpy()
    leaves = pa.array([key.leaf for key in export.shards], pa.string())
    names = pa.array([key.basename for key in export.shards], pa.string())
    table = pa.table(
        {
            "leaf": leaves.take(pa.array(shard)),
            "shard": names.take(pa.array(shard)),
            "index": samples["index"],
            "image_id": samples["image_id"],
            "reasons": reason_names(masks[skipped]),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()
