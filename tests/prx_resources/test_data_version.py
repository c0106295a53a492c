from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from prx_resources import lance_table
from prx_resources.columns import CAPTIONS
from prx_resources.data_version import row_hashes, rows_version

TEXTS = st.one_of(st.none(), st.text(max_size=8))
ROWS = st.lists(st.tuples(TEXTS, TEXTS), max_size=12)


def table(rows: list[tuple[str | None, str | None]]) -> pa.Table:
    return pa.table(
        {
            "a": pa.array([row[0] for row in rows], pa.string()),
            "b": pa.array([row[1] for row in rows], pa.string()),
        }
    )


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, cut=st.integers(0, 12), data=st.data())
def test_order_and_pieces_dont_matter(rows: Any, cut: int, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    whole = rows_version("x", [table(rows)])
    assert whole == rows_version("x", [table(shuffled[:cut]), table(shuffled[cut:])])
    assert whole != rows_version("y", [table(rows)])


@settings(max_examples=60, deadline=None)
@given(left=ROWS, right=ROWS)
def test_other_rows_have_another_version(left: Any, right: Any) -> None:
    def key(row: tuple[str | None, str | None]) -> str:
        return repr(row)

    same = sorted(left, key=key) == sorted(right, key=key)
    assert (rows_version("x", [table(left)]) == rows_version("x", [table(right)])) == same


def test_the_value_is_fixed_for_good() -> None:
    """Another machine, another numpy or pyarrow: the same version, or everything looks stale."""
    rows = table([("s/1", "a" * 64), ("s/2", None), ("", "")])
    assert rows_version("captions", [rows]) == "ab011f03910544d2"


def test_a_slice_hashes_like_a_copy() -> None:
    rows = table([(f"{n}", None if n % 3 else "x" * n) for n in range(20)])
    part = rows.slice(5, 7)
    copy = table([(row["a"], row["b"]) for row in part.to_pylist()])
    assert row_hashes(part.columns).tolist() == row_hashes(copy.columns).tolist()


def captions(rows: list[int], fp: str = "fp", error: str | None = None) -> pa.Table:
    return pa.table(
        {
            "_rowid": pa.array(rows, pa.uint64()),
            "content_sha256": [f"{row:064d}" for row in rows],
            "caption": pa.array([None if error else "text"] * len(rows), pa.string()),
            "caption_model": ["m"] * len(rows),
            "caption_gates": pa.nulls(len(rows), pa.string()),
            "caption_error": pa.array([error] * len(rows), pa.string()),
            "caption_fp": [fp] * len(rows),
        }
    )


def commit(images: Any, values: pa.Table) -> str:
    with images.lease() as held:
        lance_table.commit_columns(images.uri, CAPTIONS, values, held)
    return lance_table.data_version(images.latest, CAPTIONS)


def test_the_way_to_the_table_doesnt_matter(images: Any, new_images: Any) -> None:
    images.add(6)
    for row in (4, 0, 1):
        commit(images, captions([row]))
    one = lance_table.data_version(images.latest, CAPTIONS)
    images.compact()
    assert lance_table.data_version(images.latest, CAPTIONS) == one
    other = new_images()
    other.add(2)
    other.add(4)
    assert commit(other, captions([0, 1, 4])) == one
    assert lance_table.ingest_data_version(other.latest) == lance_table.ingest_data_version(
        images.latest
    )


def test_what_readers_must_learn_changes_it(images: Any) -> None:
    images.add(4)
    seen = [lance_table.data_version(images.latest, CAPTIONS)]
    seen.append(commit(images, captions([0], error="refused: no")))
    seen.append(commit(images, captions([0])))
    seen.append(commit(images, captions([0, 1])))
    seen.append(commit(images, captions([1], "new model")))
    assert len(set(seen)) == len(seen)
    aside = "set_aside IS NULL AND image_id != 's/1'"
    assert lance_table.data_version(images.latest, CAPTIONS, where=aside) == seen[2]
    only = lance_table.data_version(images.latest, CAPTIONS, row_fp="fp")
    assert only != lance_table.data_version(images.latest, CAPTIONS)


def test_ingest_version_knows_rows_and_set_asides_but_no_stage(images: Any) -> None:
    images.add(3)
    first = lance_table.ingest_data_version(images.latest)
    commit(images, captions([0]))
    assert lance_table.ingest_data_version(images.latest) == first
    with images.lease() as held:
        values = pa.table(
            {
                "_rowid": pa.array([0], pa.uint64()),
                "content_sha256": [f"{0:064d}"],
                "set_aside": ["opted_out"],
                "set_aside_detail": ["asked"],
            }
        )
        lance_table.commit_columns(images.uri, ("set_aside", "set_aside_detail"), values, held)
    second = lance_table.ingest_data_version(images.latest)
    images.add(1)
    assert len({first, second, lance_table.ingest_data_version(images.latest)}) == 3
