"""Of rows with one image_id the first stays, the others are set aside."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prx_resources.lance_sql import all_of, is_in

DUPLICATE_KEY = "duplicate_key"
_CANDIDATES = f"set_aside IS NULL OR set_aside = '{DUPLICATE_KEY}'"
_BATCH_ROWS = 65_536
_LOOK_UP = 2_000
_COLUMNS = [
    "image_id",
    "source_file",
    "source_row",
    "content_sha256",
    "set_aside",
    "set_aside_detail",
]


def decide(ds: lance.LanceDataset) -> pa.Table:
    """Returns the rows whose `set_aside` must change so that every key is used once.

    Rows set aside for another reason neither take a key nor change.

    Args:
        ds: The table's latest version.

    Returns:
        `_rowid`, `content_sha256`, `set_aside`, `set_aside_detail`.
    """
    marked = ds.to_table(columns=["image_id"], filter=f"set_aside = '{DUPLICATE_KEY}'")
    keys = set(marked["image_id"].to_pylist()) | _repeated(ds)
    changes: list[dict[str, object]] = []
    ordered = sorted(keys)
    for start in range(0, len(ordered), _LOOK_UP):
        changes += _changes(ds, ordered[start : start + _LOOK_UP])
    return pa.Table.from_pylist(
        changes,
        schema=pa.schema(
            [
                ("_rowid", pa.uint64()),
                ("content_sha256", pa.string()),
                ("set_aside", pa.string()),
                ("set_aside_detail", pa.string()),
            ]
        ),
    )


def _repeated(ds: lance.LanceDataset) -> set[str]:
    """Returns keys that more than one usable row has. Memory: 8 bytes a row, beside the result."""
    hashes = [part for part, _ in _hashed(ds)]
    if not hashes:
        return set()
    values, counts = np.unique(np.concatenate(hashes), return_counts=True)
    suspects = values[counts > 1]
    del values, counts, hashes
    if not len(suspects):
        return set()
    # Hashes may collide; `_changes` groups by the keys themselves.
    found: set[str] = set()
    for part, keys in _hashed(ds):
        found.update(keys[i] for i in np.flatnonzero(np.isin(part, suspects)))
    return found


def _hashed(ds: lance.LanceDataset) -> Iterator[tuple[npt.NDArray[np.int64], list[str]]]:
    scanner = ds.scanner(columns=["image_id"], filter=_CANDIDATES, batch_size=_BATCH_ROWS)
    for batch in scanner.to_batches():
        keys = batch["image_id"].to_pylist()
        yield np.fromiter(map(hash, keys), np.int64, len(keys)), keys


def _changes(ds: lance.LanceDataset, keys: list[str]) -> list[dict[str, object]]:
    table = ds.to_table(
        columns=_COLUMNS, filter=all_of(_CANDIDATES, is_in("image_id", keys)), with_row_id=True
    ).sort_by([(name, "ascending") for name in ("image_id", "source_file", "source_row")])
    changes: list[dict[str, object]] = []
    for image_id, group in itertools.groupby(table.to_pylist(), lambda row: row["image_id"]):
        first, *others = group
        if first["set_aside"] is not None:
            changes.append(_change(first, None, None))
        place = f"{first['source_file']} row {first['source_row']}"
        detail = f"{DUPLICATE_KEY}: {image_id} is already the key of {place}"
        changes += [
            _change(row, DUPLICATE_KEY, detail)
            for row in others
            if row["set_aside_detail"] != detail
        ]
    return changes


def _change(row: dict[str, object], reason: str | None, detail: str | None) -> dict[str, object]:
    kept = {name: row[name] for name in ("_rowid", "content_sha256")}
    return {**kept, "set_aside": reason, "set_aside_detail": detail}
