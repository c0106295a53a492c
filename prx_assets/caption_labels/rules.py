"""A rule engine for tests: its labels are known in advance. It says so in `label_model`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prx_assets.caption_labels.engine import LabelResult
from prx_assets.caption_labels.spec import CaptionLabelsSpec

_NSFW = re.compile(r"\b(nude|naked|explicit|pornographic|erotic)\b", re.IGNORECASE)
_TEXT = re.compile(r"\b(screenshot|document|slide|page|receipt|lines of text)\b", re.IGNORECASE)


class RuleLabels:
    """Labels by a handful of words."""

    label_model = "test-rules/1 (for tests only, not a classifier)"

    def __init__(self, spec: CaptionLabelsSpec) -> None:
        self.spec = spec

    def label(self, captions: Sequence[str]) -> list[LabelResult]:
        """Returns nsfw, text or visual by the first word list that matches."""
        return [LabelResult(_by_rule(caption), 1.0) for caption in captions]


def _by_rule(caption: str) -> str:
    if _NSFW.search(caption):
        return "nsfw"
    return "text" if _TEXT.search(caption) else "visual"
