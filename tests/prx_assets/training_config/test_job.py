from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from streaming import StreamingDataLoader

from prx_resources import takedowns
from prx_resources.errors import RefusedError, TableError, UnknownError
from prx_resources.skip_dataset import SkipDataset, load_training_config, streams
from prx_resources.takedowns import Takedown
from tests.prx_assets.trainable import TinyLake, picture

SQUARE = [f"a/{number}" for number in range(40)]
WIDE = [f"a/w{number}" for number in range(12)]
OTHER = ["b/0", "b/1", "b/2"]
TALL = ["a/t0", "b/t1", "b/t2", "b/t3"]
ALL = [*SQUARE, *WIDE, *OTHER, *TALL]


@pytest.fixture
def tiny(tmp_path: Path) -> TinyLake:
    made = TinyLake(tmp_path)
    made.put(*map(picture, ALL))
    made.export(SQUARE)
    made.export(OTHER)
    made.export(WIDE, "2.000")
    made.export(TALL[:1], "0.500")
    made.export(TALL[1:], "0.500")
    return made


def compiled(tiny: TinyLake, **changes: Any) -> Any:
    tiny.compile_lists()
    return tiny.compile_config(**changes)


def seen(tiny: TinyLake, **arguments: Any) -> list[list[str]]:
    config = load_training_config(tiny.config_path())
    dataset = SkipDataset(
        streams=streams(config, **arguments), shuffle=True, **config.dataset_arguments
    )
    loader = StreamingDataLoader(dataset, batch_size=config.batch_size)
    return [batch["id"] for batch in loader]


def bucket(name: str) -> str:
    return next(key for key, names in BUCKETS.items() if name in names)


BUCKETS = {"square": [*SQUARE, *OTHER], "wide": WIDE, "tall": TALL}


def test_a_trainer_sees_every_kept_sample_in_batches_of_one_bucket(tiny: TinyLake) -> None:
    result = compiled(tiny)
    batches = seen(tiny)
    assert all(len({bucket(name) for name in batch}) == 1 for batch in batches)
    found = [name for batch in batches for name in batch]
    # 43 squares make ten batches of four; Streaming drops the rest of each stream.
    assert len(found) == len(set(found)) == 40 + 12 + 4
    assert set(found) <= set(ALL)
    assert (result.rows_in, result.rows_out, result.set_aside) == (len(ALL), len(ALL), {})


def test_what_isnt_decided_never_reaches_the_loader(tiny: TinyLake) -> None:
    rows = {name: picture(name) for name in ALL}
    rows["a/1"] |= {"label": None, "label_input": None}
    rows["a/2"] |= {"phash": None}
    rows["a/3"] |= {"label": "nsfw"}
    tiny.put(*rows.values(), groups=[["a/4", "a/w5", "b/1"]])
    takedowns.put(tiny.lake.takedowns_uri, [Takedown("a/w5", "a")])
    compiled(tiny)
    found = {name for batch in seen(tiny) for name in batch}
    assert not found & {"a/1", "a/2", "a/3", "a/4", "a/w5", "b/1"}
    assert len(found) >= 36


def test_a_second_run_writes_nothing(tiny: TinyLake) -> None:
    first = compiled(tiny)
    before = tiny.files()
    again = compiled(tiny)
    assert (again.data_version, again.done) == (first.data_version, 0)
    assert tiny.files() == before


@pytest.mark.parametrize(
    "changes", [{"batch_size": 2}, {"canonical_nodes": 2}, {"weights": {"a": 2.0}}]
)
def test_what_it_is_compiled_for_is_part_of_the_lock(
    tiny: TinyLake, changes: dict[str, Any]
) -> None:
    first = compiled(tiny)
    assert compiled(tiny, **changes).data_version != first.data_version


def test_a_config_stays_the_same_data_set_when_parts_are_added(tiny: TinyLake) -> None:
    compiled(tiny)
    before = seen(tiny)
    tiny.put(*map(picture, [*ALL, "a/new", "a/newer"]))
    tiny.export(["a/new", "a/newer"])
    assert seen(tiny) == before
    compiled(tiny)
    kept = load_training_config(tiny.config_path()).samples
    assert kept == len(ALL) + 2


def test_buckets_that_fill_no_batch_are_left_out_and_reported(tiny: TinyLake) -> None:
    result = compiled(tiny, batch_size=5)
    left_out = result.metadata["left_out"].value
    assert {(row["source"], row["level"], row["ratio"]): row["samples"] for row in left_out} == {
        ("a", "512", "0.500"): 1,
        ("b", "512", "0.500"): 3,
    }
    assert result.set_aside == {"left_out": 4}
    assert [check.name for check in result.checks if not check.passed] == ["nothing_left_out"]
    assert not {name for batch in seen(tiny) for name in batch} & set(TALL)


def test_no_config_names_a_leaf_without_its_list(tiny: TinyLake) -> None:
    compiled(tiny)
    config = load_training_config(tiny.config_path())
    folder = tiny.lake.uri(tiny.lake.training_config_prefix(config.lock))
    for name in ("streaming.json", "prx.json"):
        document = json.loads(Path(folder, name).read_text())
        entries = [document[key] for key in ("streams", "directories", "pools") if key in document]
        assert entries
        assert all(
            entry["skip_list"] == f"skip_lists/{config.skip_list.name}"
            for group in entries
            for entry in group
        )


def test_a_prx_trainer_finds_its_directories(tiny: TinyLake) -> None:
    compiled(tiny, batch_size=3)
    config = load_training_config(tiny.config_path())
    path = tiny.lake.uri(tiny.lake.training_config_prefix(config.lock))
    document = json.loads(Path(path, "prx.json").read_text())
    assert [(one["directory"], one["buckets"]) for one in document["directories"]] == [
        ("mds/a/export0/512", {"1.000": 40, "2.000": 12}),
        ("mds/b/export0/512", {"1.000": 3}),
    ]
    assert [pool["leaves"] for pool in document["pools"]] == [
        ["a/export0/512/0.500", "b/export0/512/0.500"]
    ]
    for one in document["directories"]:
        for ratio in one["buckets"]:
            assert Path(tiny.lake.uri(f"{one['directory']}/{ratio}/index.json")).is_file()


def test_a_lake_that_was_copied_elsewhere_loads(tiny: TinyLake, tmp_path: Path) -> None:
    compiled(tiny)
    before = seen(tiny)
    copy = tmp_path / "copy"
    shutil.copytree(tiny.lake.root, copy)
    shutil.rmtree(tiny.lake.root)
    moved = TinyLake(tmp_path)
    moved.lake = type(moved.lake)(str(copy))
    assert seen(moved) == before


def test_a_lake_is_read_through_a_cache(tiny: TinyLake, tmp_path: Path) -> None:
    compiled(tiny)
    assert seen(tiny, remote=tiny.lake.root, local=tmp_path / "cache") == seen(tiny)


def test_a_rewritten_shard_is_refused(tiny: TinyLake) -> None:
    tiny.compile_lists()
    leaf = Path(tiny.lake.root, "mds/a/export0/512/2.000")
    (leaf / "parts" / "000002.json").write_text('{"parts": []}')
    with pytest.raises(RefusedError, match="removed or rewritten"):
        tiny.compile_config()


def test_without_a_list_it_says_what_to_do(tiny: TinyLake) -> None:
    with pytest.raises(UnknownError, match="prx materialize skip_lists"):
        tiny.compile_config()
    with pytest.raises(RefusedError, match="materialize training_config"):
        load_training_config(tiny.config_path())


def test_a_changed_config_isnt_loaded(tiny: TinyLake) -> None:
    compiled(tiny)
    config = load_training_config(tiny.config_path())
    folder = Path(tiny.lake.uri(tiny.lake.training_config_prefix(config.lock)))
    lock = json.loads((folder / "lock.json").read_text())
    lock["shards"].pop()
    (folder / "lock.json").write_text(json.dumps(lock))
    with pytest.raises(TableError, match="name says"):
        load_training_config(folder)
