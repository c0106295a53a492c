"""A small image table to play with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from prx_resources import lance_table
from prx_resources.lake import Lake
from prx_resources.lease import Lease, lease


class Images:
    """The table of source `s` in a lake of its own."""

    def __init__(self, root: Path) -> None:
        self.lake = Lake(str(root))
        self.uri = self.lake.images_uri("s")
        self._next = 0
        lance_table.create(self.uri, chunk_rows={"": 4}, target_fragment_rows=100)

    @contextmanager
    def lease(self, holder: str = "test") -> Iterator[Lease]:
        with lease(self.lake.store, "images/s", holder, wait_s=5) as held:
            yield held

    def rows(self, numbers: range, *, file: str = "f", content: str = "") -> pa.RecordBatch:
        count = len(numbers)
        return pa.RecordBatch.from_pydict(
            {
                "image_id": [f"s/{n}" for n in numbers],
                "source_file": [file] * count,
                "source_fp": ["fp"] * count,
                "source_row": list(range(count)),
                "content_sha256": [f"{content}{n:064d}" for n in numbers],
                "image": [f"{content}{n}".encode() * 100 for n in numbers],
                "bytes": [len(f"{content}{n}") * 100 for n in numbers],
                "original_caption": [f"caption {n}" for n in numbers],
            }
        )

    def write(self, *batches: pa.RecordBatch) -> list[str]:
        return lance_table.write_fragment(self.uri, lance_table.image_schema(), batches)

    def add(self, count: int, *, file: str = "f") -> int:
        numbers = range(self._next, self._next + count)
        self._next += count
        with self.lease() as held:
            version = lance_table.commit_append(
                self.uri, self.write(self.rows(numbers, file=file)), held
            )
            return lance_table.publish(self.uri, version, held)

    def publish(self) -> None:
        with self.lease() as held:
            lance_table.publish(self.uri, self.latest.version, held)

    def delete(self, where: str) -> None:
        self.latest.delete(where)

    def compact(self) -> None:
        self.latest.optimize.compact_files(
            target_rows_per_fragment=1000, materialize_deletions_threshold=0.0
        )

    @property
    def latest(self) -> lance.LanceDataset:
        return lance.dataset(self.uri)

    def by_id(self, *columns: str) -> dict[str, tuple[object, ...]]:
        table = self.latest.to_table(columns=["image_id", *columns])
        return {row["image_id"]: tuple(row[name] for name in columns) for row in table.to_pylist()}


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return Images(tmp_path / "lake")


@pytest.fixture
def new_images(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Makes a fresh table per call: for property tests, whose examples share their fixtures."""
    return lambda: Images(tmp_path_factory.mktemp("lake"))
