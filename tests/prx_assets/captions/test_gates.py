from __future__ import annotations

import pytest

from prx_assets.captions.engine import CaptionResult
from prx_assets.captions.gates import failed_gates, word_count
from prx_assets.captions.spec import GATES, CaptionsSpec

PROMPT = "Describe this image in one dense paragraph of 100 to 200 words. Say what is visible."
SPEC = CaptionsSpec(prompt=PROMPT, min_words=5, max_words=60)
GOOD = (
    "A red tram climbs a steep street between pastel houses, its headlight on, while two people"
    " with umbrellas wait under a sign that reads Praça."
)


def gates(text: str, **result: object) -> list[str]:
    return failed_gates(CaptionResult(text, **result), SPEC)  # type: ignore[arg-type]


def test_a_good_caption_fails_none() -> None:
    assert gates(GOOD) == []


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("Too short.", "words"),
        (" ".join(f"word{number}" for number in range(61)) + ".", "words"),
        ("On the left a man, " * 5 + "and a dog.", "loop"),
        ("The grass is very very very very green near the house.", "loop"),
        ("I'm sorry, but I can't describe this picture for you.", "refusal"),
        ("I cannot help with the description of this picture.", "refusal"),
        ("As an AI language model I see no picture here.", "refusal"),
        ("A wide street with tall houses on both sides and a", "cut_off"),
        ("Describe this image in one dense paragraph of 100 to 200 words, a dog.", "prompt_copied"),
        ("A dog <b>runs</b> over a wide meadow.", "markup"),
        ("**Scene:** a dog runs over a wide meadow.", "markup"),
        ("# A dog\nIt runs over a wide meadow.", "markup"),
        ("A dog runs over a wide meadow.<|im_end|>.", "markup"),
        ('{"caption": "a dog runs over a meadow"}.', "markup"),
    ],
)
def test_each_gate_finds_its_fault_alone(text: str, gate: str) -> None:
    assert gates(text) == [gate]


def test_a_caption_stopped_at_the_token_limit_is_cut_off_even_after_a_full_stop() -> None:
    assert gates(GOOD, finish_reason="length") == ["cut_off"]


@pytest.mark.parametrize(
    "text",
    [
        "A sign on the wall reads 'No entry - sorry for the inconvenience'.",
        "A woman who cannot see the camera looks at the number 7 - 3 on a board.",
        "The wall measures < 3 metres and the tree > 5 metres in height.",
        'A shop window shows the words "Grand opening sale!"',
        "Rows of red, red and blue bricks, red doors and red roofs line the street.",
    ],
)
def test_what_looks_alike_passes(text: str) -> None:
    assert gates(text) == []


def test_several_faults_are_all_named_in_order() -> None:
    found = gates("Sorry <br> sorry")
    assert found == ["words", "refusal", "cut_off", "markup"]
    assert set(found) <= set(GATES)


def test_words_are_counted_as_people_do() -> None:
    assert word_count("A well-known painter's 3 brushes, all new.") == 7
