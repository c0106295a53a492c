from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming.base.partition import get_partitions

from prx_assets.training_config.plan import Leaf, plan


def leaf(source: str, kept: int, ratio: str = "1.000", weight: float = 1.0) -> Leaf:
    return Leaf(f"{source}/fp/512/{ratio}", kept, weight)


def shape(leaves: list[Leaf], batch: int = 4, nodes: int = 2) -> list[tuple[str, int]]:
    streams = plan(leaves, batch, nodes).streams
    return [("+".join(name.split("/")[0] for name in s.leaves), s.samples) for s in streams]


def test_large_leaves_are_streams_of_their_own() -> None:
    assert shape([leaf("a", 8), leaf("b", 9)]) == [("a", 8), ("b", 9)]


def test_small_leaves_of_one_bucket_are_pooled() -> None:
    assert shape([leaf("a", 4), leaf("b", 4), leaf("c", 20)]) == [("a+b", 8), ("c", 20)]


def test_a_pool_that_is_still_too_small_joins_the_smallest_large_leaf() -> None:
    assert shape([leaf("a", 1), leaf("b", 30), leaf("c", 20)]) == [("a+c", 21), ("b", 30)]


def test_what_fills_no_batch_is_left_out_and_named() -> None:
    made = plan([leaf("a", 4), leaf("b", 3), leaf("b", 8, "0.500"), leaf("a", 0, "0.500")], 4, 2)
    assert [stream.leaves for stream in made.streams] == [("b/fp/512/0.500",)]
    assert made.left_out == {"a/fp/512/1.000": 4, "b/fp/512/1.000": 3}
    assert made.empty == ("a/fp/512/0.500",)


def test_weights_repeat_samples_and_mix_in_a_pool() -> None:
    made = plan([leaf("a", 4, weight=0.5), leaf("b", 3, weight=2.0)], 4, 2)
    assert [stream.repeat for stream in made.streams] == [pytest.approx(8 / 7)]
    assert plan([leaf("a", 8, weight=0.5)], 4, 2).left_out


def test_a_stream_that_rounds_to_nothing_of_the_shuffle_block_is_left_out() -> None:
    leaves = [leaf("a", 100_000_000), leaf("b", 300, "0.500")]
    assert plan(leaves, 4, 32).left_out == {"b/fp/512/0.500": 300}


@settings(max_examples=60)
@given(
    st.integers(1, 8),
    st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 2), (4, 4)]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_what_the_plan_takes_fills_a_batch_on_every_node(
    batch: int, nodes: tuple[int, int], ranks: int, workers: int, more: int
) -> None:
    canonical, physical = nodes
    samples = batch * canonical + more
    assert plan([leaf("a", samples)], batch, canonical).streams
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # As Streaming's device_per_stream batching does it.
        parts = get_partitions("relaxed", samples, canonical, canonical, ranks, workers, 1, 0, None)
    logging.disable(logging.NOTSET)
    each = canonical // physical
    for node in range(physical):
        own = parts[node * each : (node + 1) * each].transpose(3, 2, 0, 1, 4).flatten()
        full = own[: len(own) // batch * batch].reshape(-1, batch)
        assert np.count_nonzero(full.min(axis=1) >= 0) > 0
