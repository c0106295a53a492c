"""Reading a profile's current skip-list and checking it against the live shards."""

from __future__ import annotations

import json

from prx_resources import mds_tree
from prx_resources.errors import RefusedError, UnknownError
from prx_resources.lake import Lake
from prx_resources.mds_format import HASH
from prx_resources.object_store import latest_pointer
from prx_resources.skip_list import LIST_FILE, SKIP_FILE, SkipList


def current_list(lake: Lake, profile: str) -> SkipList:
    """Returns the list that a profile's pointer names.

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
    prefix = lake.skip_list_prefix(json.loads(latest[1])["list"])
    document, skip = (lake.store.get(f"{prefix}/{name}") for name in (LIST_FILE, SKIP_FILE))
    return SkipList.from_files(document, skip, where=prefix)


def check_live(lake: Lake, skip_list: SkipList) -> None:
    """Checks that every shard of a list is still live and unchanged; more shards are fine.

    Raises:
        RefusedError: A shard was removed or rewritten since the list was compiled.
    """
    for leaf_name in skip_list.kept_per_leaf():
        source, export_fp, level, ar = leaf_name.split("/")
        leaf = mds_tree.open_leaf(lake.store, source, export_fp, int(level), ar)
        live = {
            shard.basename: (shard.bytes, {HASH: shard.sha256}, shard.samples)
            for shard in mds_tree.live_shards(lake.store, leaf)
        }
        for shard, _ in skip_list.of_leaf(leaf_name):
            if live.get(shard.basename) != (shard.size, dict(shard.hashes), shard.samples):
                raise RefusedError(
                    "the skip-list names a shard that was removed or rewritten since",
                    where=f"leaf {leaf_name}, shard {shard.basename}, list {skip_list.hash}",
                    fix="prx materialize skip_lists training_config",
                )
