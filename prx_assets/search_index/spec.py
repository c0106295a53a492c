"""What the indexing job must know."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

STAGE = "search_index"
CODE_VERSION = 1
"""Bumped by hand whenever an index would be built in another way."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("searchable", True, "Every row with an original caption or a vector is found by a search."),
    ("indexed", False, "The rows outside the indexes, searched one by one, are few."),
)
"""(name, blocking, description) of the asset's checks."""


@dataclass(frozen=True)
class SearchIndexSpec:
    """How a source is made searchable.

    Attributes:
        min_vectors: Vectors from which an index is worth it; fewer are compared one by one.
        max_unindexed: Share of rows that may lie outside an index before it is brought up to date.
    """

    min_vectors: int = 5_000
    max_unindexed: float = 0.1

    def ingredients(self) -> dict[str, Any]:
        """Returns all of the configuration that changes the indexes."""
        return {"code_version": CODE_VERSION, **asdict(self)}

    @property
    def params(self) -> dict[str, Any]:
        """The spec as the `params` of a `JobSpec`."""
        return asdict(self)
