from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx_assets.image.eligibility import (
    ELIGIBLE,
    OUTSIDE_ASPECT,
    TOO_SMALL,
    USABLE,
    eligible,
    fate,
)


@pytest.mark.parametrize(
    ("width", "height", "want"),
    [
        (384, 384, USABLE),
        (383, 384, TOO_SMALL),
        (1000, 500, USABLE),
        (1001, 500, OUTSIDE_ASPECT),
        (500, 1000, USABLE),
        (500, 1001, OUTSIDE_ASPECT),
        (1, 1, TOO_SMALL),
    ],
)
def test_fate(width: int, height: int, want: str) -> None:
    assert fate(width, height) == want


@given(st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 9000)), min_size=1, max_size=50))
def test_sql_and_function_agree(sizes: list[tuple[int, int]]) -> None:
    rows = ",".join(f"(NULL, {w}, {h}, {w}::BIGINT*{h})" for w, h in sizes)
    query = f"SELECT {ELIGIBLE} FROM (VALUES {rows}) t(set_aside, width, height, pixels)"
    got = [row[0] for row in duckdb.sql(query).fetchall()]
    assert got == [eligible(w, h) for w, h in sizes]
