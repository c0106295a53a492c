"""Small sources and a way to run the job in this process."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import pytest
from PIL import Image

from prx_assets.raw_images.job import work
from prx_assets.raw_images.readers import InlineReaders, Readers
from prx_assets.raw_images.spec import STAGE, ColumnMap, RawImagesSpec
from prx_assets.runtime import Job
from prx_resources import lance_table
from prx_resources.contract import JobResult, JobSpec

DEFAULT_GLOBS = {"folder": "**/*", "parquet": "**/*.parquet", "webdataset": "**/*.tar"}


def picture(seed: int, side: int = 16, kind: str = "JPEG") -> bytes:
    """Returns a decodable image; another seed, other bytes."""
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), (40, 90, 160)).save(buffer, kind)
    return buffer.getvalue() + seed.to_bytes(4, "big")


class Source:
    """A source in a temporary folder with a lake beside it."""

    name = "pets"

    def __init__(self, root: Path) -> None:
        self.folder = root / "source"
        self.folder.mkdir()
        self.lake = root / "lake"
        self.run_dir = root / "run"
        self.run_dir.mkdir()

    def spec(
        self,
        kind: str = "folder",
        columns: ColumnMap = ColumnMap(),  # noqa: B008
        *,
        tuning: Mapping[str, Any] | None = None,
        redo: bool = False,
        retry_failed: tuple[str, ...] = (),
        **more: Any,
    ) -> JobSpec:
        """Returns the job's spec, as it arrives after a trip through JSON."""
        more = {"glob": DEFAULT_GLOBS[kind], "target_fragment_rows": 100, **more}
        spec = RawImagesSpec(
            kind=kind, uri=str(self.folder), columns=columns, chunk_rows={"": 4}, **more
        )
        made = JobSpec(
            STAGE,
            self.name,
            str(self.lake),
            spec.ingredients(),
            spec.params,
            tuning=dict(tuning or {}),
            redo=redo,
            retry_failed=retry_failed,
        )
        return JobSpec.from_json(json.loads(json.dumps(made.to_json())))

    def ingest(self, spec: JobSpec, readers: Readers | None = None) -> JobResult:
        """Runs the job in this process."""
        return work(Job(spec, self.run_dir), readers or InlineReaders())

    @property
    def uri(self) -> str:
        return f"{self.lake}/images/{self.name}.lance"

    def table(self) -> lance.LanceDataset:
        return lance_table.open_published(self.uri)

    def rows(self) -> list[dict[str, Any]]:
        """Returns the published rows, images as bytes, ordered by file and row."""
        table = self.table().scanner(blob_handling="all_binary").to_table()
        return sorted(table.to_pylist(), key=lambda row: (row["source_file"], row["source_row"]))

    def column(self, name: str) -> dict[str, Any]:
        """Returns the column's value by source file."""
        return {row["source_file"]: row[name] for row in self.rows()}


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


@pytest.fixture
def make_picture() -> Callable[..., bytes]:
    return picture
