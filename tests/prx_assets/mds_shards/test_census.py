from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from prx_assets.image.buckets import assign
from prx_assets.image.eligibility import USABLE, fate
from prx_assets.mds_shards.census import missing, take_census, without_failed
from prx_assets.mds_shards.plan import rows_per_shard
from prx_resources.contract import text_digest

SCHEMA = pa.schema(
    [
        ("_rowid", pa.uint64()),
        ("image_id", pa.string()),
        ("content_sha256", pa.string()),
        ("set_aside", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("caption", pa.string()),
    ]
)


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def row(number: int, width: int, height: int, caption: str | None = "c") -> dict[str, Any]:
    return {
        "_rowid": number,
        "image_id": f"s/{number}",
        "content_sha256": f"{number:064x}",
        "set_aside": None,
        "width": width,
        "height": height,
        "caption": caption,
    }


sizes = st.tuples(st.integers(1, 9000), st.integers(1, 9000), st.sampled_from(["c", "", None]))


@settings(deadline=None)
@given(st.lists(sizes, max_size=20))
def test_sizes_and_captions_decide_as_the_shared_policy_does(
    cases: list[tuple[int, int, str | None]],
) -> None:
    rows = [row(number, *case) for number, case in enumerate(cases)]
    census = take_census([batch(rows)])
    expected: dict[str, int] = {}
    buckets = {}
    for number, (width, height, caption) in enumerate(cases):
        reason = fate(width, height)
        if reason == USABLE and caption:
            buckets[f"s/{number}"] = assign(width, height)
        else:
            reason = "no_caption" if reason == USABLE else reason
            expected[reason] = expected.get(reason, 0) + 1
    assert census.set_aside == expected
    assert census.rows_in == len(cases)
    found = {
        image_id: bucket
        for bucket, part in census.by_bucket()
        for image_id in part["image_id"].to_pylist()
    }
    assert found == buckets


def test_rows_come_in_the_order_of_their_ids_whatever_the_fragments_order() -> None:
    census = take_census([batch([row(5, 400, 400), row(1, 400, 400)]), batch([row(3, 400, 400)])])
    assert census.rows["_rowid"].to_pylist() == [1, 3, 5]


def test_a_row_set_aside_needs_no_size() -> None:
    broken = {**row(1, 0, 0), "width": None, "height": None, "set_aside": "decode"}
    census = take_census([batch([broken, row(2, 400, 400)]), batch([])])
    assert census.set_aside == {"decode": 1}
    assert census.rows.num_rows == 1


def test_a_sample_is_the_same_only_with_the_same_content_and_caption() -> None:
    rows = take_census([batch([row(number, 400, 400) for number in (4, 3, 2, 1)])]).rows
    live = [
        {"image_id": "s/1", "content_sha256": f"{1:064x}", "caption_digest": text_digest("c")},
        {"image_id": "s/2", "content_sha256": f"{9:064x}", "caption_digest": text_digest("c")},
        {"image_id": "s/3", "content_sha256": f"{3:064x}", "caption_digest": text_digest("old")},
    ]
    left = missing(rows, pa.Table.from_pylist(live))
    assert left["image_id"].to_pylist() == ["s/2", "s/3", "s/4"]
    assert left["_rowid"].to_pylist() == [2, 3, 4]


def test_failed_rows_wait_until_their_reason_is_named() -> None:
    rows = take_census([batch([row(1, 400, 400), row(2, 400, 400)])]).rows
    failed = {("s/1", f"{1:064x}"): "truncated: ends early"}
    assert without_failed(rows, failed, ())["image_id"].to_pylist() == ["s/2"]
    assert without_failed(rows, failed, ("corrupt",)).num_rows == 1
    assert without_failed(rows, failed, ("truncated",)).num_rows == 2


def test_a_shard_takes_at_least_one_sample() -> None:
    bucket = assign(4000, 4000)
    assert bucket is not None
    assert rows_per_shard(bucket, 1) == 1
    assert rows_per_shard(bucket, 64 << 20) == 18
