"""A worker's part of labelling: captions to labels, one row per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from prx_assets.caption_labels.engine import LabelEngine, LabelResult, build_engine
from prx_assets.caption_labels.spec import LABELS, CaptionLabelsSpec
from prx_resources.columns import CAPTION_LABELS
from prx_resources.errors import EngineError

_SCHEMA = pa.schema(
    [
        field
        for field in CAPTION_LABELS.fields
        if field.name not in (CAPTION_LABELS.fp, CAPTION_LABELS.input)
    ]
)
_DETAIL_LENGTH = 300


@dataclass(frozen=True)
class Label:
    """The values of one row, as the columns have them."""

    label: str | None
    label_confidence: float | None
    label_model: str | None
    label_error: str | None = None


class LabelCompute:
    """Labels rows; an engine is started once and stays.

    Args:
        spec: The engine.
        batch_size: How many captions the engine gets at once.
    """

    def __init__(self, spec: CaptionLabelsSpec, batch_size: int = 256) -> None:
        self.spec = spec
        self._batch_size = max(1, batch_size)
        self._engine: LabelEngine = build_engine(spec)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Returns the label columns of `rows` (column `caption`: text), in the same order."""
        captions = [caption or "" for caption in rows["caption"].to_pylist()]
        labels: list[Label] = []
        for start in range(0, len(captions), self._batch_size):
            labels += self.label(captions[start : start + self._batch_size])
        return pa.Table.from_pylist([vars(label) for label in labels], schema=_SCHEMA)

    def label(self, captions: Sequence[str]) -> list[Label]:
        """Returns one label per caption: needs no lake. Never raises for a caption.

        Raises:
            EngineError: The engine died.
        """
        return [self._checked(result) for result in self._ask(captions)]

    def _ask(self, captions: Sequence[str]) -> list[LabelResult]:
        try:
            results = list(self._engine.label(captions))
        except EngineError:
            raise
        except Exception as error:
            if len(captions) == 1:
                return [LabelResult(None, error=f"engine: {type(error).__name__}: {error}")]
            # One caption may spoil a batch: alone, it fails alone.
            return [self._ask([caption])[0] for caption in captions]
        if len(results) != len(captions):
            raise EngineError(
                f"label engine {self.spec.engine!r} returned {len(results)} results for"
                f" {len(captions)} captions",
                fix="return one LabelResult per caption, in order",
            )
        return results

    def _checked(self, result: LabelResult) -> Label:
        model = self._engine.label_model
        if result.label in LABELS:
            return Label(result.label, result.confidence, model)
        # A generating model may answer anything, and a caption may have told it to.
        error = result.error or f"answer: not a label: {result.label!r}"
        text = " ".join(error.encode("utf-8", "replace").decode().split())
        reason = text if ": " in text else f"engine: {text}"
        return Label(None, None, model, reason[:_DETAIL_LENGTH])
