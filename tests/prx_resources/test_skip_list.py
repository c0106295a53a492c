from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx_resources.errors import RefusedError, TableError
from prx_resources.skip_list import Kept, ShardKey, SkipList, describe_change, load_skip_list


def key(leaf: str = "a/fp/512/1.000", number: int = 0, samples: int = 10) -> ShardKey:
    return ShardKey(
        leaf, f"p0000/shard.{number:05d}.mds", 100, {"sha256": f"{number:064x}"}, samples
    )


def store(made: SkipList, folder: Path) -> Path:
    place = folder / made.hash
    place.mkdir(parents=True)
    for name, data in made.files().items():
        (place / name).write_bytes(data)
    return place


@st.composite
def shards(draw: st.DrawFn) -> tuple[int, list[int]]:
    samples = draw(st.integers(1, 200))
    return samples, sorted(draw(st.sets(st.integers(0, samples - 1))))


@given(shards())
def test_positions_of_kept_samples_are_the_complement_of_the_skipped(
    shard: tuple[int, list[int]],
) -> None:
    samples, skip = shard
    kept = Kept(samples, np.array(skip, np.uint32))
    assert [kept[at] for at in range(len(kept))] == sorted(set(range(samples)) - set(skip))


@given(st.lists(shards(), max_size=6))
def test_a_list_survives_its_files(found: list[tuple[int, list[int]]]) -> None:
    made = SkipList.build(
        (key(number=number, samples=samples), skip) for number, (samples, skip) in enumerate(found)
    )
    files = made.files()
    again = SkipList.from_files(files["list.json"], files["skip.npy"])
    assert again.hash == made.hash
    assert [(shard.samples, skip.tolist()) for shard, skip in again] == found
    assert sum(again.kept_per_leaf().values()) == sum(n - len(skip) for n, skip in found)


def test_the_hash_is_that_of_the_content_in_any_order() -> None:
    pairs = [(key(number=number), [number]) for number in range(3)]
    assert SkipList.build(pairs).hash == SkipList.build(reversed(pairs)).hash


@pytest.mark.parametrize(
    "other",
    [
        (key(), [1, 3]),
        (dataclasses.replace(key(), size=101), [1, 2]),
        (dataclasses.replace(key(), hashes={"sha256": "00"}), [1, 2]),
        (key(samples=11), [1, 2]),
        (key(leaf="b/fp/512/1.000"), [1, 2]),
        (key(number=1), [1, 2]),
    ],
)
def test_everything_a_list_binds_to_changes_its_hash(other: tuple[ShardKey, list[int]]) -> None:
    assert SkipList.build([other]).hash != SkipList.build([(key(), [1, 2])]).hash


@pytest.mark.parametrize("skip", [[3, 1], [1, 1], [10]])
def test_indexes_that_are_unsorted_doubled_or_outside_are_refused(skip: list[int]) -> None:
    with pytest.raises(TableError):
        SkipList.build([(key(), skip)])


def test_a_shard_named_twice_is_refused() -> None:
    with pytest.raises(TableError, match="twice"):
        SkipList.build([(key(), [1]), (key(), [2])])


def test_indexes_may_fall_from_one_shard_to_the_next() -> None:
    made = SkipList.build([(key(number=0), [8, 9]), (key(number=1), [0])])
    assert [skip.tolist() for _, skip in made] == [[8, 9], [0]]


def test_load_reads_what_was_stored(tmp_path: Path) -> None:
    made = SkipList.build([(key(), [0, 9])])
    loaded = load_skip_list(store(made, tmp_path))
    assert loaded.hash == made.hash
    found = loaded.find("a/fp/512/1.000", "p0000/shard.00000.mds")
    assert found is not None
    assert found[1].tolist() == [0, 9]
    assert loaded.find("a/fp/512/1.000", "p0001/shard.00000.mds") is None


def test_a_changed_list_isnt_loaded(tmp_path: Path) -> None:
    place = store(SkipList.build([(key(), [0, 9])]), tmp_path)
    other = SkipList.build([(key(), [0, 8])])
    (place / "skip.npy").write_bytes(other.files()["skip.npy"])
    with pytest.raises(TableError, match="name"):
        load_skip_list(place)


@pytest.mark.parametrize("name", ["list.json", "skip.npy"])
def test_a_cut_off_list_isnt_loaded(tmp_path: Path, name: str) -> None:
    place = store(SkipList.build([(key(), [0, 9])]), tmp_path)
    (place / name).write_bytes((place / name).read_bytes()[:-3])
    with pytest.raises(TableError):
        load_skip_list(place)


def test_a_missing_list_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="fix: copy the list"):
        load_skip_list(tmp_path / "nowhere")


def test_describe_change_counts_samples_and_shards() -> None:
    old = SkipList.build([(key(number=0), [1, 2]), (key(number=1), [])])
    new = SkipList.build([(key(number=0), [2, 3, 4]), (key(number=2), [])])
    assert describe_change(old, new) == (
        "2 samples newly skipped, 1 sample no longer skipped, 1 shard added, 1 shard gone"
    )
    assert describe_change(old, old) == "the same samples"
