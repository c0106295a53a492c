from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx_assets.image.buckets import LEVELS, Bucket, assign, assign_many, min_pixels, table

TABLE = """
0.500 352x704 704x1408 1408x2816 2816x5632
0.571 384x672 768x1344 1536x2688 3072x5376
0.600 384x640 768x1280 1536x2560 3072x5120
0.684 416x608 832x1216 1664x2432 3328x4864
0.778 448x576 896x1152 1792x2304 3584x4608
0.882 480x544 960x1088 1920x2176 3840x4352
1.000 512x512 1024x1024 2048x2048 4096x4096
1.133 544x480 1088x960 2176x1920 4352x3840
1.286 576x448 1152x896 2304x1792 4608x3584
1.462 608x416 1216x832 2432x1664 4864x3328
1.667 640x384 1280x768 2560x1536 5120x3072
1.750 672x384 1344x768 2688x1536 5376x3072
2.000 704x352 1408x704 2816x1408 5632x2816
"""

sides = st.integers(1, 20_000)
usable = st.tuples(sides, sides).filter(lambda size: assign(*size) is not None)


def test_the_table_is_the_published_one() -> None:
    rows = [line.split() for line in TABLE.strip().splitlines()]
    for column, level in enumerate(LEVELS, start=1):
        made = [(bucket.dir, f"{bucket.width}x{bucket.height}") for bucket in table()[level]]
        assert made == [(row[0], row[column]) for row in rows]


def test_levels_begin_at_three_quarters_of_their_side() -> None:
    assert [min_pixels(level) for level in LEVELS] == [147_456, 589_824, 2_359_296, 9_437_184]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((384, 384), Bucket(512, 512, 512)),
        ((384, 383), None),
        ((768, 768), Bucket(1024, 1024, 1024)),
        ((768, 767), Bucket(512, 512, 512)),
        ((1000, 2000), Bucket(1024, 704, 1408)),
        ((1000, 2001), None),
        ((2001, 1000), None),
        ((4000, 3000), Bucket(4096, 4608, 3584)),
        ((0, 0), None),
        ((70_000, 70_000), Bucket(4096, 4096, 4096)),
    ],
)
def test_sizes_on_the_edges(size: tuple[int, int], expected: Bucket | None) -> None:
    assert assign(*size) == expected


def test_the_middle_between_two_buckets_goes_to_the_narrower_one() -> None:
    # 0.5 and 4/7 have the mean 15/28.
    assert assign(1500, 2800) == Bucket(2048, 1408, 2816)
    assert assign(1501, 2800) == Bucket(2048, 1536, 2688)


@settings(deadline=None)
@given(usable)
def test_the_bucket_is_the_nearest_by_width_over_height(size: tuple[int, int]) -> None:
    bucket = assign(*size)
    assert bucket is not None
    ratio = Fraction(*size)
    best = min(abs(ratio - other.ratio) for other in table()[bucket.level])
    assert abs(ratio - bucket.ratio) == best


@settings(deadline=None)
@given(st.tuples(sides, sides))
def test_the_level_is_the_largest_reached_by_growing_no_more_than_four_thirds(
    size: tuple[int, int],
) -> None:
    width, height = size
    reached = [level for level in LEVELS if 16 * width * height >= 9 * level * level]
    fits = height <= 2 * width and width <= 2 * height
    bucket = assign(width, height)
    assert (bucket.level if bucket else None) == (max(reached) if reached and fits else None)


@settings(deadline=None)
@given(usable)
def test_no_image_is_stretched_by_more_than_a_fourteenth(size: tuple[int, int]) -> None:
    bucket = assign(*size)
    assert bucket is not None
    stretch = Fraction(*size) / bucket.ratio
    assert max(stretch, 1 / stretch) <= Fraction(15, 14)


def test_the_largest_stretch_is_reached() -> None:
    bucket = assign(1500, 2800)
    assert bucket is not None
    assert Fraction(1500, 2800) / bucket.ratio == Fraction(15, 14)


@settings(deadline=None)
@given(st.lists(st.tuples(sides, sides), max_size=30))
def test_many_at_once_are_assigned_as_one_by_one(sizes: list[tuple[int, int]]) -> None:
    levels, indexes = assign_many([size[0] for size in sizes], [size[1] for size in sizes])
    assert levels.dtype == np.int64
    many = [
        table()[level][index] if level else None
        for level, index in zip(levels.tolist(), indexes.tolist(), strict=True)
    ]
    assert many == [assign(*size) for size in sizes]
