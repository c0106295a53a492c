from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx_assets.raw_images.rows import RowBuilder, batches, image_id, row_schema
from prx_assets.raw_images.source_row import SourceRow, json_text, text_of

BUILDER = RowBuilder("pets", "a/b.jpg", "12-34", max_pixels=10_000, embedding_dim=3)


@pytest.mark.parametrize("key", ["cat-1", "a/b_c.jpg", "0"])
def test_plain_keys_stay_readable(key: str) -> None:
    assert image_id("pets", key) == f"pets/{key}"


@pytest.mark.parametrize("key", ["../x", "a//b", "a/./b", "/a", "a b", "ä", "x" * 196, ".", "a/"])
def test_odd_keys_are_hashed(key: str) -> None:
    made = image_id("pets", key)
    assert made == f"pets/{hashlib.sha256(key.encode()).hexdigest()[:24]}"


@given(st.text(min_size=1))
def test_every_id_is_short_and_safe(key: str) -> None:
    made = image_id("pets", key)
    assert len(made.encode()) <= 200
    assert not set(made.split("/")) & {"", ".", ".."}
    assert made.isascii()
    assert made.isprintable()


def test_without_a_key_the_content_is_the_key(make_picture: Callable[..., bytes]) -> None:
    data = make_picture(1)
    row = BUILDER.table_row(SourceRow(7, data, caption="A cat."))
    content = hashlib.sha256(data).hexdigest()
    assert row["image_id"] == f"pets/{content[:24]}"
    assert row["content_sha256"] == content
    assert (row["format"], row["width"], row["pixels"], row["bytes"]) == (
        "jpeg",
        16,
        256,
        len(data),
    )
    assert (row["source_row"], row["original_caption"], row["set_aside"]) == (7, "A cat.", None)


def test_an_image_that_does_not_decode_is_set_aside_with_its_bytes() -> None:
    row = BUILDER.table_row(SourceRow(0, b"<html>"))
    assert (row["set_aside"], row["image"]) == ("decode", b"<html>")
    assert row["set_aside_detail"].startswith("not_an_image: ")


def test_rows_without_bytes_are_kept_apart() -> None:
    rows = [BUILDER.table_row(SourceRow(n, None, "decode", "no_image: nothing")) for n in range(3)]
    assert len({row["image_id"] for row in rows}) == 3
    assert {row["content_sha256"] for row in rows} == {None}


@pytest.mark.parametrize(
    ("vector", "note"),
    [
        ([0.0, float("nan"), 1.0], "finite"),
        ([0.0, float("inf"), 1.0], "finite"),
        ([0.0, None, 1.0], "finite"),
        ("abc", "finite"),
        ([1.0, 2.0], "2 values instead of the usual 3"),
    ],
)
def test_bad_embeddings_are_left_out_with_a_note(vector: object, note: str) -> None:
    row = BUILDER.table_row(SourceRow(0, b"", embedding=vector, metadata={"a": 1}))  # type: ignore[arg-type]
    assert row["embedding"] is None
    kept = json.loads(row["metadata"])
    assert kept["a"] == 1
    assert note in kept["prx_note"][0]


def test_metadata_is_json_whatever_it_holds() -> None:
    text = json_text({"nan": float("nan"), "b": b"xy", "n": {"l": (1, 2)}, "s": "\ud800"})
    assert text is not None
    text.encode()
    assert json.loads(text)["nan"] is None
    assert json.loads(text)["n"] == {"l": [1, 2]}


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (None, None),
        ("  \n", None),
        (b"\xef\xbb\xbfA cat.\r\n", "A cat."),
        (b"caf\xe9", "caf�"),
        ("a\0b", "ab"),
        ("\ud800x", "?x"),
        (float("nan"), None),
        (12, "12"),
        (["first", "second"], "first"),
        ([], None),
    ],
)
def test_text_of(value: object, want: str | None) -> None:
    assert text_of(value) == want


def test_batches_are_bounded_by_rows_and_bytes(make_picture: Callable[..., bytes]) -> None:
    rows = [BUILDER.table_row(SourceRow(n, make_picture(n))) for n in range(1500)]
    sizes = [batch.num_rows for batch in batches(rows, row_schema(3))]
    assert sizes == [1024, 476]
    large = [{**rows[0], "image": bytes(20 << 20), "bytes": 20 << 20} for _ in range(4)]
    assert [batch.num_rows for batch in batches(large, row_schema(3))] == [2, 2]
