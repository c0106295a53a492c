from __future__ import annotations

import hashlib
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from prx_assets.duplicates import job
from prx_assets.duplicates.job import read_notes, work
from prx_assets.duplicates.spec import DuplicatesSpec
from prx_assets.runtime import Job
from prx_resources import lance_table
from prx_resources.contract import JobResult, JobSpec
from prx_resources.errors import InvariantError, UnknownError
from prx_resources.lake import Lake

SOURCES = (("a", 0), ("b", 1))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake whose published tables are the newest ones."""

    def open_published(uri: str) -> lance.LanceDataset:
        if not Path(uri).exists():
            raise UnknownError("no table", where=uri)
        return lance.dataset(uri)

    monkeypatch.setattr(lance_table, "open_published", open_published)
    return Lake(str(tmp_path))


def put(lake: Lake, source: str, *rows: tuple[str, int | None, int]) -> None:
    """Adds rows of (key, hash, pixels) to a source's table."""
    hashes = [phash for _, phash, _ in rows]
    table = pa.table(
        {
            "image_id": [f"{source}/{key}" for key, _, _ in rows],
            "phash": pa.array(hashes, pa.uint64()),
            "signature": pa.array(
                [None if h is None else bytes([h % 256]) * 48 for h in hashes], pa.binary(48)
            ),
            "phash_flat": pa.array([None if h is None else False for h in hashes], pa.bool_()),
            "phash_fp": pa.array([None if h is None else "fp" for h in hashes], pa.string()),
            "content_sha256": [
                hashlib.sha256(f"{source}/{key}".encode()).hexdigest() for key, _, _ in rows
            ],
            "pixels": pa.array([pixels for _, _, pixels in rows], pa.int64()),
            "bytes": pa.array([1] * len(rows), pa.int64()),
            "set_aside": pa.array([None] * len(rows), pa.string()),
        }
    )
    lance.write_dataset(table, lake.images_uri(source), mode="append")


def run(lake: Lake, tmp_path: Path) -> JobResult:
    spec = DuplicatesSpec(SOURCES)
    job_spec = JobSpec("duplicates", "all", lake.root, spec.ingredients(), spec.params)
    return work(Job(job_spec, tmp_path, "job-1"))


def test_copies_are_found_across_sources_and_uncovered_rows_are_counted(
    lake: Lake, tmp_path: Path
) -> None:
    put(lake, "a", ("x", 5, 100), ("y", 6, 100), ("z", None, 100))
    put(lake, "b", ("x2", 5, 100))
    result = run(lake, tmp_path)
    table = lance.dataset(lake.duplicates_uri).to_table(columns=["image_id", "group", "rank"])
    assert table.to_pylist() == [
        {"image_id": "a/x", "group": "a/x", "rank": 1},  # the other's priority is higher
        {"image_id": "a/y", "group": None, "rank": 0},
        {"image_id": "b/x2", "group": "a/x", "rank": 0},
    ]
    assert (result.rows_in, result.rows_out, result.set_aside) == (4, 3, {"no_hash": 1})
    assert result.metadata["groups_across_sources"].value == 1
    assert all(check.passed for check in result.checks)
    notes = read_notes(lake.duplicates_uri)
    assert notes is not None
    assert notes["sources"]["a"]["rows"] == 2
    assert notes["data_version"] == result.data_version


def test_nothing_new_writes_nothing(lake: Lake, tmp_path: Path) -> None:
    put(lake, "a", ("x", 5, 100))
    first = run(lake, tmp_path)
    version = lance.dataset(lake.duplicates_uri).version
    lance.dataset(lake.images_uri("a")).update_config({"note": "another version, same rows"})
    again = run(lake, tmp_path)
    assert (first.done, again.done) == (1, 0)
    assert again.data_version == first.data_version
    assert lance.dataset(lake.duplicates_uri).version == version


def test_a_new_row_gives_a_new_version(lake: Lake, tmp_path: Path) -> None:
    put(lake, "a", ("x", 5, 100))
    first = run(lake, tmp_path)
    put(lake, "a", ("y", 5, 300))
    second = run(lake, tmp_path)
    assert second.data_version != first.data_version
    assert lance.dataset(lake.duplicates_uri).count_rows("rank = 1 AND image_id = 'a/x'") == 1


def test_no_source_with_a_table_gives_an_empty_table(lake: Lake, tmp_path: Path) -> None:
    result = run(lake, tmp_path)
    assert (result.rows_in, result.rows_out) == (0, 0)
    assert lance.dataset(lake.duplicates_uri).count_rows() == 0
    assert run(lake, tmp_path).done == 0


def test_an_id_that_stands_twice_stops_the_job(lake: Lake, tmp_path: Path) -> None:
    put(lake, "a", ("x", 5, 100), ("x", 5, 100))
    with pytest.raises(InvariantError, match="twice"):
        run(lake, tmp_path)
    assert read_notes(lake.duplicates_uri) is None


def test_a_large_group_warns(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "LARGE_GROUP", 3)
    put(lake, "a", *((str(i), 5, 100) for i in range(3)))
    check = {c.name: c for c in run(lake, tmp_path).checks}["group_sizes"]
    assert check.warn
    assert not check.passed
