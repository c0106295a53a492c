"""What the skip-list job must know."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

STAGE = "skip_lists"
CODE_VERSION = 1
"""Bumped by hand whenever the same inputs would give another list."""

ALLOWABLE = ("text", "nsfw", "duplicate", "manual", "caption_gate")
"""Reasons that a profile may allow by name."""
ALWAYS = ("takedown", "takedown-twin", "superseded", "vanished", "undecided")
"""Reasons that always skip."""
REASONS = ALLOWABLE + ALWAYS

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("kept_samples_decided", True, "Every kept sample has a label for its caption and a hash."),
    ("takedowns_honoured", True, "No kept sample is taken down or a twin of one that is."),
    ("undecided_samples", False, "No sample waits for a label, a hash or the duplicates."),
    ("keeps_samples", False, "Every profile keeps at least one sample of every source."),
)
"""(name, blocking, description) of the asset's checks."""


@dataclass(frozen=True)
class SkipListsSpec:
    """Which exports get lists, under which policies.

    Attributes:
        exports: Source -> its current `export_fp`; leaves of other exports are left alone.
        profiles: Profile -> {"allow": reasons that don't skip, "blocking_gates": caption gates
            whose failure skips}.
        signature_tolerance: Largest difference of any signature byte between a picture and a
            taken-down one of equal hash.
    """

    exports: dict[str, str]
    profiles: dict[str, dict[str, list[str]]] = field(default_factory=lambda: {"default": {}})
    signature_tolerance: int = 12

    def ingredients(self) -> dict[str, Any]:
        """Returns all that changes a list beside the data, for the fingerprint."""
        return {"code_version": CODE_VERSION, **asdict(self)}

    @property
    def params(self) -> dict[str, Any]:
        """The spec as the `params` of a `JobSpec`."""
        return asdict(self)
