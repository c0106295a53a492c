"""What the job of `compacted_images` needs to know. Stdlib only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

STAGE = "compacted_images"
CODE_VERSION = 1
"""Bumped by hand when compaction leaves behind other indexes or layouts."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("rows_accounted", True, "The table has as many rows after compaction as before."),
    ("unchanged", True, "Compaction and clean-up changed no row: the data version is the same."),
)
"""(name, blocking, description) of the asset's checks, for the asset."""


@dataclass(frozen=True)
class CompactedImagesSpec:
    """How to tidy a source's table.

    Attributes:
        keep_hours: Versions younger than this stay, so that short readers need no hold.
        max_deleted: A fragment with a larger share of deleted rows is rewritten.
    """

    keep_hours: float = 24.0
    max_deleted: float = 0.2

    def ingredients(self) -> dict[str, Any]:
        """Returns what changes the table's rows: nothing does, but the code."""
        return {"code_version": CODE_VERSION}

    @property
    def params(self) -> dict[str, Any]:
        """The spec as `JobSpec.params`."""
        return asdict(self)
