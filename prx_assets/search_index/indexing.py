"""Building the indexes of an image table, and telling whether they need it."""

from __future__ import annotations

from dataclasses import dataclass

import lance

from prx_assets.search_index.search import (
    METRIC,
    TEXT_COLUMN,
    TEXT_INDEX,
    VECTOR_COLUMN,
    VECTOR_INDEX,
    index_names,
    vector_length,
)
from prx_assets.search_index.spec import SearchIndexSpec

BUILD, EXTEND = "build", "extend"

_ROWS_PER_PARTITION = 4096


@dataclass(frozen=True)
class Coverage:
    """One column and its index.

    Attributes:
        index: The index's name.
        column: What is searched.
        values: Rows with a value.
        built: Whether there is an index.
        outside: Rows of the table that the index doesn't cover; searches look at each of them.
        action: `BUILD`, `EXTEND`, or None if nothing is to be done.
    """

    index: str
    column: str
    values: int
    built: bool
    outside: int
    action: str | None


def coverage(ds: lance.LanceDataset, spec: SearchIndexSpec) -> list[Coverage]:
    """Returns the state of every index the table should have."""
    found = [_coverage(ds, TEXT_INDEX, TEXT_COLUMN, 1, spec)]
    if vector_length(ds):
        found.append(_coverage(ds, VECTOR_INDEX, VECTOR_COLUMN, spec.min_vectors, spec))
    return found


def bring_up_to_date(ds: lance.LanceDataset, state: Coverage) -> None:
    """Builds or extends one index as `state.action` says; a new version of the table each."""
    if state.action == EXTEND:
        ds.optimize.optimize_indices(index_names=[state.index])
    elif state.action == BUILD and state.index == TEXT_INDEX:
        # Captions are searched for what they say: no stemming, no stop words, and with positions,
        # which phrases need.
        ds.create_scalar_index(
            TEXT_COLUMN,
            "INVERTED",
            name=TEXT_INDEX,
            stem=False,
            remove_stop_words=False,
            with_position=True,
        )
    elif state.action == BUILD:
        ds.create_index(
            VECTOR_COLUMN,
            "IVF_PQ",
            name=VECTOR_INDEX,
            metric=METRIC,
            num_partitions=max(1, state.values // _ROWS_PER_PARTITION),
            num_sub_vectors=_sub_vectors(vector_length(ds)),
        )


def _coverage(
    ds: lance.LanceDataset, index: str, column: str, enough: int, spec: SearchIndexSpec
) -> Coverage:
    values = ds.count_rows(filter=f"{column} IS NOT NULL")
    built = index in index_names(ds)
    if not built:
        action = BUILD if values >= enough else None
        return Coverage(index, column, values, built, ds.count_rows(), action)
    outside = int(ds.stats.index_stats(index)["num_unindexed_rows"])
    late = outside > spec.max_unindexed * ds.count_rows()
    return Coverage(index, column, values, built, outside, EXTEND if late else None)


def _sub_vectors(dimension: int) -> int:
    # IVF_PQ wants a divisor; eight numbers in one code is the usual compromise.
    wanted = max(1, dimension // 8)
    return next(count for count in range(wanted, 0, -1) if dimension % count == 0)
