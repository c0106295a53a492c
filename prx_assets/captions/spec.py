"""What the captioning job must know."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

STAGE = "captions"
CODE_VERSION = 1
"""Bumped by hand whenever the same engine would give other captions, gates or reasons."""

DECODE_VERSION = 1
"""`image.decode.DECODE_VERSION`, which can't be imported without Pillow; a test compares them."""

GATES = ("words", "loop", "refusal", "cut_off", "prompt_copied", "markup")
"""Names of the quality gates, as `caption_gates` lists them. Settings say which ones block a row
from training; `words` only warns."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("rows_accounted", True, "Every eligible row has a caption or a reason why not."),
    ("one_identity", False, "All captions were written by the configured engine and prompt."),
    ("failed_rows", False, "No row failed."),
    ("caption_length", False, "Captions have as many words as the settings ask for."),
    ("gates", False, "No caption loops, refuses, breaks off, copies the prompt or holds markup."),
)
"""(name, blocking, description) of the asset's checks."""


@dataclass(frozen=True)
class CaptionsSpec:
    """How images are captioned.

    Attributes:
        engine: `measured` (built-in, CPU, no model) or `package.module:Class` of one's own.
        model: Model that the engine loads; `measured` has none.
        revision: The model's revision.
        prompt: What the model is asked.
        sampling: The engine's own sampling parameters.
        max_pixels: An image with more pixels is made smaller before the engine sees it.
        min_words: Shorter captions are marked with the gate `words`.
        max_words: So are longer ones.
    """

    engine: str = "measured"
    model: str = ""
    revision: str = ""
    prompt: str = ""
    sampling: dict[str, Any] = field(default_factory=dict)
    max_pixels: int = 1_048_576
    min_words: int = 40
    max_words: int = 250

    def ingredients(self) -> dict[str, Any]:
        """Returns all that changes a caption or its gates, for the row fingerprint."""
        return {"code_version": CODE_VERSION, "decode_version": DECODE_VERSION, **asdict(self)}

    @property
    def params(self) -> dict[str, Any]:
        """The spec as the `params` of a `JobSpec`."""
        return asdict(self)
