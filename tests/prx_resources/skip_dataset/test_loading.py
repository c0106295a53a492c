from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streaming import Stream, StreamingDataLoader, StreamingDataset
from streaming.base.batching import batching_methods, generate_work
from streaming.base.stream import streams_registry
from streaming.base.world import World

from prx_resources.errors import RefusedError
from prx_resources.skip_dataset import PooledStream, SkipDataset, SkipMixin, SkipStream
from prx_resources.skip_list import SkipList


def skip_streams(tree: Any, **arguments: Any) -> list[SkipStream]:
    return [
        SkipStream(local=str(tree.place(leaf)), skip_list=tree.skip_list, **arguments)
        for leaf in tree.leaves
    ]


def plain_streams(tree: Any) -> list[Stream]:
    return [Stream(local=str(tree.plain(leaf))) for leaf in tree.leaves]


def both(tree: Any, **arguments: Any) -> tuple[SkipDataset, StreamingDataset]:
    return (
        SkipDataset(streams=skip_streams(tree), **arguments),
        StreamingDataset(streams=plain_streams(tree), **arguments),
    )


def ids(dataset: Any, work: Any) -> list[str | None]:
    known = [dataset[number]["id"] for number in range(dataset.num_samples)]
    return [None if number < 0 else known[number] for number in np.ravel(work)]


def test_presents_exactly_the_kept_samples_in_order(tree: Any) -> None:
    dataset = SkipDataset(streams=skip_streams(tree), batch_size=4)
    found = [dataset[number]["id"] for number in range(dataset.num_samples)]
    assert found == [text for leaf in tree.leaves for text in tree.kept[leaf]]


def test_sizes_are_those_of_a_dataset_without_the_skipped(tree: Any) -> None:
    skipping, plain = both(tree, batch_size=4)
    for name in ("samples_per_stream", "samples_per_shard", "sample_offset_per_shard"):
        np.testing.assert_array_equal(getattr(skipping, name), getattr(plain, name))
    assert (skipping.epoch_size, len(skipping)) == (plain.epoch_size, len(plain))
    assert [stream.proportion for stream in skipping.streams] == [
        stream.proportion for stream in plain.streams
    ]


@pytest.mark.parametrize("method", sorted(batching_methods))
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_batching_method_gives_what_the_plain_dataset_gives(
    tree: Any, method: str, shuffle: bool
) -> None:
    datasets = both(tree, batch_size=3, shuffle=shuffle, num_canonical_nodes=2)
    world = World(num_nodes=2, ranks_per_node=2, workers_per_rank=2, worker=0)
    found = []
    for dataset in datasets:
        dataset._set_shuffle_block_size(world)
        work = generate_work(method, dataset, world, epoch=1, sample_in_epoch=12)
        found.append((work.shape, ids(dataset, work)))
    assert found[0] == found[1]


def test_global_batches_dont_depend_on_the_number_of_nodes(tree: Any) -> None:
    dataset = SkipDataset(
        streams=skip_streams(tree), batch_size=2, shuffle=True, num_canonical_nodes=4
    )
    batches = []
    for nodes, ranks in ((1, 20), (2, 10), (4, 5)):
        world = World(num_nodes=nodes, ranks_per_node=ranks, workers_per_rank=1, worker=0)
        dataset._set_shuffle_block_size(world)
        work = generate_work("random", dataset, world, epoch=0, sample_in_epoch=0)
        steps = [np.sort(work[:, :, 0, step], axis=None) for step in range(work.shape[3])]
        batches.append([step[step >= 0].tolist() for step in steps])
    assert batches[0] == batches[1] == batches[2]
    assert {number for batch in batches[0] for number in batch} == set(range(dataset.num_samples))


# Other tests of the same process may have imported lance; these workers never use it.
@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_through_the_loader_sees_every_kept_sample_once(tree: Any, workers: int) -> None:
    dataset = SkipDataset(streams=skip_streams(tree), batch_size=4, shuffle=True)
    loader = StreamingDataLoader(dataset, batch_size=4, num_workers=workers)
    found = [text for batch in loader for text in batch["id"]]
    assert sorted(found) == sorted(text for leaf in tree.leaves for text in tree.kept[leaf])


def test_a_wholly_skipped_shard_is_dropped(tree: Any) -> None:
    shards = [
        (key, np.arange(key.samples) if n == 1 else skip) for n, (key, skip) in enumerate(tree.list)
    ]
    folder = tree.store(SkipList.build(shards))
    stream = SkipStream(local=str(tree.place(tree.leaves[0])), skip_list=folder)
    dataset = SkipDataset(streams=[stream], batch_size=4)
    assert dataset.num_shards == 2
    assert not any("#1." in dataset[number]["id"] for number in range(dataset.num_samples))


def test_a_leaf_of_which_nothing_is_kept_is_refused(tree: Any) -> None:
    folder = tree.store(SkipList.build((key, np.arange(key.samples)) for key, _ in tree.list))
    stream = SkipStream(local=str(tree.place(tree.leaves[0])), skip_list=folder)
    with pytest.raises(RefusedError, match="keeps no sample"):
        SkipDataset(streams=[stream], batch_size=4)


def test_shards_that_the_list_doesnt_name_are_refused_or_left_out_when_pinned(tree: Any) -> None:
    known = [pair for pair in tree.list if pair[0].part != "p0001"]
    folder = tree.store(SkipList.build(known))
    arguments = {"local": str(tree.place(tree.leaves[0])), "skip_list": folder}
    with pytest.raises(RefusedError, match="doesn't know shard p0001/"):
        SkipDataset(streams=[SkipStream(**arguments)], batch_size=4)
    dataset = SkipDataset(streams=[SkipStream(pinned=True, **arguments)], batch_size=4)
    found = {dataset[number]["id"] for number in range(dataset.num_samples)}
    assert found == {text for text in tree.kept[tree.leaves[0]] if "#1." not in text}


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("change", ["gone", "size", "hash", "samples"])
def test_a_removed_or_rewritten_shard_is_refused(tree: Any, change: str, pinned: bool) -> None:
    index = tree.place(tree.leaves[0]) / "index.json"
    data = json.loads(index.read_text())
    info = data["shards"][1]
    if change == "gone":
        data["shards"].pop(1)
    elif change == "size":
        info["raw_data"]["bytes"] += 1
    elif change == "hash":
        info["raw_data"]["hashes"]["sha256"] = "0" * 64
    else:
        info["samples"] -= 1
    index.write_text(json.dumps(data))
    with pytest.raises(RefusedError, match=r"gone|isn't the one"):
        SkipDataset(streams=skip_streams(tree, pinned=pinned), batch_size=4)


def test_mixes_with_another_stream_class(tree: Any) -> None:
    class Theirs(Stream):  # type: ignore[misc]
        def __init__(self, *, colour: str, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.colour = colour
            self.prepared = 0

        def prepare_shard(self, shard: Any) -> int:
            self.prepared += 1
            return int(super().prepare_shard(shard))

    class Mixed(SkipMixin, Theirs):
        pass

    leaf = tree.leaves[0]
    stream = Mixed(
        colour="red",
        remote=str(tree.place(leaf)),
        local=str(tree.root / "cache"),
        leaf=leaf,
        skip_list=tree.skip_list,
    )
    dataset = SkipDataset(streams=[stream], batch_size=4)
    loader = StreamingDataLoader(dataset, batch_size=4)
    assert sorted(text for batch in loader for text in batch["id"]) == sorted(tree.kept[leaf])
    assert stream.colour == "red"
    assert stream.prepared >= dataset.num_shards


def test_pooled_leaves_are_one_stream(make_tree: Callable[..., Any]) -> None:
    tree = make_tree({"a/fp/512/1.000": [9, 5], "b/fp/512/1.000": [11], "b/fp/512/0.500": [30]})
    *small, large = skip_streams(tree)
    dataset = SkipDataset(
        streams=[PooledStream(small, repeat=2.0), large],
        batch_size=4,
        shuffle=True,
        batching_method="device_per_stream",
    )
    wanted = tree.kept["a/fp/512/1.000"] + tree.kept["b/fp/512/1.000"]
    assert dataset.samples_per_stream.tolist() == [
        len(wanted),
        len(tree.kept["b/fp/512/0.500"]),
    ]
    batches = [batch["id"] for batch in StreamingDataLoader(dataset, batch_size=4)]
    pooled = [batch for batch in batches if batch[0] in wanted]
    assert all(text in wanted for batch in pooled for text in batch)
    assert len(pooled) == 2 * len(wanted) // 4


def test_pooled_leaves_are_fetched_from_a_remote(make_tree: Callable[..., Any]) -> None:
    tree = make_tree({"a/fp/512/1.000": [9, 5], "b/fp/512/1.000": [11]})
    members = [
        SkipStream(
            remote=str(tree.place(leaf)),
            local=str(tree.root / "cache" / leaf),
            leaf=leaf,
            skip_list=tree.skip_list,
        )
        for leaf in tree.leaves
    ]
    dataset = SkipDataset(streams=[PooledStream(members)], batch_size=4)
    found = [text for batch in StreamingDataLoader(dataset, batch_size=4) for text in batch["id"]]
    assert sorted(found) == sorted(text for leaf in tree.leaves for text in tree.kept[leaf])


def test_readers_survive_the_way_to_a_spawned_worker(tree: Any) -> None:
    dataset = SkipDataset(streams=skip_streams(tree), batch_size=4)
    again = pickle.loads(pickle.dumps(dataset.shards))
    assert [shard[0]["id"] for shard in again] == [shard[0]["id"] for shard in dataset.shards]
    assert again[0].column_names == ["id", "n"]


def test_registered_for_plain_streaming(tree: Any) -> None:
    assert streams_registry.get("prx_skip") is SkipStream
    leaf = tree.leaves[0]
    dataset = StreamingDataset(
        local=str(tree.place(leaf)),
        stream_name="prx_skip",
        stream_config={"skip_list": str(tree.skip_list)},
        batch_size=4,
    )
    assert dataset.num_samples == len(tree.kept[leaf])


def test_weights_count_kept_samples(tree: Any) -> None:
    first, second = (
        SkipStream(local=str(tree.place(leaf)), skip_list=tree.skip_list, repeat=weight)
        for leaf, weight in zip(tree.leaves, (2.0, 0.5), strict=True)
    )
    dataset = SkipDataset(streams=[first, second], batch_size=4)
    sizes = [len(tree.kept[leaf]) for leaf in tree.leaves]
    assert dataset.epoch_size == 2 * sizes[0] + int(0.5 * sizes[1])


def test_the_leaf_is_taken_from_the_path(tree: Any, tmp_path: Path) -> None:
    stream = SkipStream(local=f"{tree.place('a/fp/512/1.000')}/", skip_list=tree.skip_list)
    assert stream.leaf == "a/fp/512/1.000"
