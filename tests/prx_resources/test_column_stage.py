"""The driver with everything in this process; real workers are in `test_worker_pool.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prx_resources import column_stage, lance_table
from prx_resources.chunks import ChunkStore
from prx_resources.column_stage import ColumnStage, InlinePool, run
from prx_resources.columns import CAPTION_LABELS, CAPTIONS
from prx_resources.contract import JobResult, JobSpec, text_digest
from prx_resources.errors import EngineError, InvariantError

CAPTIONED = ColumnStage(CAPTIONS, ("image",), "set_aside IS NULL")
LABELLED = ColumnStage(CAPTION_LABELS, ("caption",), "set_aside IS NULL AND caption IS NOT NULL")


class FakeJob:
    def __init__(self, images: Any, stage: str = "captions", model: str = "m", **spec: Any) -> None:
        self.spec = JobSpec(stage, "s", images.lake.root, ingredients={"model": model}, **spec)
        self.id = "job-1"
        self.run_dir = Path(images.lake.root)
        self.said: list[str] = []

    def log(self, text: str) -> None:
        self.said.append(text)

    def plan(self, rows_due: int, identity: str, seconds: float | None) -> None:
        self.said.append(f"plan {rows_due}")

    def progress(self, done: int, total: int) -> None:
        self.said.append(f"{done}/{total}")

    def connect_ray(self) -> object:
        raise AssertionError("no work for Ray here")


class Captioner:
    """Captions by the image's bytes; remembers what it was asked, dies or fails on demand."""

    def __init__(self, dies_at: int | None = None, fails: tuple[str, ...] = ()) -> None:
        self.asked: list[int] = []
        self.dies_at = dies_at
        self.fails = fails

    def __call__(self, rows: pa.Table) -> pa.Table:
        if self.dies_at is not None and len(self.asked) >= self.dies_at:
            raise KeyboardInterrupt
        self.asked += rows["_rowid"].to_pylist()
        bad = [key in self.fails for key in rows["image_id"].to_pylist()]
        texts = [bytes(data).decode()[:12] for data in rows["image"].to_pylist()]
        count = rows.num_rows
        return pa.table(
            {
                "caption": [None if b else text for b, text in zip(bad, texts, strict=True)],
                "caption_model": ["m"] * count,
                "caption_gates": pa.nulls(count, pa.string()),
                "caption_error": ["loop: again and again" if b else None for b in bad],
            }
        )


def caption(images: Any, compute: Captioner, **spec: Any) -> JobResult:
    job = FakeJob(images, **spec)
    return run(job, CAPTIONED, lambda: compute, pool=InlinePool())


def chunk_keys(images: Any) -> list[str]:
    return images.lake.store.list("chunks")


def right(images: Any) -> bool:
    """Each caption starts with the bytes of its own image."""
    return all(
        text is not None and text == (key.removeprefix("s/") * 100)[:12]
        for key, (text,) in images.by_id("caption").items()
    )


def test_all_rows_then_nothing(images: Any) -> None:
    images.add(6)
    images.add(3)
    compute = Captioner()
    result = caption(images, compute)
    assert sorted(compute.asked) == list(range(9))
    assert right(images)
    assert (result.rows_in, result.rows_out, result.done, result.set_aside) == (9, 9, 9, {})
    assert all(check.passed for check in result.checks)
    assert chunk_keys(images) == []
    assert lance_table.holds(images.uri) == {}
    version, tag = images.latest.version, lance_table.published_version(images.uri)
    assert tag == version
    again = caption(images, compute)
    assert len(compute.asked) == 9
    assert (again.done, again.data_version) == (0, result.data_version)
    assert (images.latest.version, lance_table.published_version(images.uri)) == (version, tag)


def test_the_plan_is_said_first_and_progress_last(images: Any) -> None:
    images.add(6)
    job = FakeJob(images)
    run(job, CAPTIONED, Captioner, pool=InlinePool())
    assert job.said == ["plan 6", "4/6", "6/6"]


def test_only_new_rows_are_computed(images: Any) -> None:
    images.add(5)
    caption(images, Captioner())
    images.add(2)
    compute = Captioner()
    result = caption(images, compute)
    assert compute.asked == [5, 6]
    assert (result.rows_in, result.done) == (7, 2)


def test_rows_out_of_its_scope_are_left_alone(images: Any) -> None:
    images.add(4)
    stage = ColumnStage(CAPTIONS, ("image",), "image_id != 's/2'")
    result = run(FakeJob(images), stage, Captioner, pool=InlinePool())
    assert result.rows_in == 3
    assert images.by_id("caption_fp")["s/2"] == (None,)


def test_a_killed_run_goes_on_where_its_chunks_end(images: Any) -> None:
    images.add(10)
    with pytest.raises(KeyboardInterrupt):
        caption(images, Captioner(dies_at=8))
    before = {key: images.lake.store.get(key) for key in chunk_keys(images)}
    assert len(before) == 2
    assert set(images.by_id("caption_fp").values()) == {(None,)}
    compute = Captioner(dies_at=100)
    images.compact()
    images.publish()
    result = caption(images, compute)
    assert compute.asked == [8, 9]
    assert right(images)
    assert (result.rows_in, result.done) == (10, 2)
    assert chunk_keys(images) == []


def test_chunks_outlive_a_commit_that_failed(images: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    images.add(6)

    def dropped(*_: Any) -> int:
        return int(images.latest.version)

    with monkeypatch.context() as patch:
        patch.setattr(column_stage, "commit_columns", dropped)
        with pytest.raises(InvariantError, match="6 rows of captions"):
            caption(images, Captioner())
    assert len(chunk_keys(images)) == 2
    compute = Captioner()
    caption(images, compute)
    assert compute.asked == []
    assert right(images)
    assert chunk_keys(images) == []


def test_a_crash_between_commit_and_deletion_changes_nothing(
    images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    images.add(6)

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ChunkStore, "delete", crash)
        with pytest.raises(KeyboardInterrupt):
            caption(images, Captioner())
    version = images.latest.version
    compute = Captioner()
    caption(images, compute)
    assert compute.asked == []
    assert images.latest.version == version
    assert right(images)
    assert chunk_keys(images) == []


def test_failed_rows_are_data_and_are_tried_again_only_when_asked(images: Any) -> None:
    images.add(5)
    result = caption(images, Captioner(fails=("s/1", "s/4")))
    assert (result.rows_in, result.rows_out, result.set_aside) == (5, 3, {"loop": 2})
    failed = {check.name: check for check in result.checks}["failed_rows"]
    assert not failed.passed
    assert failed.warn
    for spec in ({}, {"retry_failed": ("refusal",)}):
        compute = Captioner()
        caption(images, compute, **spec)
        assert compute.asked == []
    compute = Captioner(fails=("s/4",))
    again = caption(images, compute, retry_failed=("refusal", "loop"))
    assert compute.asked == [1, 4]
    assert again.set_aside == {"loop": 1}
    assert again.data_version != result.data_version


def test_a_reason_for_which_no_row_failed_is_named_with_those_that_are_there(images: Any) -> None:
    images.add(3)
    caption(images, Captioner(fails=("s/1",)))
    job = FakeJob(images, retry_failed=("nonsense",))
    run(job, CAPTIONED, Captioner, pool=InlinePool())
    assert job.said[:2] == ["plan 0", "no row failed for nonsense; reasons here: loop"]


def test_a_retry_sees_failures_that_were_not_committed_yet(images: Any) -> None:
    images.add(8)
    with pytest.raises(KeyboardInterrupt):
        caption(images, Captioner(dies_at=4, fails=("s/1",)))
    compute = Captioner()
    caption(images, compute, retry_failed=("loop",))
    assert compute.asked == [1, 4, 5, 6, 7]
    assert right(images)


def test_another_identity_fills_only_gaps_until_redo(images: Any) -> None:
    images.add(3)
    caption(images, Captioner())
    images.add(1)
    compute = Captioner()
    result = caption(images, compute, model="new")
    assert compute.asked == [3]
    one = {check.name: check for check in result.checks}["one_identity"]
    assert not one.passed
    assert one.warn
    assert "3 rows" in one.description
    compute = Captioner()
    result = caption(images, compute, model="new", redo=True)
    assert compute.asked == [0, 1, 2]
    assert all(check.passed for check in result.checks)


def test_work_of_a_former_identity_replaces_nothing_but_on_redo(
    images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    images.add(6)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(column_stage, "commit_columns", die)
        with pytest.raises(KeyboardInterrupt):
            caption(images, Captioner(fails=("s/2",)), model="first")
    images.delete("image_id = 's/5'")
    images.publish()
    caption(images, Captioner(), model="second")
    images.add(1)
    before = images.by_id("caption", "caption_fp", "caption_error")
    again = Captioner()
    caption(images, again, model="first")
    after = images.by_id("caption", "caption_fp", "caption_error")
    assert len(again.asked) == 1
    assert {name: value for name, value in after.items() if before[name][1]} == {
        name: value for name, value in before.items() if value[1]
    }
    redone = Captioner()
    caption(images, redone, model="first", redo=True)
    # What was paid for stays paid.
    assert redone.asked == []
    assert len({fp for (fp,) in images.by_id("caption_fp").values()}) == 1


def test_a_label_follows_its_caption(images: Any) -> None:
    images.add(4)
    caption(images, Captioner())
    asked: list[str] = []

    def label(rows: pa.Table) -> pa.Table:
        asked.extend(rows["image_id"].to_pylist())
        return pa.table(
            {
                "label": ["visual"] * rows.num_rows,
                "label_confidence": [1.0] * rows.num_rows,
                "label_model": ["m"] * rows.num_rows,
                "label_error": pa.nulls(rows.num_rows, pa.string()),
            }
        )

    def label_all() -> JobResult:
        return run(FakeJob(images, "caption_labels"), LABELLED, lambda: label, pool=InlinePool())

    first = label_all()
    assert asked == ["s/0", "s/1", "s/2", "s/3"]
    assert label_all().data_version == first.data_version
    values = pa.table(
        {
            "_rowid": pa.array([2], pa.uint64()),
            "content_sha256": [f"{2:064d}"],
            "caption": ["another caption"],
            "caption_model": ["m"],
            "caption_gates": pa.nulls(1, pa.string()),
            "caption_error": pa.nulls(1, pa.string()),
            "caption_fp": ["x"],
        }
    )
    with images.lease() as held:
        lance_table.commit_columns(images.uri, CAPTIONS, values, held)
    images.publish()
    asked.clear()
    result = label_all()
    assert asked == ["s/2"]
    assert images.by_id("label_input")["s/2"] == (text_digest("another caption"),)
    assert result.data_version != first.data_version


def test_a_value_that_is_no_number_counts_as_written(images: Any) -> None:
    images.add(3)
    caption(images, Captioner())

    class Unsure:
        def __call__(self, rows: pa.Table) -> pa.Table:
            count = rows.num_rows
            return pa.table(
                {
                    "label": ["visual"] * count,
                    "label_confidence": pa.array([float("nan")] * count, pa.float32()),
                    "label_model": ["m"] * count,
                    "label_error": pa.nulls(count, pa.string()),
                }
            )

    job = FakeJob(images, "caption_labels")
    assert run(job, LABELLED, Unsure, pool=InlinePool()).rows_out == 3
    assert run(job, LABELLED, Unsure, pool=InlinePool()).done == 0


def test_rows_that_come_meanwhile_are_the_next_runs(images: Any) -> None:
    images.add(4)

    class Slow(Captioner):
        def __call__(self, rows: pa.Table) -> pa.Table:
            images.add(2)
            return super().__call__(rows)

    result = caption(images, Slow())
    assert (result.rows_in, result.rows_out) == (4, 4)
    assert all(check.passed for check in result.checks)
    compute = Captioner()
    assert caption(images, compute).rows_in == 6
    assert compute.asked == [4, 5]


def test_partial_commits_let_others_see_work_early(images: Any) -> None:
    images.add(12)
    done: list[int] = []

    class Watching(Captioner):
        def __call__(self, rows: pa.Table) -> pa.Table:
            done.append(lance_table.open_published(images.uri).count_rows("caption_fp IS NOT NULL"))
            return super().__call__(rows)

    run(FakeJob(images), CAPTIONED, Watching, pool=InlinePool(), commit_every_s=0)
    assert done == [0, 4, 8]
    assert right(images)


def test_a_partial_commit_gives_way_to_another_writer(images: Any) -> None:
    images.add(8)

    class Blocked(Captioner):
        def __call__(self, rows: pa.Table) -> pa.Table:
            holders.append(images.lease("compaction"))
            holders[-1].__enter__()
            return super().__call__(rows)

    class OneByOne(InlinePool):
        def map(self, *args: Any) -> Iterator[int]:
            for rows in super().map(*args):
                yield rows
                holders.pop().__exit__(None, None, None)

    holders: list[Any] = []
    run(FakeJob(images), CAPTIONED, Blocked, pool=OneByOne(), commit_every_s=0)
    assert right(images)


def test_an_engine_that_cant_start_says_why(images: Any) -> None:
    images.add(2)

    def broken() -> Captioner:
        raise OSError("no such weights")

    with pytest.raises(EngineError, match="OSError: no such weights"):
        run(FakeJob(images), CAPTIONED, broken, pool=InlinePool())
    assert lance_table.holds(images.uri) == {}


def test_an_answer_of_another_shape_is_refused(images: Any) -> None:
    images.add(2)

    def short(rows: pa.Table) -> pa.Table:
        return Captioner()(rows).slice(1)

    with pytest.raises(InvariantError, match="answered 1 rows"):
        run(FakeJob(images), CAPTIONED, lambda: short, pool=InlinePool())
    assert chunk_keys(images) == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 5)),
        st.tuples(st.just("delete"), st.integers(0, 12)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("die"), st.integers(0, 8)),
        st.tuples(st.just("run"), st.just(0)),
    ),
    max_size=7,
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_no_row_is_paid_twice(new_images: Callable[[], Any], steps: list[tuple[str, int]]) -> None:
    """Whatever happens between runs, each row is computed once, and all end as if undisturbed."""
    images = new_images()
    images.add(6)
    asked: list[int] = []
    for what, number in [*steps, ("run", 0)]:
        if what == "add":
            images.add(number)
        elif what == "delete":
            images.delete(f"image_id = 's/{number}'")
            images.publish()
        elif what == "compact":
            images.compact()
            images.publish()
        else:
            compute = Captioner(dies_at=number if what == "die" else None)
            try:
                caption(images, compute)
            except KeyboardInterrupt:
                assert what == "die"
            asked += compute.asked
    assert len(asked) == len(set(asked))
    assert right(images)
    assert chunk_keys(images) == []
