from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import lance
import pytest
from PIL import Image
from streaming import StreamingDataset

from prx_assets.mds_shards.pool import InlinePool
from prx_assets.mds_shards.slices import Slice, Written, quality_tables, write_slice
from prx_resources import lance_table, mds_parts, mds_tree
from prx_resources.contract import JobResult, text_digest
from prx_resources.errors import ConflictError, InvariantError, UnknownError
from prx_resources.lease import lease

Row = Callable[..., dict[str, Any]]
SOURCE = "cats"


def live(source: Any) -> dict[tuple[str, str], list[str]]:
    """(level/ar) -> keys of the live samples, in order."""
    store = source.lake.store
    return {
        f"{leaf.level}/{leaf.ar}": [
            image_id.partition("/")[2]
            for image_id in mds_tree.live_samples(store, leaf)["image_id"].to_pylist()
        ]
        for leaf in mds_tree.live_leaves(store, SOURCE)
    }


def leaf_dir(source: Any, place: str) -> str:
    return str(source.lake.uri(f"{source.lake.mds_prefix(SOURCE, source.spec.row_fp)}/{place}"))


def passed(result: JobResult) -> dict[str, bool]:
    return {check.name: check.passed for check in result.checks}


def test_every_row_is_a_sample_or_has_a_reason(source: Any, make_row: Row) -> None:
    source.write(
        [
            make_row("square", 400, 400),
            make_row("tall", 384, 700),
            make_row("large", 900, 800),
            make_row("small", 300, 300),
            make_row("panorama", 900, 300),
            make_row("mute", 400, 400, caption=None),
            make_row("empty", 400, 400, caption=""),
            make_row("broken", 400, 400, image=b"no image", set_aside="decode"),
        ]
    )
    result = source.export()
    assert live(source) == {"1024/1.133": ["large"], "512/0.571": ["tall"], "512/1.000": ["square"]}
    assert (result.rows_in, result.rows_out, result.done) == (8, 3, 3)
    assert result.set_aside == {
        "too_small": 1,
        "outside_aspect": 1,
        "no_caption": 2,
        "decode": 1,
    }
    assert passed(result) == {
        "rows_accounted": True,
        "shards_verified": True,
        "bucket_images": True,
    }
    buckets = {entry["w/h"]: entry for entry in result.metadata["buckets"].value}
    assert buckets["0.571"] == {"w/h": "0.571", "512": 1, "1024": 0, "2048": 0, "4096": 0}


def test_streaming_reads_a_leaf_of_two_parts(source: Any, make_row: Row) -> None:
    source.write([make_row("one", 400, 400), make_row("two", 420, 400)])
    source.export()
    source.write([make_row("three", 500, 500)])
    source.export()
    data = StreamingDataset(local=leaf_dir(source, "512/1.000"), batch_size=1)
    samples = [data[index] for index in range(len(data))]
    assert [sample["id"] for sample in samples] == ["cats/one", "cats/two", "cats/three"]
    last = samples[2]
    assert last["image"].mode == "RGB"
    assert last["image"].size == (last["width"], last["height"]) == (512, 512)
    assert (last["original_width"], last["original_height"]) == (500, 500)
    assert (last["caption"], last["source"]) == ("caption of three", "cats")
    assert last["image"].quantization == quality_tables(92)
    assert "exif" not in last["image"].info


# Streaming looks for a shard by opening it without closing it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_streaming_downloads_a_leaf_of_two_parts(source: Any, make_row: Row, tmp_path: Any) -> None:
    source.write([make_row("one", 400, 400)])
    source.export()
    source.write([make_row("two", 400, 400)])
    source.export()
    data = StreamingDataset(
        remote=leaf_dir(source, "512/1.000"),
        local=str(tmp_path / "cache"),
        batch_size=1,
        validate_hash="sha256",
    )
    assert [data[index]["id"] for index in range(2)] == ["cats/one", "cats/two"]


def test_an_unchanged_table_writes_nothing_and_wants_no_workers(source: Any, make_row: Row) -> None:
    class NoPool:
        def run(self, tasks: Iterable[Slice]) -> Iterator[Written]:
            raise AssertionError("there was no work")

    source.write([make_row("one", 400, 400), make_row("two", 900, 900)])
    first = source.export()
    before = source.files()
    second = source.export(NoPool())
    assert source.files() == before
    assert (second.done, second.data_version) == (0, first.data_version)
    assert passed(second) == passed(first)


def test_new_rows_become_a_new_part_and_old_samples_keep_their_place(
    source: Any, make_row: Row
) -> None:
    source.write([make_row("one", 400, 400), make_row("other", 900, 900)])
    first = source.export()
    before = source.files()
    source.write([make_row("two", 410, 400)])
    second = source.export()
    after = source.files()
    assert second.done == 1
    assert second.data_version != first.data_version
    assert live(source)["512/1.000"] == ["one", "two"]
    index = f"{SOURCE}/{source.spec.row_fp}/512/1.000/index.json"
    assert {name for name in before if before[name] != after[name]} == {index}
    shards = json.loads(after[index][1])["shards"]
    assert [shard["raw_data"]["basename"] for shard in shards] == [
        "p0000/shard.00000.mds",
        "p0001/shard.00000.mds",
    ]


def test_a_new_caption_is_a_new_sample_beside_the_old_one(source: Any, make_row: Row) -> None:
    source.write([make_row("one", 400, 400), make_row("two", 400, 400)])
    source.export()
    source.recaption("cats/one", "a better caption")
    result = source.export()
    assert (result.rows_out, result.done) == (2, 1)
    assert result.metadata["superseded_samples"].value == 1
    (leaf,) = mds_tree.live_leaves(source.lake.store, SOURCE)
    samples = mds_tree.live_samples(source.lake.store, leaf)
    assert live(source)["512/1.000"] == ["one", "two", "one"]
    assert samples["caption_digest"].to_pylist()[2] == text_digest("a better caption")


def test_compaction_exports_nothing_again(source: Any, make_row: Row) -> None:
    source.write([make_row("one", 400, 400)])
    source.write([make_row("two", 400, 400)])
    first = source.export()
    ds = lance.dataset(source.lake.images_uri(SOURCE))
    ds.optimize.compact_files()
    with lease(source.lake.store, f"images/{SOURCE}", "test") as held:
        lance_table.publish(ds.uri, lance.dataset(ds.uri).version, held)
    second = source.export()
    assert (second.done, second.data_version) == (0, first.data_version)


def test_shards_hold_as_many_samples_as_fit_and_keep_the_rows_order(
    source: Any, make_row: Row
) -> None:
    source.params["shard_bytes"] = 2 * 60_000
    source.write([make_row(f"r{number}", 400, 400) for number in range(5)])
    source.export()
    leaf = next(mds_tree.live_leaves(source.lake.store, SOURCE))
    samples = mds_tree.live_samples(source.lake.store, leaf)
    assert samples["shard"].to_pylist() == [
        *["p0000/shard.00000.mds"] * 2,
        *["p0000/shard.00001.mds"] * 2,
        "p0000/shard.00002.mds",
    ]
    assert samples["index"].to_pylist() == [0, 1, 0, 1, 0]
    assert live(source)["512/1.000"] == [f"r{number}" for number in range(5)]
    data = StreamingDataset(local=leaf_dir(source, "512/1.000"), batch_size=1)
    assert [data[i]["id"] for i in range(5)] == samples["image_id"].to_pylist()
    shards = mds_tree.live_shards(source.lake.store, leaf)
    assert [shard.samples for shard in shards] == [2, 2, 1]


class Backwards(InlinePool):
    """Finishes the last slice first."""

    def run(self, tasks: Iterable[Slice]) -> Iterator[Written]:
        return map(write_slice, reversed(list(tasks)))


def test_the_order_of_samples_does_not_hang_on_which_slice_is_ready_first(
    source: Any, make_row: Row, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr("prx_assets.mds_shards.plan.PART_SHARDS", 2)
    source.params["shard_bytes"] = 60_000
    rows = [make_row(f"r{number}", 400, 400) for number in range(5)]
    source.write(rows)
    source.export(Backwards())
    other = type(source)(tmp_path / "other", dict(source.params))
    other.root.mkdir()
    other.write(rows)
    other.export()
    contents = [
        {name: data for name, (_, data) in each.files().items()} for each in (source, other)
    ]
    assert contents[0] == contents[1]
    assert live(source)["512/1.000"] == [f"r{number}" for number in range(5)]


class Crash(Exception):
    """Stands for kill -9."""


class Dying(InlinePool):
    """Dies after some slices."""

    def __init__(self, after: int) -> None:
        self.after = after

    def run(self, tasks: Iterable[Slice]) -> Iterator[Written]:
        for number, task in enumerate(tasks):
            if number == self.after:
                raise Crash
            yield write_slice(task)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_run_that_died_is_taken_up_where_it_stopped(
    source: Any, make_row: Row, after: int, tmp_path: Any
) -> None:
    source.params["shard_bytes"] = 60_000
    rows = [make_row("a", 400, 400), make_row("b", 400, 400), make_row("c", 900, 900)]
    rows.append(make_row("d", 400, 400))
    source.write(rows)
    with pytest.raises(Crash):
        source.export(Dying(after))
    kept = {name: stamp for name, (stamp, _) in source.files().items() if name.endswith(".mds")}
    assert len(kept) == after
    source.export()
    again = {name: stamp for name, (stamp, _) in source.files().items() if name in kept}
    assert again == kept
    other = type(source)(tmp_path / "other", dict(source.params))
    other.root.mkdir()
    other.write(rows)
    other.export()
    contents = [
        {name: data for name, (_, data) in each.files().items()} for each in (source, other)
    ]
    assert contents[0] == contents[1]


def test_the_rest_of_a_crash_that_fits_no_plan_is_removed(source: Any, make_row: Row) -> None:
    source.params["shard_bytes"] = 60_000
    source.write([make_row("a", 400, 400), make_row("b", 400, 400)])
    with pytest.raises(Crash):
        source.export(Dying(1))
    source.write([make_row("c", 400, 400)])
    source.export()
    assert live(source)["512/1.000"] == ["a", "b", "c"]
    folders = {name.split("/")[4] for name in source.files() if "/p0" in name}
    assert folders == {"p0001"}


def test_another_export_that_cleans_up_meanwhile_leaves_no_holes(
    source: Any, make_row: Row
) -> None:
    source.params["shard_bytes"] = 60_000
    source.write([make_row("a", 400, 400)])
    source.export()
    source.write([make_row("b", 400, 400), make_row("c", 400, 400)])

    class Disturbed(InlinePool):
        def run(self, tasks: Iterable[Slice]) -> Iterator[Written]:
            for written in super().run(tasks):
                store = source.lake.store
                (leaf,) = mds_tree.live_leaves(store, SOURCE)
                with lease(store, mds_parts.leaf_lease_name(leaf), "other") as held:
                    mds_parts.remove_leftovers(store, leaf, held)
                yield written

    with pytest.raises(ConflictError):
        source.export(Disturbed())
    assert live(source)["512/1.000"] == ["a"]
    assert all(passed(source.export()).values())
    assert live(source)["512/1.000"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("where", "step"),
    [
        ("mds_parts", "note_failures"),
        ("mds_parts", "finish_part"),
        ("mds_parts", "commit_parts"),
        ("mds_parts", "next_pointer"),
        ("mds_parts", "write_merged_index"),
        ("mds_parts", "remove_leftovers"),
    ],
)
def test_a_crash_at_any_step_of_the_commit_is_put_right_by_the_next_run(
    source: Any, make_row: Row, where: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write([make_row("a", 400, 400), make_row("b", 900, 900)])

    def die(*_: Any, **__: Any) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(f"prx_resources.{where}.{step}", die)
        with pytest.raises(Crash):
            source.export()
    result = source.export()
    assert live(source) == {"1024/1.000": ["b"], "512/1.000": ["a"]}
    assert passed(result) == {
        "rows_accounted": True,
        "shards_verified": True,
        "bucket_images": True,
    }
    for place in ("512/1.000", "1024/1.000"):
        assert len(StreamingDataset(local=leaf_dir(source, place), batch_size=1)) == 1
    assert not [name for name in source.files() if "/slices/" in name]


def test_a_row_that_no_longer_decodes_is_noted_once_and_tried_again_when_asked(
    source: Any, make_row: Row
) -> None:
    source.write(
        [
            make_row("good", 400, 400),
            make_row("bad", 400, 400, image=b"\xff\xd8\xff half a picture"),
            make_row("other-size", 401, 400, image=make_row("x", 400, 400)["image"]),
            make_row("alone", 900, 900, image=b"no image"),
        ]
    )
    first = source.export()
    assert (first.rows_out, first.set_aside, first.done) == (1, {"decode": 3}, 4)
    assert first.metadata["failed"].value == {
        "corrupt": 1,
        "size_changed": 1,
        "not_an_image": 1,
    }
    assert not [name for name in source.files() if "/1024/" in name]
    before = source.files()
    second = source.export()
    assert (second.set_aside, second.done) == ({"decode": 3}, 0)
    assert source.files() == before
    assert source.export(retry_failed=("corrupt",)).done == 1
    assert passed(second)["rows_accounted"]


def test_a_shard_that_went_missing_fails_its_check(source: Any, make_row: Row) -> None:
    source.write([make_row("a", 400, 400)])
    source.export()
    (shard,) = (source.root / "lake").rglob("*.mds")
    shard.write_bytes(shard.read_bytes()[:-1])
    assert not passed(source.export())["shards_verified"]
    shard.unlink()
    result = passed(source.export())
    assert not result["shards_verified"]
    assert not result["bucket_images"]


def test_lost_samples_are_never_committed(source: Any, make_row: Row) -> None:
    class Losing(InlinePool):
        def run(self, tasks: Iterable[Slice]) -> Iterator[Written]:
            for task in tasks:
                written = write_slice(task)
                yield Written(written.folder, written.number, written.shard, (), ())

    source.write([make_row("a", 400, 400)])
    with pytest.raises(InvariantError, match="1 rows were due, 0 samples"):
        source.export(Losing())
    assert live(source) == {}


def test_without_a_published_table_it_says_what_to_do(source: Any) -> None:
    with pytest.raises(UnknownError, match="raw_images"):
        source.export()


def test_another_quality_is_another_export(source: Any, make_row: Row) -> None:
    source.write([make_row("a", 400, 400)])
    first = source.export()
    source.params["quality"] = 80
    second = source.export()
    assert second.done == 1
    assert second.data_version != first.data_version
    assert len(list(mds_tree.live_leaves(source.lake.store, SOURCE))) == 2
    data = StreamingDataset(local=leaf_dir(source, "512/1.000"), batch_size=1)
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG", quality=80)
    assert data[0]["image"].quantization == Image.open(buffer).quantization


def test_a_run_killed_while_it_holds_the_lease_is_taken_up(source: Any, make_row: Row) -> None:
    source.write([make_row("a", 400, 400), make_row("b", 900, 900)])
    script = """
import os, sys
from pathlib import Path
from prx_assets.mds_shards.job import work
from prx_assets.mds_shards.pool import InlinePool
from prx_assets.runtime import Job
from prx_resources import mds_parts
from prx_resources.contract import JobSpec
import json

mds_parts.next_pointer = lambda *_, **__: os.kill(os.getpid(), 9)
spec = JobSpec.from_json(json.loads(sys.argv[1]))
work(Job(spec, Path(sys.argv[2]), "killed"), pool=InlinePool())
"""
    spec = json.dumps(source.spec.to_json())
    killed = subprocess.run([sys.executable, "-c", script, spec, str(source.root)], timeout=120)
    assert killed.returncode == -9
    assert live(source) == {}
    result = source.export()
    assert live(source) == {"1024/1.000": ["b"], "512/1.000": ["a"]}
    assert all(passed(result).values())
    parts = {name.split("/")[4] for name in source.files() if "/p0" in name}
    assert parts == {"p0000"}
