from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prx_assets.captions.spec import DECODE_VERSION, CaptionsSpec
from prx_assets.image import decode
from prx_resources.contract import row_fingerprint

SPEC = CaptionsSpec(engine="my.engine:Model", model="org/vlm", prompt="Describe.")


@pytest.mark.parametrize(
    "change",
    [
        {"engine": "measured"},
        {"model": "org/other"},
        {"revision": "abc"},
        {"prompt": "Describe it."},
        {"sampling": {"temperature": 0.2}},
        {"max_pixels": 100_000},
        {"min_words": 50},
    ],
)
def test_whatever_changes_a_caption_changes_its_identity(change: dict[str, object]) -> None:
    other = replace(SPEC, **change)  # type: ignore[arg-type]
    before = row_fingerprint("captions", SPEC.ingredients())
    assert row_fingerprint("captions", other.ingredients()) != before


def test_it_survives_the_way_to_the_job() -> None:
    assert CaptionsSpec(**json.loads(json.dumps(SPEC.params))) == SPEC


def test_the_decode_policy_is_part_of_the_identity() -> None:
    assert decode.DECODE_VERSION == DECODE_VERSION
    assert CaptionsSpec().ingredients()["decode_version"] == DECODE_VERSION
