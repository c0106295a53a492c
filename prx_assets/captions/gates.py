"""Quality gates: cheap rules that find captions a model got wrong."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from prx_assets.captions.engine import CaptionResult
from prx_assets.captions.spec import CaptionsSpec

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_SENTENCE_END = re.compile(r"[.!?\u3002\u2026][\"'\u201d\u2019)\]]*$")
_REFUSAL = re.compile(
    r"^\W*(?:(?:i['\u2019]?m|i am)\s+(?:so |very |really )?(?:sorry|unable)"
    r"|i\s+(?:can(?:not|['\u2019]?t)|won['\u2019]?t|will not)\s+(?:help|assist|describe|provide"
    r"|fulfil|comply|view|see|process|generate|create|identify)"
    r"|sorry\b|as an? (?:ai|language model|artificial)|unfortunately,? i\b)",
    re.IGNORECASE,
)
_MARKUP = re.compile(
    r"</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>|<\|[^|]*\|>|```|\*\*\S|^\s{0,3}#{1,6}\s|^\s*[-*]\s+\S"
    r"|^\s*\d+\.\s+\S|\[[^\]]+\]\([^)]+\)|^\s*[{\[]\s*\"",
    re.IGNORECASE | re.MULTILINE,
)
_LOOP_WORDS = 4
_LOOP_TIMES = 4
_COPIED_WORDS = 9


def word_count(text: str) -> int:
    """Returns how many words a text has."""
    return len(_WORD.findall(text))


def failed_gates(result: CaptionResult, spec: CaptionsSpec) -> list[str]:
    """Returns the names of the gates that a caption failed, in the order of `spec.GATES`.

    Args:
        result: A result with a text.
        spec: Holds the prompt and the wanted number of words.
    """
    text = result.text or ""
    words = [word.lower() for word in _WORD.findall(text)]
    failed = {
        "words": not spec.min_words <= len(words) <= spec.max_words,
        "loop": _loops(words),
        "refusal": _REFUSAL.match(text) is not None,
        "cut_off": result.finish_reason == "length" or _SENTENCE_END.search(text.strip()) is None,
        "prompt_copied": _copies(words, spec.prompt),
        "markup": _MARKUP.search(text) is not None,
    }
    return [gate for gate, holds in failed.items() if holds]


def _loops(words: list[str]) -> bool:
    """One run of four words stands there four times, or one word follows itself four times."""
    runs = Counter(zip(*(words[start:] for start in range(_LOOP_WORDS)), strict=False))
    if runs and max(runs.values()) >= _LOOP_TIMES:
        return True
    same = 1
    for word, following in pairwise(words):
        same = same + 1 if word == following else 1
        if same >= _LOOP_TIMES:
            return True
    return False


def _copies(words: list[str], prompt: str) -> bool:
    """Nine words in a row are the prompt's."""
    asked = [word.lower() for word in _WORD.findall(prompt)]
    # A short prompt is copied if it stands there as a whole.
    size = min(_COPIED_WORDS, len(asked))
    if size < 4:
        return False
    runs = {tuple(asked[start : start + size]) for start in range(len(asked) - size + 1)}
    return any(tuple(words[start : start + size]) in runs for start in range(len(words)))
