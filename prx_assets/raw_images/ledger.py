"""Which files of a source were read: what the table says, and notes on files without rows."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import lance

from prx_assets.raw_images.listing import SourceFile
from prx_resources.lake import Lake

_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Ledger:
    """The files that were read.

    Attributes:
        in_table: Path -> fingerprint -> rows in the table.
        noted: (path, fingerprint) of files that were read and gave no row.
    """

    in_table: dict[str, Counter[str]] = field(default_factory=dict)
    noted: set[tuple[str, str]] = field(default_factory=set)

    def has(self, file: SourceFile) -> bool:
        """Tells whether the file was read as it is now, and nothing older of it is left."""
        found = self.in_table.get(file.path)
        if found is None:
            return (file.path, file.source_fp) in self.noted
        return set(found) == {file.source_fp}

    def vanished(self, files: Iterable[SourceFile]) -> list[str]:
        """Returns the paths that have rows but are no longer listed."""
        return sorted(set(self.in_table) - {file.path for file in files})


def read_ledger(lake: Lake, source: str, ds: lance.LanceDataset | None) -> Ledger:
    """Reads the ledger.

    Args:
        lake: The lake.
        source: The source's name.
        ds: Its table; None if there is none yet.
    """
    noted = set()
    for key in lake.store.list(lake.ledger_prefix(source)):
        note = json.loads(lake.store.get(key))
        noted.add((note["path"], note["source_fp"]))
    in_table: dict[str, Counter[str]] = {}
    if ds is not None:
        scanner = ds.scanner(columns=["source_file", "source_fp"], batch_size=_BATCH_ROWS)
        for batch in scanner.to_batches():
            pairs = zip(
                batch["source_file"].to_pylist(), batch["source_fp"].to_pylist(), strict=True
            )
            for (path, source_fp), rows in Counter(pairs).items():
                in_table.setdefault(path, Counter())[source_fp] += rows
    return Ledger(in_table, noted)


def note_without_rows(lake: Lake, source: str, file: SourceFile) -> None:
    """Notes that a file was read and gave no row."""
    name = hashlib.sha256(f"{file.path}\0{file.source_fp}".encode()).hexdigest()[:32]
    note = {"path": file.path, "source_fp": file.source_fp, "rows": 0}
    lake.store.put_if_absent(f"{lake.ledger_prefix(source)}/{name}.json", json.dumps(note).encode())
