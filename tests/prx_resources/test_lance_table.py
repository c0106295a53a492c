from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import numpy as np
import pytest

from prx_resources import lance_table
from prx_resources.errors import TableError, UnknownError


def test_creation_is_done_once(images: Any) -> None:
    images.add(2)
    version = images.latest.version
    lance_table.create(images.uri, chunk_rows={"": 9, "captions": 7}, target_fragment_rows=5)
    assert images.latest.version == version
    assert lance_table.chunk_rows(images.latest, "captions") == 4
    assert lance_table.target_fragment_rows(images.latest) == 100


def test_creation_that_was_cut_short_is_completed(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(lance_table.image_schema().empty_table(), uri, enable_stable_row_ids=True)
    lance_table.create(uri, chunk_rows={"": 8, "captions": 2}, target_fragment_rows=50)
    ds = lance_table.open_latest(uri)
    assert lance_table.chunk_rows(ds, "captions") == 2
    assert lance_table.chunk_rows(ds, "perceptual_hashes") == 8


def test_vectors_are_a_column_only_where_the_source_brings_them(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance_table.create(uri, chunk_rows={}, target_fragment_rows=50, embedding_dim=8)
    assert "embedding" in lance_table.open_latest(uri).schema.names
    assert "embedding" not in lance_table.image_schema().names


def test_what_is_not_there_is_named_with_a_fix(images: Any, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere.lance")
    assert not lance_table.exists(nowhere)
    for open_table in (lance_table.open_latest, lance_table.open_published):
        with pytest.raises(UnknownError, match="materialize raw_images"):
            open_table(nowhere)
    assert lance_table.exists(images.uri)
    assert lance_table.published_version(images.uri) is None
    with pytest.raises(UnknownError, match="nothing of this table is published"):
        lance_table.open_published(images.uri)


def test_another_pylance_may_read_but_not_write(images: Any) -> None:
    images.add(1)
    images.latest.update_config({"prx.pylance": "0.0.1"})
    with pytest.raises(TableError, match=r"pylance==0\.0\.1"):
        lance_table.open_latest(images.uri)
    assert lance_table.open_published(images.uri).count_rows() == 1


def test_published_moves_forward_only(images: Any) -> None:
    first = images.add(1)
    second = images.add(1)
    assert second > first
    with images.lease() as held:
        assert lance_table.publish(images.uri, first, held) == second
    assert lance_table.published_version(images.uri) == second
    assert lance_table.open_published(images.uri).count_rows() == 2


@contextmanager
def no_room() -> Iterator[None]:
    """No file can get another byte: what a full disk is to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_tag_where_it_was(images: Any) -> None:
    first = images.add(1)
    images.delete("image_id = 's/0'")
    second = int(images.latest.version)
    with images.lease() as held:
        quiet = SimpleNamespace(check=lambda: None)
        with no_room(), pytest.raises(OSError, match="too large"):
            lance_table.publish(images.uri, second, quiet)
        assert lance_table.published_version(images.uri) == first
        assert lance_table.publish(images.uri, second, held) == second
    assert lance_table.published_version(images.uri) == second


def test_a_kill_while_the_tag_moves_leaves_it_where_it_was(
    images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = images.add(1)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    quiet = SimpleNamespace(check=lambda: None)
    images.delete("image_id = 's/0'")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            lance_table.publish(images.uri, images.latest.version, quiet)
    assert lance_table.published_version(images.uri) == first
    images.publish()
    assert list(images.latest.tags.list()) == ["published"]
    assert lance_table.published_version(images.uri) == images.latest.version


def test_a_hold_keeps_its_version_through_clean_up(images: Any) -> None:
    from datetime import timedelta

    version = images.add(3)
    with lance_table.hold(images.uri, version, "prx-captions-s-0123456789abcdef-1"):
        images.add(3)
        images.compact()
        images.latest.cleanup_old_versions(
            older_than=timedelta(0), error_if_tagged_old_versions=False
        )
        held = lance.dataset(images.uri, version=version)
        (batch,) = lance_table.read_images(held, [0, 1, 2])
        assert batch["image"].to_pylist() == [b"0" * 100, b"1" * 100, b"2" * 100]
        assert lance_table.holds(images.uri) == {"prx-captions-s-0123456789abcdef-1": version}
    assert lance_table.holds(images.uri) == {}


def test_a_killed_jobs_hold_goes_when_its_stage_and_source_run_again(images: Any) -> None:
    version = images.add(2)
    dead, other = "prx-captions-s-0123456789abcdef-1", "prx-mds_shards-s-0123456789abcdef-1"
    for holder in (dead, other):
        lance_table.open_latest(images.uri).tags.create(f"hold-{holder}", version)
    with lance_table.hold(images.uri, version, "prx-captions-s-fedcba9876543210-1"):
        assert dead not in lance_table.holds(images.uri)
    assert list(lance_table.holds(images.uri)) == [other]


def test_a_job_that_starts_again_finds_its_own_hold(images: Any) -> None:
    first, second = images.add(1), images.add(1)
    with (
        lance_table.hold(images.uri, first, "job"),
        lance_table.hold(images.uri, second, "job"),
    ):
        assert lance_table.holds(images.uri) == {"job": second}
    assert lance_table.holds(images.uri) == {}


def test_images_come_in_row_order_and_within_the_budget(images: Any) -> None:
    images.add(5)
    images.add(5)
    images.delete("image_id = 's/3'")
    wanted = np.array([9, 3, 1, 0, 77, 4, 5], dtype=np.uint64)
    batches = list(lance_table.read_images(images.latest, wanted, ["image_id"], budget_bytes=250))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert [row for batch in batches for row in batch["_rowid"].to_pylist()] == [0, 1, 4, 5, 9]
    for batch in batches:
        assert batch.schema.names == ["_rowid", "image_id", "image"]
        for row in batch.to_pylist():
            assert row["image"] == str(row["_rowid"]).encode() * 100
            assert row["image_id"] == f"s/{row['_rowid']}"


def test_an_image_above_the_budget_comes_alone(images: Any) -> None:
    images.add(2)
    batches = list(lance_table.read_images(images.latest, [0, 1], budget_bytes=1))
    assert [batch.num_rows for batch in batches] == [1, 1]
    assert list(lance_table.read_images(images.latest, [])) == []


@pytest.mark.parametrize(
    "value", ["plain", "it's", 'double "quotes"', "semi; -- colon", "a\\b", "ümlaut", "%_"]
)
def test_quoted_values_match_themselves_only(images: Any, value: str) -> None:
    with images.lease() as held:
        fragments = images.write(
            images.rows(range(1), file=value), images.rows(range(1, 2), file="other")
        )
        lance_table.commit_append(images.uri, fragments, held)
    where = f"source_file = {lance_table.quote(value)}"
    assert images.latest.count_rows(where) == 1
    assert images.latest.count_rows(lance_table.is_in("source_file", [value, "other"])) == 2


def test_empty_conditions(images: Any) -> None:
    images.add(3)
    assert images.latest.count_rows(lance_table.is_in("image_id", [])) == 0
    assert images.latest.count_rows(lance_table.all_of()) == 3
    either = "image_id = 's/0' OR image_id = 's/1'"
    assert images.latest.count_rows(lance_table.all_of(either, "image_id = 's/1'", "")) == 1


def test_a_table_that_cant_be_created_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("LanceError(IO): No space left on device (os error 28)")

    monkeypatch.setattr(lance, "write_dataset", full)
    with pytest.raises(OSError, match="No space left"):
        lance_table.create(str(tmp_path / "t.lance"), chunk_rows={}, target_fragment_rows=10)
