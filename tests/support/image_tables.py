"""A source's image table for tests of stages: rows without going through ingest."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping

import pyarrow as pa
from PIL import Image

from prx_resources import lance_table
from prx_resources.lake import Lake
from prx_resources.lease import lease


def png(colour: str, size: tuple[int, int] = (400, 400)) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, colour).save(data, "PNG")
    return data.getvalue()


def add_images(lake: Lake, source: str, files: Mapping[str, bytes], chunk_rows: int = 2) -> None:
    """Appends one row per file and publishes; rows whose bytes aren't an image say 400x400."""
    uri = lake.images_uri(source)
    lance_table.create(uri, chunk_rows={"": chunk_rows}, target_fragment_rows=100)
    rows = [_row(source, key, data) for key, data in files.items()]
    fields = [field for field in lance_table.image_schema() if field.name in rows[0]]
    schema = pa.schema([f if f.name != "image" else pa.field("image", pa.binary()) for f in fields])
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    fragments = lance_table.write_fragment(uri, lance_table.image_schema(), [batch])
    with lease(lake.store, f"images/{source}", "test") as held:
        lance_table.publish(uri, lance_table.commit_append(uri, fragments, held), held)


def _row(source: str, key: str, data: bytes) -> dict[str, object]:
    try:
        width, height = Image.open(io.BytesIO(data)).size
    except OSError:
        width, height = 400, 400
    return {
        "image_id": f"{source}/{key}",
        "source_file": key,
        "source_fp": "1",
        "source_row": 0,
        "image": data,
        "content_sha256": hashlib.sha256(data).hexdigest(),
        "width": width,
        "height": height,
        "pixels": width * height,
        "bytes": len(data),
    }


def rows(lake: Lake, source: str, *columns: str) -> dict[str, dict[str, object]]:
    """Returns the published table's values of `columns` by the part of image_id after the slash."""
    table = lance_table.open_published(lake.images_uri(source)).to_table(
        columns=["image_id", *columns]
    )
    return {row.pop("image_id").split("/", 1)[1]: row for row in table.to_pylist()}
