from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prx_resources import mds_parts, mds_tree
from prx_resources.errors import ConflictError, TableError
from prx_resources.lease import Lease, lease
from prx_resources.mds_parts import Failure
from prx_resources.mds_tree import SAMPLES_SCHEMA, Leaf, Part
from prx_resources.object_store import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


@contextmanager
def held(store: LocalStore, leaf: Leaf) -> Iterator[Lease]:
    with lease(store, mds_parts.leaf_lease_name(leaf), "test", wait_s=0) as got:
        yield got


def leaf_of(store: LocalStore, source: str = "cats", level: int = 512, ar: str = "1.000") -> Leaf:
    return mds_tree.open_leaf(store, source, "f00d", level, ar)


def write_part(store: LocalStore, leaf: Leaf, name: str, samples: int = 2) -> Part:
    data = f"{leaf.prefix} {name}".encode()
    store.put_if_absent(f"{leaf.prefix}/{name}/shard.00000.mds", data)
    hashes = {"sha256": hashlib.sha256(data).hexdigest()}
    raw = {"basename": "shard.00000.mds", "bytes": len(data), "hashes": hashes}
    shard: dict[str, Any] = {"samples": samples, "raw_data": raw, "zip_data": None}
    rows = [
        {
            "part": name,
            "shard": f"{name}/shard.00000.mds",
            "index": index,
            "image_id": f"{leaf.source}/{name}-{index}",
            "content_sha256": "c",
            "caption_digest": "d",
        }
        for index in range(samples)
    ]
    table = pa.Table.from_pylist(rows, schema=SAMPLES_SCHEMA)
    return mds_parts.finish_part(store, leaf, name, [shard], table)


def add(store: LocalStore, leaf: Leaf, name: str) -> Leaf:
    part = write_part(store, leaf, name)
    with held(store, leaf) as got:
        return mds_parts.commit_parts(store, leaf, (*leaf.parts, part), got)


def test_a_leaf_without_a_list_has_nothing(store: LocalStore) -> None:
    leaf = leaf_of(store)
    write_part(store, leaf, "p0000")
    assert leaf_of(store).parts == ()
    assert list(mds_tree.live_leaves(store)) == []
    assert mds_tree.live_samples(store, leaf).num_rows == 0
    assert mds_tree.live_shards(store, leaf) == ()


def test_parts_are_live_in_the_order_of_the_list(store: LocalStore) -> None:
    leaf = add(store, add(store, leaf_of(store), "p0000"), "p0001")
    assert leaf == leaf_of(store)
    assert [part.name for part in leaf.parts] == ["p0000", "p0001"]
    samples = mds_tree.live_samples(store, leaf)
    assert samples.schema == SAMPLES_SCHEMA
    assert samples["image_id"].to_pylist() == [
        "cats/p0000-0",
        "cats/p0000-1",
        "cats/p0001-0",
        "cats/p0001-1",
    ]
    shards = mds_tree.live_shards(store, leaf)
    assert [shard.basename for shard in shards] == [
        "p0000/shard.00000.mds",
        "p0001/shard.00000.mds",
    ]
    assert [shard.part for shard in shards] == ["p0000", "p0001"]
    data = store.get(f"{leaf.prefix}/{shards[1].basename}")
    assert (shards[1].bytes, shards[1].sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (leaf.samples, leaf.bytes) == (4, sum(shard.bytes for shard in shards))
    index = json.loads(store.get(f"{leaf.prefix}/index.json"))
    names = [shard["raw_data"]["basename"] for shard in index["shards"]]
    assert names == [shard.basename for shard in shards]


def test_a_part_that_the_newest_list_leaves_out_is_no_longer_live(store: LocalStore) -> None:
    leaf = add(store, add(store, leaf_of(store), "p0000"), "p0001")
    with held(store, leaf) as got:
        mds_parts.commit_parts(store, leaf, leaf.parts[1:], got)
    assert [part.name for part in leaf_of(store).parts] == ["p0001"]
    with held(store, leaf) as got:
        mds_parts.remove_leftovers(store, leaf, got)
    # A list once named it: trainers may still read it, and its number is never given again.
    assert store.exists(f"{leaf.prefix}/p0000/shard.00000.mds")
    assert mds_parts.claim_part(store, leaf_of(store), "new") == "p0002"


def test_leaves_are_found_by_source_and_export(store: LocalStore) -> None:
    add(store, leaf_of(store, "cats", 1024, "0.500"), "p0000")
    add(store, leaf_of(store, "cats", 512, "1.000"), "p0000")
    add(store, leaf_of(store, "dogs"), "p0000")
    mds_parts.note_failures(store, "mds/cats/f00d", [Failure("cats/x", "c", "corrupt: so")])
    found = [(leaf.source, leaf.level, leaf.ar) for leaf in mds_tree.live_leaves(store)]
    assert found == [("cats", 1024, "0.500"), ("cats", 512, "1.000"), ("dogs", 512, "1.000")]
    assert len(list(mds_tree.live_leaves(store, "cats"))) == 2
    assert len(list(mds_tree.live_leaves(store, "cats", "f00d"))) == 2
    assert list(mds_tree.live_leaves(store, "cats", "beef")) == []
    assert len(list(mds_tree.live_leaves(store, None, "f00d"))) == 3


def test_the_same_plan_gets_its_folder_back_and_another_a_new_one(store: LocalStore) -> None:
    leaf = leaf_of(store)
    assert mds_parts.claim_part(store, leaf, "one") == "p0000"
    assert mds_parts.claim_part(store, leaf, "one") == "p0000"
    assert mds_parts.claim_part(store, leaf, "two") == "p0001"
    leaf = add(store, leaf, "p0000")
    assert mds_parts.claim_part(store, leaf, "one") == "p0002"


def test_leftovers_are_what_no_list_ever_named(store: LocalStore) -> None:
    leaf = add(store, leaf_of(store), "p0000")
    store.put_if_absent(f"{leaf.prefix}/p0000/slices/00000.json", b"{}")
    write_part(store, leaf, "p0001")
    assert mds_parts.has_leftovers(store, leaf)
    before = store.get(f"{leaf.prefix}/index.json")
    with held(store, leaf) as got:
        mds_parts.remove_leftovers(store, leaf, got)
    assert store.list(leaf.prefix) == [
        f"{leaf.prefix}/index.json",
        f"{leaf.prefix}/p0000/index.json",
        f"{leaf.prefix}/p0000/samples.parquet",
        f"{leaf.prefix}/p0000/shard.00000.mds",
        f"{leaf.prefix}/parts/000001.json",
    ]
    assert store.get(f"{leaf.prefix}/index.json") == before
    assert not mds_parts.has_leftovers(store, leaf)


def test_two_exports_of_one_leaf_do_not_both_win(store: LocalStore) -> None:
    planned = leaf_of(store)
    add(store, planned, "p0000")
    part = write_part(store, planned, "p0001")
    with held(store, planned) as got, pytest.raises(ConflictError, match="another export"):
        mds_parts.commit_parts(store, planned, (part,), got)
    assert [live.name for live in leaf_of(store).parts] == ["p0000"]


def test_a_part_that_another_export_cleaned_away_is_not_listed(store: LocalStore) -> None:
    first = add(store, leaf_of(store), "p0000")
    part = write_part(store, first, "p0001")
    store.delete(f"{first.prefix}/p0001/shard.00000.mds")
    with held(store, first) as got, pytest.raises(ConflictError, match="removed"):
        mds_parts.commit_parts(store, first, (*first.parts, part), got)
    assert leaf_of(store) == first


def test_without_the_lease_nothing_is_listed(store: LocalStore) -> None:
    leaf = leaf_of(store)
    part = write_part(store, leaf, "p0000")
    with held(store, leaf) as lost:
        pass
    with held(store, leaf), pytest.raises(ConflictError):
        mds_parts.commit_parts(store, leaf, (part,), lost)
    assert leaf_of(store).parts == ()


def test_an_index_behind_its_list_is_noticed_and_rewritten(store: LocalStore) -> None:
    leaf = add(store, leaf_of(store), "p0000")
    good = store.get(f"{leaf.prefix}/index.json")
    assert mds_tree.index_is_current(store, leaf)
    for spoil in (lambda key: store.delete(key), lambda key: store.replace(key, b"{}")):
        spoil(f"{leaf.prefix}/index.json")
        assert not mds_tree.index_is_current(store, leaf)
        with held(store, leaf) as got:
            mds_parts.write_merged_index(store, leaf, got)
        assert store.get(f"{leaf.prefix}/index.json") == good


def test_a_changed_or_missing_part_is_refused_with_a_fix(store: LocalStore) -> None:
    leaf = add(store, leaf_of(store), "p0000")
    key = f"{leaf.prefix}/p0000/index.json"
    store.replace(key, store.get(key).replace(b'"samples": 2', b'"samples": 3'))
    with pytest.raises(TableError, match="was changed") as caught:
        mds_tree.live_shards(store, leaf)
    assert caught.value.fix
    store.delete(key)
    with pytest.raises(TableError, match="missing"):
        mds_tree.merged_index(store, leaf)


def test_an_object_with_other_bytes_is_a_conflict(store: LocalStore) -> None:
    mds_parts.put_same(store, "a", b"1")
    mds_parts.put_same(store, "a", b"1")
    with pytest.raises(ConflictError):
        mds_parts.put_same(store, "a", b"2")
    assert store.get("a") == b"1"


def test_the_data_version_is_that_of_the_live_parts(store: LocalStore) -> None:
    one = add(store, leaf_of(store), "p0000")
    other = add(store, leaf_of(store, level=1024), "p0000")
    version = mds_tree.data_version("f00d", [one, other])
    assert version == mds_tree.data_version("f00d", [other, one])
    assert version != mds_tree.data_version("f00d", [one])
    assert version != mds_tree.data_version("beef", [one, other])
    assert version != mds_tree.data_version("f00d", [add(store, one, "p0001"), other])


def test_failures_are_noted_once(store: LocalStore) -> None:
    rows = [Failure("a", "1", "corrupt: x"), Failure("b", "2", "truncated: y")]
    mds_parts.note_failures(store, "mds/cats/f00d", rows)
    mds_parts.note_failures(store, "mds/cats/f00d", rows[::-1])
    mds_parts.note_failures(store, "mds/cats/f00d", [])
    assert len(store.list("mds/cats/f00d/failed")) == 1
    assert mds_parts.failures(store, "mds/cats/f00d") == {
        ("a", "1"): "corrupt: x",
        ("b", "2"): "truncated: y",
    }
    assert mds_parts.failures(store, "mds/dogs/f00d") == {}
