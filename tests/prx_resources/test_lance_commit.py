"""Late-bound commits, and the Lance behaviour that they stand on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prx_resources import lance_commit, lance_table
from prx_resources.columns import CAPTION_LABELS, CAPTIONS, PERCEPTUAL_HASHES
from prx_resources.contract import text_digest
from prx_resources.errors import ConflictError, InvariantError, TableError

ASIDE = ("set_aside", "set_aside_detail")


def contents(images: Any) -> dict[int, str]:
    table = images.latest.to_table(columns=["content_sha256"], with_row_id=True)
    return dict(zip(table["_rowid"].to_pylist(), table["content_sha256"].to_pylist(), strict=True))


def captions(rows: dict[int, str], fp: str = "fp") -> pa.Table:
    """A caption that names its row and content, so that a shifted value shows."""
    return pa.table(
        {
            "_rowid": pa.array(list(rows), pa.uint64()),
            "content_sha256": pa.array(list(rows.values()), pa.string()),
            "caption": pa.array([f"{fp} {row} {sha}" for row, sha in rows.items()], pa.string()),
            "caption_model": pa.array(["m"] * len(rows), pa.string()),
            "caption_gates": pa.nulls(len(rows), pa.string()),
            "caption_error": pa.nulls(len(rows), pa.string()),
            "caption_fp": pa.array([fp] * len(rows), pa.string()),
        }
    )


def commit(images: Any, group: Any, values: pa.Table) -> int:
    with images.lease() as held:
        return lance_table.commit_columns(images.uri, group, values, held)


def assert_right(images: Any, expected: dict[int, str]) -> None:
    """Every caption stands on the row it was made for, and only the expected ones are there."""
    table = images.latest.to_table(columns=["content_sha256", "caption"], with_row_id=True)
    found = {row["_rowid"]: row["content_sha256"] for row in table.to_pylist() if row["caption"]}
    assert found == expected
    for row in table.to_pylist():
        if row["caption"] is not None:
            assert row["caption"].split(" ")[1:] == [str(row["_rowid"]), row["content_sha256"]]


def test_columns_that_are_null_at_first_then_written_again(images: Any) -> None:
    images.add(6)
    rows = contents(images)
    some = {row: rows[row] for row in (1, 4)}
    commit(images, CAPTIONS, captions(some))
    assert_right(images, some)
    more = {row: rows[row] for row in (0, 4)}
    commit(images, CAPTIONS, captions(more, "other"))
    assert_right(images, some | more)
    assert images.by_id("caption_fp")["s/1"] == ("fp",)
    assert images.by_id("caption_fp")["s/4"] == ("other",)


def test_set_aside_written_at_ingest_is_written_again_before_and_after_compaction(
    images: Any,
) -> None:
    batch = images.rows(range(100, 104)).append_column(
        "set_aside", pa.array([None, "decode", None, None], pa.string())
    )
    with images.lease() as held:
        lance_table.commit_append(images.uri, images.write(batch), held)
    images.add(4)
    rows = contents(images)

    def aside(number: int, reason: str | None) -> pa.Table:
        return pa.table(
            {
                "_rowid": pa.array([number], pa.uint64()),
                "content_sha256": [rows[number]],
                "set_aside": pa.array([reason], pa.string()),
                "set_aside_detail": pa.array(["detail"], pa.string()),
            }
        )

    def reasons() -> list[str | None]:
        return images.latest.to_table(columns=["set_aside"])["set_aside"].to_pylist()

    commit(images, ASIDE, aside(2, "duplicate_key"))
    assert reasons() == [None, "decode", "duplicate_key", None, None, None, None, None]
    images.delete("image_id = 's/100'")
    images.compact()
    assert len(images.latest.get_fragments()) == 1
    commit(images, ASIDE, aside(1, None))
    commit(images, CAPTIONS, captions({3: rows[3]}))
    commit(images, ASIDE, aside(6, "opted_out"))
    assert reasons() == [None, "duplicate_key", None, None, None, "opted_out", None]
    assert_right(images, {3: rows[3]})


def test_deleted_rows_are_physical_rows_without_an_id(images: Any) -> None:
    """The behaviour of Lance that makes late-bound commits possible."""
    images.add(4)
    images.delete("image_id = 's/1'")
    (fragment,) = images.latest.get_fragments()
    seen = fragment.scanner(
        columns=["image_id"], with_row_id=True, include_deleted_rows=True
    ).to_table()
    assert seen["_rowid"].to_pylist() == [0, None, 2, 3]
    assert fragment.to_table(columns=["image_id"]).num_rows == 3


def test_images_survive_commits_and_compaction(images: Any) -> None:
    images.add(6)
    commit(images, CAPTIONS, captions(contents(images)))
    images.delete("image_id = 's/2'")
    images.compact()
    commit(images, CAPTIONS, captions(contents(images), "new"))
    (batch,) = lance_table.read_images(images.latest, [0, 1, 3, 4, 5])
    assert batch["image"].to_pylist() == [f"{n}".encode() * 100 for n in (0, 1, 3, 4, 5)]


def test_an_index_on_the_column_stays_right(images: Any) -> None:
    images.add(6)
    rows = contents(images)
    commit(images, CAPTIONS, captions(rows))
    images.latest.create_scalar_index("caption_fp", "BTREE")
    commit(images, CAPTIONS, captions({2: rows[2]}, "new"))
    assert images.latest.count_rows("caption_fp = 'new'") == 1
    assert images.latest.count_rows("caption_fp = 'fp'") == 5


def test_values_of_other_content_or_of_rows_that_are_gone_are_passed_over(images: Any) -> None:
    images.add(4)
    rows = contents(images)
    images.delete("image_id = 's/3'")
    version = images.latest.version
    values = captions({0: "another content", 3: rows[3], 77: "x"})
    assert commit(images, CAPTIONS, values) == version
    assert_right(images, {})


def test_equal_values_make_no_version(images: Any) -> None:
    images.add(4)
    values = captions(contents(images))
    version = commit(images, CAPTIONS, values)
    assert commit(images, CAPTIONS, values) == version
    assert commit(images, CAPTIONS, values.slice(0, 0)) == version


@pytest.mark.parametrize("names", [("set_aside",), ("caption", "caption_fp"), ("phash", "label")])
def test_half_a_group_is_refused(images: Any, names: tuple[str, ...]) -> None:
    """Its other half would stand in another file, and Lance replaces only within one."""
    images.add(2)
    values = pa.table({"_rowid": pa.array([0], pa.uint64()), "content_sha256": [""]})
    with pytest.raises(InvariantError, match="not a whole group"):
        commit(images, names, values)


def test_of_two_values_that_fit_the_last_stands(images: Any) -> None:
    images.add(2)
    rows = contents(images)
    stale = captions({0: "gone"}, "stale")
    commit(images, CAPTIONS, pa.concat_tables([captions(rows, "old"), captions(rows), stale]))
    assert set(images.by_id("caption_fp").values()) == {("fp",)}


def test_a_label_of_another_caption_is_passed_over(images: Any) -> None:
    images.add(2)
    rows = contents(images)
    commit(images, CAPTIONS, captions(rows))
    fitting = text_digest(f"fp 0 {rows[0]}")
    values = pa.table(
        {
            "_rowid": pa.array([0, 1], pa.uint64()),
            "content_sha256": list(rows.values()),
            "label": ["visual", "text"],
            "label_confidence": pa.array([0.5, 0.5], pa.float32()),
            "label_model": ["m", "m"],
            "label_error": pa.nulls(2, pa.string()),
            "label_fp": ["fp", "fp"],
            "label_input": [fitting, text_digest("the caption before")],
        }
    )
    commit(images, CAPTION_LABELS, values)
    assert images.by_id("label", "label_input") == {
        "s/0": ("visual", fitting),
        "s/1": (None, None),
    }


def test_a_lost_lease_commits_nothing(images: Any) -> None:
    images.add(2)
    version = images.latest.version
    with images.lease() as held:
        pass
    with pytest.raises(ConflictError, match="was lost"):
        lance_table.commit_columns(images.uri, CAPTIONS, captions(contents(images)), held)
    assert images.latest.version == version


def test_a_conflict_is_built_again_upon_the_new_version(
    images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    images.add(3)
    images.add(3)
    rows = contents(images)
    build = lance_commit._write_columns
    raced: list[int] = []

    def compacted_meanwhile(*args: Any) -> Any:
        file = build(*args)
        if not raced:
            raced.append(1)
            images.delete("image_id = 's/1'")
            images.compact()
        return file

    monkeypatch.setattr(lance_commit, "_write_columns", compacted_meanwhile)
    commit(images, CAPTIONS, captions(rows))
    assert len(images.latest.get_fragments()) == 1
    assert_right(images, {row: sha for row, sha in rows.items() if row != 1})


def test_replaced_rows_keep_their_stage_columns_if_the_content_is_the_same(images: Any) -> None:
    images.add(4, file="old")
    images.add(2, file="else")
    rows = contents(images)
    commit(images, CAPTIONS, captions(rows))
    before = images.by_id("caption", "caption_fp")
    changed = images.rows(range(2, 3), content="new")
    kept = images.rows(range(2))
    added = images.rows(range(50, 51))
    with images.lease() as held:
        fragments = images.write(kept, changed, added)
        lance_table.replace_rows(images.uri, "source_file = 'old'", fragments, held)
    after = images.by_id("caption", "caption_fp")
    assert set(after) == {"s/0", "s/1", "s/2", "s/4", "s/5", "s/50"}
    assert after["s/2"] == after["s/50"] == (None, None)
    assert {key: after[key] for key in ("s/0", "s/1", "s/4", "s/5")} == {
        key: before[key] for key in ("s/0", "s/1", "s/4", "s/5")
    }
    # What was carried over can be written again, beside what a later stage writes.
    now = contents(images)
    commit(images, CAPTIONS, captions(now, "again"))
    assert_right(images, now)
    images.compact()
    assert_right(images, now)


def test_rows_without_a_hash_never_stand_for_each_other(images: Any) -> None:
    empty = images.rows(range(2)).to_pylist()
    for row in empty:
        row["content_sha256"], row["image"] = None, None
    batch = pa.RecordBatch.from_pylist(empty, schema=images.rows(range(2)).schema)
    with images.lease() as held:
        lance_table.commit_append(images.uri, images.write(batch), held)
    failed = captions({0: "", 1: ""}).set_column(1, "content_sha256", pa.nulls(2, pa.string()))
    commit(images, CAPTIONS, failed)
    assert images.by_id("caption_fp")["s/0"] == ("fp",)
    with images.lease() as held:
        lance_table.replace_rows(images.uri, "true", images.write(batch), held)
    assert images.by_id("caption_fp") == {"s/0": (None,), "s/1": (None,)}


def test_another_pylance_may_not_write(images: Any) -> None:
    images.add(1)
    images.latest.update_config({"prx.pylance": "0.0.1"})
    with pytest.raises(TableError, match=r"pylance 0\.0\.1"):
        commit(images, CAPTIONS, captions(contents(images)))


def test_many_fragments_in_one_commit(images: Any) -> None:
    with images.lease() as held:
        fragments = [
            text
            for start in range(0, 300, 3)
            for text in images.write(images.rows(range(start, start + 3)))
        ]
        lance_table.commit_append(images.uri, fragments, held)
    rows = contents(images)
    assert len(images.latest.get_fragments()) == 100
    values = pa.table(
        {
            "_rowid": pa.array(list(rows), pa.uint64()),
            "content_sha256": list(rows.values()),
            "phash": pa.array(np.arange(300), pa.uint64()),
            "signature": pa.array([bytes(48)] * 300, pa.binary(48)),
            "phash_flat": [False] * 300,
            "phash_error": pa.nulls(300, pa.string()),
            "phash_fp": ["fp"] * 300,
        }
    )
    before = images.latest.version
    assert commit(images, PERCEPTUAL_HASHES, values) == before + 1
    found = images.latest.to_table(columns=["phash"], with_row_id=True)
    assert found["phash"].to_pylist() == found["_rowid"].to_pylist()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("delete"), st.integers(0, 12)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 3)),
        st.tuples(st.just("commit"), st.just(0)),
        st.tuples(st.just("replace"), st.integers(0, 12)),
    ),
    min_size=3,
    max_size=10,
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_values_never_shift(new_images: Callable[[], Any], steps: list[tuple[str, int]]) -> None:
    """Values computed at some version are committed after any history of the table."""
    images = new_images()
    images.add(5)
    computed: dict[int, str] = {}
    expected: dict[int, str] = {}
    for what, number in [*steps, ("commit", 0)]:
        rows = contents(images)
        if what == "append":
            images.add(number)
        elif what == "delete":
            images.delete(f"image_id = 's/{number}'")
        elif what == "compact":
            images.compact()
        elif what == "read":
            computed |= {row: sha for row, sha in rows.items() if row % 4 == number}
        elif what == "replace":
            with images.lease() as held:
                new = images.write(images.rows(range(number, number + 1), content="v"))
                lance_table.replace_rows(images.uri, f"image_id = 's/{number}'", new, held)
        else:
            # As after a commit that was dropped and repeated: the same table again.
            version = commit(images, CAPTIONS, captions(computed))
            assert commit(images, CAPTIONS, captions(computed)) == version
            expected |= computed
        live = contents(images)
        expected = {row: sha for row, sha in expected.items() if live.get(row) == sha}
    assert_right(images, expected)


def test_the_schema_version_is_what_the_files_say(images: Any) -> None:
    images.add(2)
    commit(images, CAPTIONS, captions(contents(images)))
    (fragment,) = images.latest.get_fragments()
    versions = {
        (file.file_major_version, file.file_minor_version) for file in fragment.metadata.files
    }
    assert versions == {(2, 2)}
    assert lance.dataset(images.uri).has_stable_row_ids
