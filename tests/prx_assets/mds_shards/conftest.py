from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from prx_assets.mds_shards.job import work
from prx_assets.mds_shards.pool import InlinePool, Pool
from prx_assets.mds_shards.spec import STAGE, MdsShardsSpec
from prx_assets.runtime import Job
from prx_resources import lance_table
from prx_resources.columns import CAPTIONS
from prx_resources.contract import JobResult, JobSpec
from prx_resources.lake import Lake
from prx_resources.lease import lease

SOURCE = "cats"


def picture(width: int, height: int, seed: int = 0) -> bytes:
    """A smooth random JPEG."""
    small = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)
    buffer = io.BytesIO()
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    image.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def row(key: str, width: int, height: int, **other: Any) -> dict[str, Any]:
    """A row of the image table."""
    seed = int(hashlib.sha256(key.encode()).hexdigest()[:8], 16)
    image = picture(width, height, seed)
    values = {
        "image_id": f"{SOURCE}/{key}",
        "source_file": "file",
        "source_fp": "fp",
        "source_row": 0,
        "image": image,
        "format": "jpeg",
        "mode": "RGB",
        "width": width,
        "height": height,
        "pixels": width * height,
        "set_aside": None,
        "caption": f"caption of {key}",
        **other,
    }
    data = values["image"]
    return {**values, "bytes": len(data), "content_sha256": hashlib.sha256(data).hexdigest()}


@dataclass
class Source:
    """A lake with one source's image table and runs of the export over it."""

    root: Path
    params: dict[str, Any] = field(default_factory=dict)
    runs: int = 0

    @property
    def lake(self) -> Lake:
        return Lake(str(self.root / "lake"))

    @property
    def spec(self) -> JobSpec:
        stage = MdsShardsSpec(**self.params)
        return JobSpec(STAGE, SOURCE, self.lake.root, stage.ingredients(), stage.params)

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        """Adds rows to the published table."""
        uri = self.lake.images_uri(SOURCE)
        schema = lance_table.image_schema()
        if not lance_table.exists(uri):
            lance_table.create(uri, chunk_rows={"": 4}, target_fragment_rows=1000)
        names = [
            "image_id",
            "source_file",
            "source_fp",
            "source_row",
            "content_sha256",
            "format",
            "mode",
            "width",
            "height",
            "pixels",
            "bytes",
            "set_aside",
            "caption",
        ]
        fields = [*(schema.field(name) for name in names), pa.field("image", pa.large_binary())]
        table = pa.Table.from_pylist(list(rows), schema=pa.schema(fields))
        fragments = lance_table.write_fragment(uri, schema, table.to_batches())
        with lease(self.lake.store, f"images/{SOURCE}", "test") as held:
            version = lance_table.commit_append(uri, fragments, held)
            lance_table.publish(uri, version, held)

    def recaption(self, image_id: str, caption: str) -> None:
        """Gives one row another caption."""
        uri = self.lake.images_uri(SOURCE)
        values = lance_table.open_latest(uri).to_table(
            columns=["content_sha256"],
            filter=f"image_id = {lance_table.quote(image_id)}",
            with_row_id=True,
        )
        new = {"caption": caption, "caption_model": "test", "caption_fp": "test"}
        for column in CAPTIONS.fields:
            values = values.append_column(column, pa.array([new.get(column.name)], column.type))
        with lease(self.lake.store, f"images/{SOURCE}", "test") as held:
            version = lance_table.commit_columns(uri, CAPTIONS, values, held)
            lance_table.publish(uri, version, held)

    def export(self, pool: Pool | None = None, **spec: Any) -> JobResult:
        """Runs the job in this process."""
        self.runs += 1
        run_dir = self.root / f"run-{self.runs}"
        run_dir.mkdir()
        job = Job(JobSpec(**{**vars(self.spec), **spec}), run_dir, f"run-{self.runs}")
        return work(job, pool=pool or InlinePool())

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Every file of the lake's MDS tree: when it was written, and its bytes."""
        top = self.root / "lake" / "mds"
        return {
            path.relative_to(top).as_posix(): (path.stat().st_mtime_ns, path.read_bytes())
            for path in sorted(top.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


@pytest.fixture
def make_row() -> Callable[..., dict[str, Any]]:
    return row
