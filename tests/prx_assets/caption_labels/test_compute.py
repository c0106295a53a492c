from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from prx_assets.caption_labels.compute import LabelCompute
from prx_assets.caption_labels.engine import LabelResult
from prx_assets.caption_labels.spec import CaptionLabelsSpec
from prx_resources.columns import CAPTION_LABELS
from prx_resources.errors import EngineError, UnknownError

RULES = CaptionLabelsSpec(engine="rules")


class Obedient:
    """Does what captions tell it to, as a generating model may."""

    label_model = "obedient/1"

    def __init__(self, spec: CaptionLabelsSpec) -> None:
        self.sizes: list[int] = []

    def label(self, captions: Sequence[str]) -> list[LabelResult]:
        self.sizes.append(len(captions))
        if any("crash" in caption for caption in captions):
            raise ValueError("told to")
        if any("die" in caption for caption in captions):
            raise EngineError("gone")
        return [LabelResult(caption.removeprefix("answer "), 0.5) for caption in captions]


@pytest.fixture
def obedient(monkeypatch: pytest.MonkeyPatch) -> LabelCompute:
    monkeypatch.setattr(
        "prx_assets.caption_labels.engine.load_engine_class", lambda *args, **kwargs: Obedient
    )
    return LabelCompute(CaptionLabelsSpec(engine="made:Up"), batch_size=2)


def table(captions: Sequence[str | None]) -> pa.Table:
    return pa.table({"caption": pa.array(captions, pa.string())})


def test_rows_keep_their_order_and_other_answers_are_no_labels(obedient: LabelCompute) -> None:
    found = obedient(table(["answer text", "answer approved", "crash", "answer nsfw", None]))
    assert found["label"].to_pylist() == ["text", None, None, "nsfw", None]
    assert found["label_error"].to_pylist() == [
        None,
        "answer: not a label: 'approved'",
        "engine: ValueError: told to",
        None,
        "answer: not a label: ''",
    ]
    assert found["label_model"].to_pylist() == ["obedient/1"] * 5


def test_a_dead_engine_stops_the_job(obedient: LabelCompute) -> None:
    with pytest.raises(EngineError, match="gone"):
        obedient(table(["answer text", "die"]))


def test_the_columns_are_the_group_without_what_the_driver_fills() -> None:
    found = LabelCompute(RULES)(table(["A dog."]))
    left_out = {CAPTION_LABELS.fp, CAPTION_LABELS.input}
    assert found.schema.names == [name for name in CAPTION_LABELS.names if name not in left_out]
    assert LabelCompute(RULES)(table([])).num_rows == 0


@pytest.mark.parametrize(
    ("caption", "label"),
    [
        ("A dog on a beach.", "visual"),
        ("A screenshot of a form.", "text"),
        ("A nude figure beside a page.", "nsfw"),
    ],
)
def test_the_rules_are_known_in_advance_and_say_that_they_are_for_tests(
    caption: str, label: str
) -> None:
    (found,) = LabelCompute(RULES).label([caption])
    assert (found.label, found.label_confidence) == (label, 1.0)
    assert found.label_model == "test-rules/1 (for tests only, not a classifier)"


def test_the_built_in_model_says_what_it_is() -> None:
    (found,) = LabelCompute(CaptionLabelsSpec()).label(["A dog on a beach."])
    assert found.label == "visual"
    assert found.label_model is not None
    assert "MiniLM" in found.label_model


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UnknownError, match="no label engine 'gpt'"):
        LabelCompute(CaptionLabelsSpec(engine="gpt"))
