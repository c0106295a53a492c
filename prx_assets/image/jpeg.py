"""How strongly a JPEG was compressed, read from its quantisation tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

# Tables K.1 and K.2 of the JPEG standard (ITU-T T.81), row by row.
_LUMA = (
    "16 11 10 16 24 40 51 61 12 12 14 19 26 58 60 55 14 13 16 24 40 57 69 56"
    " 14 17 22 29 51 87 80 62 18 22 37 56 68 109 103 77 24 35 55 64 81 104 113 92"
    " 49 64 78 87 103 121 120 101 72 92 95 98 112 100 103 99"
)
_CHROMA = (
    "17 18 24 47 99 99 99 99 18 21 26 66 99 99 99 99 24 26 56 99 99 99 99 99"
    " 47 66 99 99 99 99 99 99" + " 99" * 32
)


def _scaled(table: str) -> npt.NDArray[np.float64]:
    """Returns the table at qualities 1 to 100 as the reference encoder scales it: 100 x 64."""
    base = np.array(table.split(), dtype=np.int64)
    quality = np.arange(1, 101)
    scale = np.where(quality < 50, 5000 // quality, 200 - 2 * quality)
    steps = np.clip((base * scale[:, None] + 50) // 100, 1, 255)
    return np.asarray(steps, dtype=np.float64)


_STANDARD = (_scaled(_LUMA), _scaled(_CHROMA))


def estimate_quality(tables: Mapping[int, Sequence[int]]) -> int | None:
    """Returns the quality (1-100) whose standard tables are nearest in the least-squares sense.

    Args:
        tables: Table number to its 64 steps in row order, as Pillow's `quantization` gives them.

    Returns:
        The estimate, or None if there is no table to match.
    """
    distance = np.zeros(100)
    matched = False
    for number, standard in enumerate(_STANDARD):
        table = tables.get(number)
        if table is not None and len(table) == 64:
            distance += ((standard - np.asarray(table, dtype=np.float64)) ** 2).sum(axis=1)
            matched = True
    return int(distance.argmin()) + 1 if matched else None
