"""Which images are the same picture: groups over arrays of hashes.

Everything is sorting and comparing of whole arrays. Pairs are formed only among rows of one hash,
which are few; where they are many, each picture is compared with those of similar colour only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 12
"""Largest difference of any signature byte between two copies."""

SMALL_BUCKET = 64
"""Rows of one hash up to which all pairs are formed at once."""

_PAIRS_AT_ONCE = 1 << 20

Rows = NDArray[np.int64]
Pairs = tuple[Rows, Rows]


def groups(
    phash: NDArray[np.uint64],
    signature: NDArray[np.uint8],
    flat: NDArray[np.bool_],
    content: NDArray[np.uint64],
    tolerance: int = TOLERANCE,
) -> Rows:
    """Returns the group of each row: the connected components of the relation "is a copy of".

    Two rows match if their hashes are equal, no byte of their signatures differs by more than
    `tolerance` and neither is flat. Byte-identical files match always: a flat image's hash says
    nothing, but its file does.

    Args:
        phash: Shape (n,).
        signature: Shape (n, 48).
        flat: Shape (n,).
        content: Digest of each file, shape (n, words).
        tolerance: See above.

    Returns:
        Shape (n,): 0, 1, ... for the groups of two or more, -1 for rows without a copy.
    """
    result: Rows = np.full(len(phash), -1, dtype=np.int64)
    found = [*_identical(content), *_similar(phash, signature, flat, tolerance)]
    if not found:
        return result
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    left, right = (np.concatenate(side) for side in zip(*found, strict=True))
    nodes, index = np.unique(np.concatenate([left, right]), return_inverse=True)
    ends = index[: len(left)], index[len(left) :]
    links = coo_array((np.ones(len(left), np.bool_), ends), shape=(len(nodes), len(nodes)))
    result[nodes] = connected_components(links, directed=False)[1]
    return result


def _identical(content: NDArray[np.uint64]) -> Iterator[Pairs]:
    order = np.lexsort(content.T)
    ordered = content[order]
    same = (ordered[1:] == ordered[:-1]).all(axis=1)
    if same.any():
        yield order[:-1][same], order[1:][same]


def _similar(
    phash: NDArray[np.uint64],
    signature: NDArray[np.uint8],
    flat: NDArray[np.bool_],
    tolerance: int,
) -> Iterator[Pairs]:
    rows = np.flatnonzero(~flat)
    rows = rows[np.argsort(phash[rows], kind="stable")]
    ordered = phash[rows]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.diff(np.append(starts, len(rows)))
    small = np.repeat((sizes > 1) & (sizes <= SMALL_BUCKET), sizes)
    bucket = np.repeat(np.arange(len(sizes)), sizes)
    yield from _all_pairs(rows[small], bucket[small], signature, tolerance)
    for large in np.flatnonzero(sizes > SMALL_BUCKET):
        members = rows[starts[large] : starts[large] + sizes[large]]
        yield from _links_in_large(members, signature, tolerance)


def _all_pairs(
    rows: Rows, bucket: Rows, signature: NDArray[np.uint8], tolerance: int
) -> Iterator[Pairs]:
    """Yields the matches in buckets that lie side by side: neighbours, next but one, ..."""
    for distance in range(1, SMALL_BUCKET):
        first = np.flatnonzero(bucket[distance:] == bucket[:-distance])
        if not len(first):
            return
        for start in range(0, len(first), _PAIRS_AT_ONCE):
            part = first[start : start + _PAIRS_AT_ONCE]
            left, right = rows[part], rows[part + distance]
            match = _agree(signature[left], signature[right], tolerance)
            yield left[match], right[match]


def _links_in_large(members: Rows, signature: NDArray[np.uint8], tolerance: int) -> Iterator[Pairs]:
    """Yields enough matches of one large bucket to connect what belongs together.

    Equal signatures are folded into one first. Then each component is walked from one of its
    members, comparing only with those not reached yet, within a window of the colour value that
    varies most. So a bucket of copies takes one pass and a bucket of strangers narrow windows.
    """
    distinct, first, inverse = np.unique(
        signature[members], axis=0, return_index=True, return_inverse=True
    )
    same = members[first[inverse.ravel()]]
    yield same[same != members], members[same != members]
    column = int(distinct.astype(np.float32).std(axis=0).argmax())
    order = np.argsort(distinct[:, column], kind="stable")
    values, rows = distinct[order], members[first[order]]
    key = values[:, column].astype(np.int64)
    low = np.searchsorted(key, key - tolerance, side="left")
    high = np.searchsorted(key, key + tolerance, side="right")
    reached = np.zeros(len(rows), dtype=np.bool_)
    for seed in range(len(rows)):
        stack = [] if reached[seed] else [seed]
        reached[seed] = True
        while stack:
            at = stack.pop()
            near = low[at] + np.flatnonzero(~reached[low[at] : high[at]])
            near = near[_agree(values[near], values[at], tolerance)]
            reached[near] = True
            stack.extend(near.tolist())
            if len(near):
                yield np.full(len(near), rows[at]), rows[near]


def _agree(left: NDArray[np.uint8], right: NDArray[np.uint8], tolerance: int) -> NDArray[np.bool_]:
    difference = np.maximum(left, right) - np.minimum(left, right)
    result: NDArray[np.bool_] = (difference <= tolerance).all(axis=-1)
    return result
