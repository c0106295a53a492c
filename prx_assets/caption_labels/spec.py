"""What the labelling job must know."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

STAGE = "caption_labels"
CODE_VERSION = 1
"""Bumped by hand whenever a built-in engine would give other labels (its class prompts too)."""

LABELS = ("visual", "text", "nsfw")
"""Every label there is. Only visual rows reach a trainer."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("rows_accounted", True, "Every captioned row has a label or a reason why not."),
    ("one_identity", False, "All labels were given by the configured engine and model."),
    ("failed_rows", False, "No row failed."),
)
"""(name, blocking, description) of the asset's checks."""


@dataclass(frozen=True)
class CaptionLabelsSpec:
    """How captions are put into the classes visual, text and nsfw.

    Attributes:
        engine: `minilm` (built-in, zero-shot, CPU) or `package.module:Class` of one's own.
        model: Model that the engine loads; the built-in one has its own and ignores it.
        revision: The model's revision.
    """

    engine: str = "minilm"
    model: str = ""
    revision: str = ""

    def ingredients(self) -> dict[str, Any]:
        """Returns all that changes a label, for the row fingerprint."""
        return {"code_version": CODE_VERSION, **asdict(self)}

    @property
    def params(self) -> dict[str, Any]:
        """The spec as the `params` of a `JobSpec`."""
        return asdict(self)
