from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from prx_assets.compacted_images import job as compacted
from prx_assets.compacted_images.compaction import inline
from prx_assets.compacted_images.spec import CHECKS, CompactedImagesSpec
from prx_assets.runtime import Job
from prx_resources import lance_table
from prx_resources.contract import JobResult, JobSpec
from prx_resources.errors import BusyError, ConflictError, InvariantError, UnknownError
from prx_resources.lake import Lake
from prx_resources.lease import lease

TARGET = 20


class Table:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = Lake(str(root))
        self.uri = self.lake.images_uri("s")
        self.rows = 0
        lance_table.create(self.uri, chunk_rows={"": 4}, target_fragment_rows=TARGET)

    def add(self, count: int) -> None:
        numbers = range(self.rows, self.rows + count)
        self.rows += count
        batch = pa.RecordBatch.from_pydict(
            {
                "image_id": [f"s/{n}" for n in numbers],
                "source_file": [f"{n}.jpg" for n in numbers],
                "source_fp": ["fp"] * count,
                "source_row": [0] * count,
                "content_sha256": [f"{n:064d}" for n in numbers],
                "image": [f"{n}".encode() * 50 for n in numbers],
                "bytes": [len(f"{n}") * 50 for n in numbers],
            }
        )
        with lease(self.lake.store, "images/s", "ingest") as held:
            fragments = lance_table.write_fragment(self.uri, lance_table.image_schema(), [batch])
            version = lance_table.commit_append(self.uri, fragments, held)
            lance_table.publish(self.uri, version, held)

    def compact(self, **params: float) -> JobResult:
        spec = CompactedImagesSpec(**{"keep_hours": 0.0, **params})
        jobspec = JobSpec("compacted_images", "s", self.lake.root, params=spec.params)
        return compacted.work(Job(jobspec, self.root, "job-1"))

    def fragments(self) -> list[int]:
        ds = lance_table.open_latest(self.uri)
        return [part.count_rows() for part in ds.get_fragments()]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "lake")


def test_small_fragments_become_one_and_nothing_else_changes(table: Table) -> None:
    for count in (15, 3, 3, 3, 3):
        table.add(count)
    ds = lance_table.open_published(table.uri)
    before = ds.to_table(columns=["image_id", "content_sha256"], with_row_id=True)
    version = lance_table.ingest_data_version(ds)
    result = table.compact()
    assert table.fragments() == [15, 12]
    assert (result.done, result.rows_in, result.rows_out) == (12, 27, 27)
    assert result.data_version == version
    assert all(check.passed for check in result.checks)
    assert {check.name for check in result.checks} == {name for name, _, _ in CHECKS}
    after = lance_table.open_published(table.uri)
    assert after.to_table(columns=["image_id", "content_sha256"], with_row_id=True) == before
    (images,) = lance_table.read_images(after, list(range(27)))
    assert images["image"].to_pylist() == [f"{n}".encode() * 50 for n in range(27)]


def test_a_second_run_leaves_everything_as_it_is(table: Table) -> None:
    for count in (3, 3, 6):
        table.add(count)
    table.compact()
    version = lance_table.open_latest(table.uri).version
    result = table.compact()
    assert result.done == 0
    assert lance_table.open_latest(table.uri).version == version
    assert lance_table.published_version(table.uri) == version


def test_too_few_small_fragments_wait_but_are_indexed(table: Table) -> None:
    table.add(15)
    table.add(3)
    table.compact()
    assert table.fragments() == [15, 3]
    ds = lance_table.open_published(table.uri)
    for column in compacted.INDEXED:
        assert ds.stats.index_stats(f"{column}_idx")["num_unindexed_rows"] == 0
    assert "ScalarIndexQuery" in ds.scanner(filter="image_id = 's/16'").explain_plan()
    assert ds.count_rows("image_id = 's/16'") == 1


def test_deleted_rows_lose_their_bytes(table: Table) -> None:
    table.add(18)
    lance_table.open_latest(table.uri).delete("image_id < 's/14'")
    result = table.compact()
    ds = lance_table.open_published(table.uri)
    (part,) = ds.get_fragments()
    assert part.num_deletions == 0
    assert part.physical_rows == result.rows_out == ds.count_rows()
    assert result.metadata["deleted_rows"].value == 0


def test_old_versions_go_but_held_ones_stay(table: Table) -> None:
    for _ in range(4):
        table.add(3)
    held = lance_table.published_version(table.uri)
    assert held is not None
    with lance_table.hold(table.uri, held, "reader"):
        result = table.compact()
        left = {entry["version"] for entry in lance_table.open_latest(table.uri).versions()}
        assert left == {held, lance_table.published_version(table.uri)}
        assert result.metadata["held_versions"].value == {"reader": held}
    later = table.compact()
    assert later.metadata["versions"].value == 1


def test_young_versions_stay(table: Table) -> None:
    table.add(3)
    table.add(3)
    before = {entry["version"] for entry in lance_table.open_latest(table.uri).versions()}
    table.compact(keep_hours=1)
    assert before <= {e["version"] for e in lance_table.open_latest(table.uri).versions()}


def test_a_table_without_rows_is_fine(table: Table) -> None:
    with lease(table.lake.store, "images/s", "ingest") as held:
        ds = lance_table.open_latest(table.uri)
        lance_table.publish(table.uri, int(ds.version), held)
    result = table.compact()
    assert (result.done, result.rows_in, result.rows_out) == (0, 0, 0)


def test_it_waits_for_whoever_writes(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.add(3)
    monkeypatch.setattr(compacted, "_WAIT_S", 0)
    with (
        lease(table.lake.store, "images/s", "captions-job"),
        pytest.raises(BusyError, match="captions-job is writing"),
    ):
        table.compact()


def test_a_source_without_a_table_says_what_to_do(tmp_path: Path) -> None:
    spec = JobSpec("compacted_images", "s", str(tmp_path), params=CompactedImagesSpec().params)
    with pytest.raises(UnknownError, match="materialize raw_images"):
        compacted.work(Job(spec, tmp_path, "job-1"))


def test_a_write_without_the_lease_is_a_conflict_and_loses_nothing(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in (3, 3, 6):
        table.add(count)

    def raced(ds: object, tasks: object) -> object:
        results = inline(ds, tasks)  # type: ignore[arg-type]
        lance_table.open_latest(table.uri).delete("image_id = 's/1'")
        return results

    monkeypatch.setattr(compacted, "inline", raced)
    with pytest.raises(ConflictError, match="during compaction"):
        table.compact()
    assert lance_table.open_latest(table.uri).count_rows() == 11


def test_a_rewrite_that_lost_rows_is_not_committed(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in (3, 3, 6):
        table.add(count)
    lance_table.open_latest(table.uri)

    class Short:
        def __init__(self, result: object) -> None:
            self.original_fragments = result.original_fragments  # type: ignore[attr-defined]
            self.new_fragments = result.new_fragments[:0]  # type: ignore[attr-defined]

    monkeypatch.setattr(
        compacted, "inline", lambda ds, tasks: [Short(entry) for entry in inline(ds, tasks)]
    )
    with pytest.raises(InvariantError, match="12 rows into 0"):
        table.compact()
    assert table.fragments() == [3, 3, 6]


@pytest.mark.ray
def test_several_tasks_run_on_ray(table: Table, connecting_ray_home: Path) -> None:
    for count in (6, 6, 15, 6, 6):
        table.add(count)
    spec = JobSpec("compacted_images", "s", table.lake.root, params=CompactedImagesSpec().params)
    result = compacted.work(Job(spec, table.root, "job-1", home=connecting_ray_home))
    assert sorted(table.fragments()) == [12, 12, 15]
    assert result.done == 24
