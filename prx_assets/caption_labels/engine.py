"""What a labelling engine is, and how one is found by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from prx_assets.caption_labels.spec import CaptionLabelsSpec
from prx_resources.errors import EngineError, PrxError
from prx_resources.plugins import load_engine_class

BUILTIN = {
    "minilm": "prx_assets.caption_labels.zero_shot:MiniLMLabels",
    # Not a classifier anybody should use: it exists so that tests know each label in advance.
    "rules": "prx_assets.caption_labels.rules:RuleLabels",
}


@dataclass(frozen=True)
class LabelResult:
    """The label of one caption.

    Attributes:
        label: One of `spec.LABELS`; None if the caption could not be labelled.
        confidence: 0 to 1, comparable within one engine only.
        error: "reason: detail" if `label` is None.
    """

    label: str | None
    confidence: float | None = None
    error: str | None = None


class LabelEngine(Protocol):
    """Puts captions into classes.

    An engine is made inside the worker as `Class(spec)`. Captions are untrusted text: whatever
    they say, a label is one of `spec.LABELS`.
    """

    @property
    def label_model(self) -> str:
        """What stands in the column `label_model`: says plainly what gave the label."""
        ...

    def label(self, captions: Sequence[str]) -> list[LabelResult]:
        """Returns one result per caption, in order.

        Raises:
            EngineError: The engine itself is gone; the job stops. Any other exception is taken
                for the captions' fault: they are tried one by one and fail as rows.
        """
        ...


def build_engine(spec: CaptionLabelsSpec) -> LabelEngine:
    """Returns the engine that `spec` names.

    Raises:
        UnknownError: There is no such engine.
        EngineError: It can't start.
    """
    factory = load_engine_class(spec.engine, BUILTIN, kind="label engine")
    try:
        engine: LabelEngine = factory(spec)
    except PrxError:
        raise
    except Exception as error:
        raise EngineError(
            f"the label engine {spec.engine!r} can't start: {type(error).__name__}: {error}"
        ) from error
    return engine
