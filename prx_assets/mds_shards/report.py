"""What an export's run reports, read back from the lake: counts per bucket, parts, checks."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

from PIL import Image

from prx_assets.image.buckets import LEVELS, table
from prx_assets.mds_shards.census import Census, missing
from prx_assets.mds_shards.slices import quality_tables
from prx_resources import mds_parts, mds_tree
from prx_resources.contract import CheckOutcome, JobResult, Json, Meta
from prx_resources.lake import Lake
from prx_resources.mds_tree import Leaf, Shard

_HEAD_BYTES = 256 << 10

FAILED_ROW = "decode"
"""Reason for rows whose image could not be exported."""


def result(
    lake: Lake, source: str, export_fp: str, quality: int, census: Census, done: int
) -> JobResult:
    """Returns the run's result.

    Args:
        lake: The lake.
        source: The source's name.
        export_fp: Identity of the export.
        quality: JPEG quality of the export.
        census: The rows of the table.
        done: Rows that this run exported or failed to.
    """
    leaves = list(mds_tree.live_leaves(lake.store, source, export_fp))
    failed = mds_parts.failures(lake.store, lake.mds_prefix(source, export_fp))
    rows_out, reasons, lost = _fates(lake, leaves, census, failed)
    set_aside = census.set_aside + Counter({FAILED_ROW: reasons.total()})
    samples = sum(leaf.samples for leaf in leaves)
    size = sum(leaf.bytes for leaf in leaves)
    metadata = {
        "samples": Meta(samples, "int"),
        "superseded_samples": Meta(samples - rows_out, "int"),
        "buckets": Meta(bucket_table(leaves), "table"),
        "leaves": Meta(len(leaves), "int"),
        "parts": Meta(sum(len(leaf.parts) for leaf in leaves), "int"),
        "megabytes": Meta(round(size / 1e6, 1), "float"),
        "kilobytes_per_sample": Meta(round(size / 1e3 / samples, 1) if samples else 0.0, "float"),
        "failed": Meta(dict(reasons), "json"),
        "export": Meta(lake.uri(lake.mds_prefix(source, export_fp)), "path"),
    }
    checks = (
        _accounted(census, rows_out, set_aside, lost),
        _shards_verified(lake, leaves),
        _bucket_images(lake, leaves, quality),
    )
    return JobResult(
        data_version=mds_tree.data_version(export_fp, leaves),
        rows_in=census.rows_in,
        rows_out=rows_out,
        set_aside=dict(set_aside),
        done=done,
        metadata=metadata,
        checks=checks,
    )


def bucket_table(leaves: list[Leaf]) -> list[dict[str, Json]]:
    """Returns a row per aspect ratio with the samples of each level."""
    samples = {(leaf.level, leaf.ar): leaf.samples for leaf in leaves}
    return [
        {
            "w/h": bucket.dir,
            **{str(level): samples.get((level, bucket.dir), 0) for level in LEVELS},
        }
        for bucket in table()[LEVELS[0]]
    ]


def _fates(
    lake: Lake, leaves: list[Leaf], census: Census, failed: dict[tuple[str, str], str]
) -> tuple[int, Counter[str], int]:
    """Returns rows that are live samples, failed rows by reason, and rows that are neither."""
    by_place = {(leaf.level, leaf.ar): leaf for leaf in leaves}
    rows_out, lost = 0, 0
    reasons: Counter[str] = Counter()
    for bucket, rows in census.by_bucket():
        leaf = by_place.get((bucket.level, bucket.dir))
        absent = rows if leaf is None else missing(rows, mds_tree.live_samples(lake.store, leaf))
        rows_out += rows.num_rows - absent.num_rows
        pairs = zip(
            absent["image_id"].to_pylist(), absent["content_sha256"].to_pylist(), strict=True
        )
        for pair in pairs:
            if pair in failed:
                reasons[failed[pair].partition(":")[0]] += 1
            else:
                lost += 1
    return rows_out, reasons, lost


def _accounted(census: Census, rows_out: int, set_aside: Counter[str], lost: int) -> CheckOutcome:
    return CheckOutcome(
        "rows_accounted",
        lost == 0 and census.rows_in == rows_out + set_aside.total(),
        f"{census.rows_in:,} rows are {rows_out:,} live samples and {set_aside.total():,} rows set"
        f" aside; {lost:,} are unaccounted for.",
        metadata={"set_aside": Meta(dict(set_aside), "json"), "unaccounted": Meta(lost, "int")},
    )


def _shards_verified(lake: Lake, leaves: list[Leaf]) -> CheckOutcome:
    shards = [
        (f"{leaf.prefix}/{shard.basename}", shard)
        for leaf in leaves
        for shard in mds_tree.live_shards(lake.store, leaf)
    ]
    broken = [key for key, shard in shards if not _there(lake, key, shard)]
    return CheckOutcome(
        "shards_verified",
        not broken,
        f"{len(shards) - len(broken):,} of {len(shards):,} live shards lie there with their size;"
        " each was read back and its hash compared before it went live.",
        metadata={"broken": Meta(broken[:20], "json")} if broken else {},
    )


def _bucket_images(lake: Lake, leaves: list[Leaf], quality: int) -> CheckOutcome:
    """Opens the first image of each leaf's newest part."""
    sizes = {(b.level, b.dir): (b.width, b.height) for each in table().values() for b in each}
    wrong = []
    for leaf in leaves:
        shard = mds_tree.live_shards(lake.store, replace(leaf, parts=leaf.parts[-1:]))[0]
        found = first_image(Path(lake.uri(f"{leaf.prefix}/{shard.basename}")))
        if found != (sizes[leaf.level, leaf.ar], "RGB", quality_tables(quality)):
            wrong.append(f"{leaf.prefix}/{shard.basename}")
    return CheckOutcome(
        "bucket_images",
        not wrong,
        f"In {len(leaves) - len(wrong)} of {len(leaves)} leaves the first image of the newest part"
        f" has the bucket's size, three channels and the tables of quality {quality}.",
        metadata={"wrong": Meta(wrong[:20], "json")} if wrong else {},
    )


def first_image(shard: Path) -> tuple[tuple[int, int], str, Json] | None:
    """Returns size, mode and quantisation tables of a shard's first JPEG, None if it has none."""
    try:
        with shard.open("rb") as file:
            file.seek(4)  # number of samples, then their offsets
            file.seek(int.from_bytes(file.read(4), "little"))
            # Captions are UTF-8 and never hold the byte 0xff: this is where the JPEG begins.
            head = file.read(_HEAD_BYTES)
        with Image.open(io.BytesIO(head[head.index(b"\xff\xd8\xff") :])) as image:
            return image.size, image.mode, getattr(image, "quantization", None)
    except (OSError, ValueError):
        return None


def _there(lake: Lake, key: str, shard: Shard) -> bool:
    path = Path(lake.uri(key))
    return path.is_file() and path.stat().st_size == shard.bytes
