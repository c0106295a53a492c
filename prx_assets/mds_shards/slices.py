"""The unit of work: the rows of one shard of one part of one leaf, from the table to the lake."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import Any

import lance
from PIL import Image

from prx_assets.image.decode import DecodeError, decode
from prx_assets.mds_shards.resize import encode, resize
from prx_assets.mds_shards.spec import COLUMNS
from prx_resources import lance_table
from prx_resources.contract import Json, canonical_json, text_digest
from prx_resources.errors import InvariantError
from prx_resources.lake import Lake
from prx_resources.mds_format import HASH, encode_shard, read_sample
from prx_resources.mds_parts import SLICES, Failure, put_same
from prx_resources.object_store import ObjectStore

_BUDGET_BYTES = 32 << 20  # every core of a machine runs a slice
_READS = ("image_id", "content_sha256", "caption", "width", "height")


@dataclass(frozen=True)
class Slice:
    """What a worker must know to write one shard.

    Attributes:
        lake: Root of the lake.
        source: The source's name.
        version: Version of the image table.
        folder: Key prefix of the part.
        number: The shard's number in the part.
        row_ids: Rows, in the order of the samples.
        width: The bucket's width in pixels.
        height: The bucket's height in pixels.
        quality: JPEG quality.
        max_pixels: Images with more pixels fail.
    """

    lake: str
    source: str
    version: int
    folder: str
    number: int
    row_ids: tuple[int, ...]
    width: int
    height: int
    quality: int
    max_pixels: int

    @property
    def basename(self) -> str:
        """Name of the shard's file in the part."""
        return f"shard.{self.number:05d}.mds"


@dataclass(frozen=True)
class Written:
    """A finished slice.

    Attributes:
        folder: Key prefix of the part.
        number: The shard's number in the part.
        shard: Streaming's description of the shard; None if every row failed.
        samples: (image_id, content_sha256, caption digest) of each sample, in order.
        failures: Rows that could not be exported.
    """

    folder: str
    number: int
    shard: Json
    samples: tuple[tuple[str, str, str], ...]
    failures: tuple[Failure, ...]


def write_slice(task: Slice) -> Written:
    """Writes one shard where it finally lies and reads it back.

    A slice that an earlier run finished is verified again and taken as it is.

    Raises:
        InvariantError: The shard doesn't read back as what was written.
        ConflictError: Another writer left a different shard in this place.
    """
    store = Lake(task.lake).store
    note = f"{task.folder}/{SLICES}/{task.number:05d}.json"
    finished = _finished(store, note, task)
    if finished is None:
        finished = _write(store, task)
        store.put_if_absent(note, canonical_json(_to_json(finished)).encode())
    return finished


def _write(store: ObjectStore, task: Slice) -> Written:
    samples: list[dict[str, Any]] = []
    failures = []
    ds = lance.dataset(Lake(task.lake).images_uri(task.source), version=task.version)
    for batch in lance_table.read_images(ds, task.row_ids, _READS, _BUDGET_BYTES):
        for row in batch.to_pylist():
            try:
                samples.append(_sample(task, row))
            except DecodeError as error:
                failures.append(Failure(row["image_id"], row["content_sha256"], error.reason))
    if len(samples) + len(failures) != len(task.row_ids):
        raise InvariantError(
            f"{len(task.row_ids)} rows were asked for, {len(samples) + len(failures)} came",
            where=f"{task.source} version {task.version}",
            fix="run it again",
        )
    shard, data = encode_shard(COLUMNS, samples, task.basename) if samples else (None, b"")
    if shard is not None:
        put_same(store, f"{task.folder}/{task.basename}", data)
        _verify(store, task, shard)
    keys = tuple(
        (sample["id"], sample["content_sha256"], text_digest(sample["caption"]))
        for sample in samples
    )
    return Written(task.folder, task.number, shard, keys, tuple(failures))


def _sample(task: Slice, row: dict[str, Any]) -> dict[str, Any]:
    decoded = decode(row["image"], max_pixels=task.max_pixels)
    if (decoded.width, decoded.height) != (row["width"], row["height"]):
        # The bucket was chosen by the table's numbers: another size would be distorted.
        raise DecodeError(
            f"size_changed: decodes to {decoded.width}x{decoded.height},"
            f" the table says {row['width']}x{row['height']}"
        )
    return {
        "image": encode(resize(decoded.rgb, task.width, task.height), task.quality),
        "caption": row["caption"],
        "width": task.width,
        "height": task.height,
        "original_width": row["width"],
        "original_height": row["height"],
        "id": row["image_id"],
        "source": task.source,
        "content_sha256": row["content_sha256"],
    }


def _verify(store: ObjectStore, task: Slice, shard: Json) -> None:
    key = f"{task.folder}/{task.basename}"
    data = store.get(key)
    raw = shard["raw_data"]
    if len(data) != raw["bytes"] or hashlib.sha256(data).hexdigest() != raw["hashes"][HASH]:
        raise _broken("a shard doesn't read back as it was written", key)
    for index in range(shard["samples"]):
        where = f"{key} sample {index}"
        with Image.open(io.BytesIO(read_sample(shard, data, index)["image"])) as image:
            _verify_image(image, task, where)


def _verify_image(image: Image.Image, task: Slice, where: str) -> None:
    if image.format != "JPEG" or image.mode != "RGB" or image.size != (task.width, task.height):
        raise _broken(f"an exported image is {image.format} {image.mode} {image.size}", where)
    tables: Json = getattr(image, "quantization", None)
    if tables != quality_tables(task.quality):
        raise _broken(f"an exported image isn't of quality {task.quality}", where)


def quality_tables(quality: int) -> dict[int, list[int]]:
    """Returns the JPEG quantisation tables of a quality, as Pillow reads them from a file."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG", quality=quality)
    with Image.open(buffer) as image:
        tables: dict[int, list[int]] = getattr(image, "quantization", {})
    return tables


def _broken(what: str, where: str) -> InvariantError:
    return InvariantError(what, where=where, fix="check the disk and memory, then run it again")


def _finished(store: ObjectStore, note: str, task: Slice) -> Written | None:
    try:
        data = json.loads(store.get(note))
        written = Written(
            task.folder,
            task.number,
            data["shard"],
            tuple((image_id, content, caption) for image_id, content, caption in data["samples"]),
            tuple(Failure(*failure) for failure in data["failures"]),
        )
        if written.shard is not None:
            _verify(store, task, written.shard)
    except (KeyError, InvariantError):
        return None
    return written


def _to_json(written: Written) -> Json:
    failures = [[f.image_id, f.content_sha256, f.reason] for f in written.failures]
    return {"shard": written.shard, "samples": written.samples, "failures": failures}
