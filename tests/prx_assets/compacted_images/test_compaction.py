from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from prx_assets.compacted_images.compaction import Fragment, choose

TARGET = 100


def chosen(*sizes: tuple[int, int]) -> set[int]:
    parts = [Fragment(number, rows, deleted) for number, (rows, deleted) in enumerate(sizes)]
    return choose(parts, TARGET, 0.2)


def test_fragments_over_half_the_target_are_left_alone() -> None:
    assert chosen((50, 0), (100, 0), (99, 0)) == set()


def test_small_ones_wait_until_they_add_up_to_half_of_one() -> None:
    assert chosen((100, 0), (20, 0), (29, 0)) == set()
    assert chosen((100, 0), (20, 0), (30, 0)) == {1, 2}
    assert chosen((49, 0)) == set()


def test_many_deleted_rows_are_reason_enough() -> None:
    assert chosen((100, 20), (100, 21), (10, 3)) == {1, 2}


def test_nothing_of_nothing() -> None:
    assert chosen() == set()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=60))
def test_each_row_is_rewritten_a_few_times_at_most(appends: list[int]) -> None:
    """Compacting after every append must not cost more than the appends, times a small number."""
    fragments: list[int] = []
    rewritten = 0
    for rows in appends:
        fragments.append(rows)
        parts = [Fragment(number, size, 0) for number, size in enumerate(fragments)]
        due = choose(parts, TARGET, 0.2)
        if due:
            joined = sum(fragments[number] for number in due)
            rewritten += joined
            kept = [size for number, size in enumerate(fragments) if number not in due]
            full, rest = divmod(joined, TARGET)
            fragments = kept + [TARGET] * full + ([rest] if rest else [])
    assert rewritten <= 2 * sum(appends)
    assert sum(fragments) == sum(appends)
