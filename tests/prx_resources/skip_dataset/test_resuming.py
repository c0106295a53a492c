from __future__ import annotations

from typing import Any

import pytest
from streaming import Stream, StreamingDataLoader, StreamingDataset

from prx_resources.errors import RefusedError
from prx_resources.skip_dataset import SkipDataset, SkipStream
from prx_resources.skip_list import SkipList


def open_dataset(tree: Any, folder: Any = None, **arguments: Any) -> SkipDataset:
    streams = [
        SkipStream(local=str(tree.place(leaf)), skip_list=folder or tree.skip_list)
        for leaf in arguments.pop("leaves", tree.leaves)
    ]
    return SkipDataset(
        streams=streams, batch_size=4, shuffle=True, num_canonical_nodes=2, **arguments
    )


def state_after(
    tree: Any, batches: int, workers: int = 0
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Returns the state after some batches, what was seen until then, and the rest of the epoch."""
    loader = StreamingDataLoader(open_dataset(tree), batch_size=4, num_workers=workers)
    seen: list[list[str]] = []
    state = None
    for batch in loader:
        seen.append(batch["id"])
        if len(seen) == batches:
            state = loader.state_dict()
    assert state is not None
    flat = [text for batch in seen for text in batch]
    return state, flat[: batches * 4], flat[batches * 4 :]


# Other tests of the same process may have imported lance; these workers never use it.
@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
@pytest.mark.parametrize("workers", [0, 2])
def test_resumes_in_the_middle_of_an_epoch(tree: Any, workers: int) -> None:
    state, before, rest = state_after(tree, 7, workers)
    dataset = open_dataset(tree)
    loader = StreamingDataLoader(dataset, batch_size=4, num_workers=workers)
    loader.load_state_dict(state)
    after = [text for batch in loader for text in batch["id"]]
    assert after == rest
    kept = [text for leaf in tree.leaves for text in tree.kept[leaf]]
    assert sorted(before + after) == sorted(kept)


def test_the_state_names_the_list(tree: Any) -> None:
    state, _, _ = state_after(tree, 2)
    assert state["prx_skip_lists"] == [tree.list.hash]


def changed_list(tree: Any) -> Any:
    pairs = [
        (key, skip[2:] if number == 0 else skip) for number, (key, skip) in enumerate(tree.list)
    ]
    return tree.store(SkipList.build(pairs))


def test_another_list_is_refused_and_the_difference_said(tree: Any) -> None:
    state, _, _ = state_after(tree, 2)
    dataset = open_dataset(tree, changed_list(tree))
    with pytest.raises(RefusedError, match="2 samples no longer skipped"):
        dataset.load_state_dict(state)


def test_another_list_is_taken_when_that_is_said(tree: Any) -> None:
    state, before, _ = state_after(tree, 2)
    dataset = open_dataset(tree, changed_list(tree), accept_changed_list=True)
    dataset.load_state_dict(state)
    after = [text for batch in StreamingDataLoader(dataset, batch_size=4) for text in batch["id"]]
    assert len(after) == dataset.num_samples - len(before)


def test_a_list_that_isnt_there_any_more_is_refused_too(tree: Any) -> None:
    state, _, _ = state_after(tree, 2)
    state["prx_skip_lists"] = ["0" * 32]
    with pytest.raises(RefusedError, match="difference is unknown"):
        open_dataset(tree).load_state_dict(state)


def test_streams_in_another_order_are_refused(tree: Any) -> None:
    state, _, _ = state_after(tree, 2)
    dataset = open_dataset(tree, leaves=list(reversed(tree.leaves)))
    with pytest.raises(RefusedError, match="streams or their order"):
        dataset.load_state_dict(state)


def test_a_checkpoint_without_a_list_is_refused(tree: Any) -> None:
    plain = StreamingDataset(
        streams=[Stream(local=str(tree.plain(leaf))) for leaf in tree.leaves], batch_size=4
    )
    next(iter(plain))
    with pytest.raises(RefusedError, match="no skip-list"):
        open_dataset(tree).load_state_dict(plain.state_dict(4, True))
