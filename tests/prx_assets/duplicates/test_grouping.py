from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from prx_assets.duplicates import grouping
from prx_assets.duplicates.grouping import groups
from prx_assets.duplicates.ranking import SCHEMA, ranked
from prx_assets.duplicates.spec import COLUMNS, DuplicatesSpec

Arrays = tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.bool_], NDArray[np.uint64]]


@st.composite
def images(draw: st.DrawFn, most: int = 40) -> Arrays:
    """Few hashes, colours close together and repeated files, so that everything happens."""
    rows = draw(st.integers(0, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    colours = rng.integers(0, draw(st.sampled_from([2, 30, 60])), (rows, 48), dtype=np.uint8)
    colours[:, 2:] //= 8
    return (
        rng.integers(0, draw(st.integers(1, 8)), rows, dtype=np.uint64),
        colours,
        rng.random(rows) < draw(st.sampled_from([0.0, 0.3])),
        rng.integers(0, draw(st.sampled_from([5, 10**6])), (rows, 2), dtype=np.uint64),
    )


def by_hand(arrays: Arrays, tolerance: int) -> list[frozenset[int]]:
    """The groups of two or more, by looking at every pair until nothing changes."""
    phash, signature, flat, content = arrays
    label = list(range(len(phash)))
    for i in range(len(label)):
        for j in range(i):
            near = np.abs(signature[i].astype(int) - signature[j]).max() <= tolerance
            alike = phash[i] == phash[j] and near and not flat[i] and not flat[j]
            if alike or (content[i] == content[j]).all():
                old, new = label[i], label[j]
                label = [new if value == old else value for value in label]
    sets = [frozenset(i for i, v in enumerate(label) if v == value) for value in set(label)]
    return sorted((group for group in sets if len(group) > 1), key=min)


def as_sets(group: NDArray[np.int64]) -> list[frozenset[int]]:
    sets = [frozenset(np.flatnonzero(group == value).tolist()) for value in set(group) - {-1}]
    return sorted(sets, key=min)


@settings(deadline=None)
@given(images(), st.sampled_from([0, 12, 255]))
def test_groups_are_the_connected_components(arrays: Arrays, tolerance: int) -> None:
    assert as_sets(groups(*arrays, tolerance)) == by_hand(arrays, tolerance)


@settings(deadline=None)
@given(arrays=images())
def test_large_buckets_give_the_same_groups(arrays: Arrays) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "SMALL_BUCKET", 2)
        assert as_sets(groups(*arrays)) == by_hand(arrays, grouping.TOLERANCE)


@settings(deadline=None)
@given(arrays=images(), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_changes_no_group_and_no_rank(arrays: Arrays, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    before = ranked(table(arrays), groups(*arrays))
    shuffled = tuple(array[order] for array in arrays)
    after = ranked(table(arrays).take(pa.array(order)), groups(*shuffled))
    assert before.equals(after)


def table(arrays: Arrays) -> pa.Table:
    """Rows for `ranked`, with values that follow from the row's arrays."""
    phash, signature, flat, content = arrays
    return pa.table(
        {
            "image_id": [f"s/{i:03}" for i in range(len(phash))],
            "phash": pa.array(phash, pa.uint64()),
            "phash_flat": pa.array(flat, pa.bool_()),
            "content_sha256": [f"{a:064x}" for a in content[:, 0].tolist()],
            "pixels": pa.array(signature[:, 0] % 3, pa.int64()),
            "priority": pa.array(signature[:, 1] % 2, pa.int64()),
            "bytes": pa.array(content[:, 1] % 3, pa.int64()),
        }
    )


def rows(*shapes: tuple[str, int, int, int]) -> pa.Table:
    """Rows of (image_id, pixels, priority, bytes)."""
    ids, pixels, priority, size = zip(*shapes, strict=True)
    return pa.table(
        {
            "image_id": pa.array(ids),
            "phash": pa.array([7] * len(ids), pa.uint64()),
            "phash_flat": pa.array([False] * len(ids)),
            "content_sha256": pa.array(["0" * 64] * len(ids)),
            "pixels": pa.array(pixels, pa.int64()),
            "priority": pa.array(priority, pa.int64()),
            "bytes": pa.array(size, pa.int64()),
        }
    )


def test_resolution_then_priority_then_file_size_then_id_decide() -> None:
    found = ranked(
        rows(
            ("a/small", 100, 9, 999),
            ("z/last", 200, 1, 10),
            ("b/last", 200, 1, 10),
            ("c/heavy", 200, 1, 20),
            ("d/dear", 200, 2, 1),
            ("e/alone", 50, 0, 1),
        ),
        np.array([0, 0, 0, 0, 0, -1]),
    )
    ranks = dict(zip(found["image_id"].to_pylist(), found["rank"].to_pylist(), strict=True))
    order = ["d/dear", "c/heavy", "b/last", "z/last", "a/small"]
    assert [ranks[name] for name in order] == [0, 1, 2, 3, 4]
    assert set(found["group"].to_pylist()) == {"a/small", None}
    assert found["image_id"].to_pylist() == sorted(ranks)
    assert ranks["e/alone"] == 0


def test_flat_images_match_only_as_identical_files() -> None:
    phash = np.zeros(4, np.uint64)
    signature = np.zeros((4, 48), np.uint8)
    content = np.array([[1, 1], [1, 1], [2, 1], [3, 3]], np.uint64)
    found = groups(phash, signature, np.ones(4, np.bool_), content)
    assert as_sets(found) == [frozenset({0, 1})]


def test_one_hash_shared_by_many_different_pictures() -> None:
    rng = np.random.default_rng(1)
    signature = rng.integers(0, 256, (3000, 48), dtype=np.uint8)
    signature[1500:] = np.clip(signature[:1500].astype(int) + 5, 0, 255).astype(np.uint8)
    content = np.arange(6000, dtype=np.uint64).reshape(3000, 2)
    found = groups(np.zeros(3000, np.uint64), signature, np.zeros(3000, np.bool_), content)
    assert found.max() == 1499
    assert (found[:1500] == found[1500:]).all()


def test_the_documented_columns_are_the_table_s() -> None:
    assert [name for name, _ in COLUMNS] == SCHEMA.names


def test_a_spec_survives_json() -> None:
    spec = DuplicatesSpec((("a", 0), ("b", 3)), 9)
    assert DuplicatesSpec.from_params(**spec.params) == spec
