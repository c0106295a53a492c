"""What the job that groups duplicates must know, and what its table looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

STAGE = "duplicates"
CODE_VERSION = 1
"""Bumped by hand whenever the same hashes would give other groups or ranks."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("rows_accounted", True, "Every row that isn't set aside is covered or has no hash yet."),
    ("one_identity", False, "All hashes that were compared follow the same rules."),
    ("group_sizes", False, "No group is so large that its members can hardly all be copies."),
)
"""(name, blocking, description) of the asset's checks."""

COLUMNS: tuple[tuple[str, str], ...] = (
    ("image_id", "Primary key, over all sources."),
    ("group", "Null for an image without a copy; else the least image_id of the group."),
    ("rank", "0 for the copy to keep, then 1, 2, ...; 0 for an image without a copy."),
    ("phash", "The hash that was compared."),
    ("phash_flat", "Whether the image was flat, so that only byte-identical files matched it."),
    ("content_sha256", "The file that was compared. A row is covered if this and phash agree."),
)
"""(name, meaning) of the table's columns. A row stands for an image that was compared."""

READS_KEY = "prx.reads"
"""Key of the table's schema metadata whose JSON value says what was read: `inputs` (digest of all
that decides the table), `data_version` (digest of its rows) and `sources`, by name: `version`,
`data_version`, `rows` (covered) and `priority`."""


@dataclass(frozen=True)
class DuplicatesSpec:
    """What is compared, and when two images are the same.

    Attributes:
        sources: (name, priority) of each source; among equal copies the higher priority wins.
        signature_tolerance: Largest difference of any signature byte between two copies.
    """

    sources: tuple[tuple[str, int], ...] = ()
    signature_tolerance: int = 12

    def ingredients(self) -> dict[str, Any]:
        """Returns all of the configuration that changes the table."""
        return {"code_version": CODE_VERSION, **self.params}

    @property
    def params(self) -> dict[str, Any]:
        """The spec as the `params` of a `JobSpec`."""
        return {**asdict(self), "sources": [list(source) for source in self.sources]}

    @classmethod
    def from_params(
        cls, sources: Sequence[Sequence[Any]], signature_tolerance: int
    ) -> DuplicatesSpec:
        """Rebuilds the spec from `params`, which JSON has turned into lists."""
        pairs = tuple(sorted((str(name), int(priority)) for name, priority in sources))
        return cls(pairs, signature_tolerance)
