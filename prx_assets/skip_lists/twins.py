"""Recognising taken-down pictures: by id, by content, by look, and by duplicate group."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Bools = NDArray[np.bool_]


class Takedowns:
    """The requests, ready for matching.

    Args:
        table: `prx_resources.takedowns.SCHEMA`.
        tolerance: Largest difference of any signature byte between two copies.
    """

    def __init__(self, table: pa.Table, tolerance: int) -> None:
        self._table = table.combine_chunks()
        self._tolerance = tolerance

    def names(self, pictures: pa.Table) -> Bools:
        """Tells which of the pictures are requested by id or content.

        Args:
            pictures: With `image_id` and `content_sha256`.
        """
        named = [
            pc.is_in(
                pictures[column], value_set=self._table[column].combine_chunks(), skip_nulls=True
            ).to_numpy()
            for column in ("image_id", "content_sha256")
        ]
        found: Bools = named[0] | named[1]
        return found

    def twins(self, rows: pa.Table, duplicates: pa.Table, entry: NDArray[np.int64]) -> Bools:
        """Tells which rows are requested, look like a requested picture, or share its group.

        Args:
            rows: See `compile.Inputs`.
            duplicates: See `compile.Inputs`.
            entry: For each row its place in `duplicates`, or -1.
        """
        direct = self.names(rows) | self._look_alike(rows)
        encoded = duplicates["group"].combine_chunks().dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        of_row = np.append(codes, -1)[entry]
        # The table of groups may know members that are no rows any more.
        hit = np.concatenate([codes[self.names(duplicates)], of_row[direct]])
        found: Bools = direct | ((of_row >= 0) & np.isin(of_row, hit))
        return found

    def _look_alike(self, rows: pa.Table) -> Bools:
        wanted = self._table.filter(
            pc.and_(pc.is_valid(self._table["phash"]), pc.is_valid(self._table["signature"]))
        )
        signatures: dict[int, list[bytes]] = defaultdict(list)
        for other in wanted.select(["phash", "signature"]).to_pylist():
            signatures[other["phash"]].append(other["signature"])
        found = np.zeros(rows.num_rows, np.bool_)
        same = pc.is_in(
            rows["phash"], value_set=wanted["phash"].combine_chunks(), skip_nulls=True
        ).to_numpy()
        flat = pc.fill_null(rows["phash_flat"], True).to_numpy()
        for number in np.flatnonzero(same & ~flat):
            phash, signature = (rows[name][int(number)].as_py() for name in ("phash", "signature"))
            found[number] = signature is not None and any(
                self._close(signature, other) for other in signatures[phash]
            )
        return found

    def _close(self, left: bytes, right: bytes) -> bool:
        one, two = (np.frombuffer(text, np.uint8).astype(np.int16) for text in (left, right))
        return bool(np.abs(one - two).max() <= self._tolerance)
