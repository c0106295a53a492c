from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from prx_assets.search_index.indexing import BUILD, EXTEND, bring_up_to_date, coverage
from prx_assets.search_index.search import full_text, nearest
from prx_assets.search_index.spec import SearchIndexSpec
from prx_resources.errors import UnknownError

CAPTIONS = [
    "A red fox runs through the snow.",
    "The runner, in red, is fast.",
    None,
    "Snow on a roof; no fox to be seen.",
    "to be or not to be",
]
SPEC = SearchIndexSpec(min_vectors=300)


def rows(captions: list[str | None], first: int = 0, dimension: int = 0) -> pa.Table:
    n = len(captions)
    columns = {
        "image_id": pa.array([f"a/{first + i}" for i in range(n)]),
        "original_caption": pa.array(captions, pa.string()),
        "set_aside": pa.array([None] * n, pa.string()),
    }
    if dimension:
        values = np.random.default_rng(first).normal(size=(n, dimension)).astype(np.float32)
        columns["embedding"] = pa.FixedSizeListArray.from_arrays(
            pa.array(values.ravel()), dimension
        )
    return pa.table(columns)


def write(folder: Path, table: pa.Table, mode: str = "create") -> lance.LanceDataset:
    return lance.write_dataset(
        table,
        str(folder / "a.lance"),
        mode=mode,
        data_storage_version="2.2",
        enable_stable_row_ids=True,
    )


def index(ds: lance.LanceDataset) -> list[str | None]:
    states = coverage(ds, SPEC)
    for state in states:
        bring_up_to_date(ds, state)
    return [state.action for state in states]


def found(ds: lance.LanceDataset, query: str) -> set[str]:
    return set(full_text(ds, query)["image_id"].to_pylist())


def test_words_are_found_as_written(tmp_path: Path) -> None:
    ds = write(tmp_path, rows(CAPTIONS))
    index(ds)
    assert found(ds, "SNOW") == {"a/0", "a/3"}
    assert found(ds, "runs") == {"a/0"}  # not the runner: no stemming
    assert found(ds, "not") == {"a/4"}  # stop words count
    assert found(ds, '"red fox"') == {"a/0"}
    assert found(ds, '"fox red"') == set()
    assert found(ds, "zebra") == set()
    assert found(ds, "") == set()


def test_rows_set_aside_are_not_found(tmp_path: Path) -> None:
    table = rows(CAPTIONS)
    reasons = pa.array(["decode", None, None, None, None], pa.string())
    ds = write(tmp_path, table.set_column(2, "set_aside", reasons))
    index(ds)
    assert found(ds, "snow") == {"a/3"}


def test_new_rows_are_found_before_and_after_the_index_is_extended(tmp_path: Path) -> None:
    ds = write(tmp_path, rows(CAPTIONS))
    assert index(ds) == [BUILD]
    ds = write(tmp_path, rows(["one more fox"], first=9), mode="append")
    assert found(ds, "fox") == {"a/0", "a/3", "a/9"}
    assert index(ds) == [EXTEND]
    version = ds.version
    assert index(ds) == [None]
    assert ds.version == version
    assert found(ds, "fox") == {"a/0", "a/3", "a/9"}


def test_without_an_index_a_text_search_says_what_to_do(tmp_path: Path) -> None:
    ds = write(tmp_path, rows([None, None]))
    assert index(ds) == [None]
    with pytest.raises(UnknownError, match="search_index"):
        full_text(ds, "fox")


@pytest.mark.parametrize("count", [40, 600])
def test_a_vector_finds_itself_with_and_without_an_index(tmp_path: Path, count: int) -> None:
    table = rows([None] * count, dimension=24)
    ds = write(tmp_path, table)
    assert index(ds) == [None, BUILD if count >= SPEC.min_vectors else None]
    vector = table["embedding"][7].as_py()
    got = nearest(ds, [3 * value for value in vector], 5)
    assert got.num_rows == 5
    assert got["image_id"][0].as_py() == "a/7"  # the length of a vector doesn't matter
    assert got["_distance"][0].as_py() == pytest.approx(0, abs=1e-5)


def test_vectors_of_another_length_or_none_are_refused(tmp_path: Path) -> None:
    ds = write(tmp_path, rows(CAPTIONS))
    with pytest.raises(UnknownError, match="no vectors"):
        nearest(ds, [1.0, 2.0])
    other = write(tmp_path / "other", rows(CAPTIONS, dimension=8))
    with pytest.raises(UnknownError, match="vectors of 8"):
        nearest(other, [1.0, 2.0])
