"""What the profiling job must know."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

STAGE = "source_profile"
CODE_VERSION = 1
"""Bumped by hand whenever the same table would give another profile."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("rows_accounted", True, "Every row is eligible, outside the policy, or set aside."),
    ("enough_eligible", False, "At least a tenth of the rows can be used for training."),
)
"""(name, blocking, description) of the asset's checks."""


@dataclass(frozen=True)
class SourceProfileSpec:
    """How a source is profiled; there is nothing to choose."""

    def ingredients(self) -> dict[str, Any]:
        """Returns all of the configuration that changes the profile."""
        return {"code_version": CODE_VERSION, **self.params}

    @property
    def params(self) -> dict[str, Any]:
        """The spec as the `params` of a `JobSpec`."""
        return asdict(self)
