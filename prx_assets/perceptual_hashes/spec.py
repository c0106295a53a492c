"""What the hashing job must know."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

STAGE = "perceptual_hashes"
CODE_VERSION = 1
"""Bumped by hand whenever the same bytes would give another hash, signature or flatness."""

DECODE_VERSION = 1
"""`image.decode.DECODE_VERSION`, which can't be imported without Pillow; a test compares them."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("rows_accounted", True, "Every row that isn't set aside has a hash or a reason why not."),
    ("one_identity", False, "All hashes were computed with the configured rules."),
    ("failed_rows", False, "No row failed."),
)
"""(name, blocking, description) of the asset's checks."""


@dataclass(frozen=True)
class PerceptualHashesSpec:
    """How images are hashed.

    Attributes:
        flat_std: Grey standard deviation (0-255) under which an image is flat.
        min_side: Pixels that the short side keeps when an image is decoded at reduced size.
    """

    flat_std: float = 4.0
    min_side: int = 128

    def ingredients(self) -> dict[str, Any]:
        """Returns all that changes a hash, for the row fingerprint."""
        return {"code_version": CODE_VERSION, "decode_version": DECODE_VERSION, **asdict(self)}

    @property
    def params(self) -> dict[str, Any]:
        """The spec as the `params` of a `JobSpec`."""
        return asdict(self)
