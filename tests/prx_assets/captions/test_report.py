from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from prx_assets.captions.report import report
from prx_assets.captions.spec import CaptionsSpec

WORDS = "a dog runs over a wide green meadow towards the river"


def dataset(path: Path, captions: list[str | None], gates: list[str | None]) -> lance.LanceDataset:
    text = pa.string()
    table = pa.table(
        {
            "image_id": [f"pets/{number}" for number in range(len(captions))],
            "caption": pa.array(captions, text),
            "caption_model": pa.array([None if c is None else "m/1" for c in captions], text),
            "caption_gates": pa.array(gates, text),
        }
    )
    return lance.write_dataset(table, str(path / "t.lance"))


def test_good_captions_pass_both_checks(tmp_path: Path) -> None:
    ds = dataset(tmp_path, [WORDS + ".", WORDS + "!", None], [None, None, None])
    metadata, checks = report(ds, CaptionsSpec(min_words=5))
    assert {check.name: check.passed for check in checks} == {"caption_length": True, "gates": True}
    assert metadata["rows_by_model"].value == {"m/1": 2}
    assert metadata["median_words"].value == 11
    assert metadata["plot_words"].value.startswith("![words in a caption](data:image/png;base64,")
    assert len(metadata["plot_words"].value) < 60_000


def test_failed_gates_warn_and_are_counted(tmp_path: Path) -> None:
    ds = dataset(tmp_path, ["x", "y.", "z.", "w."], ["words,cut_off", "words", "loop", None])
    metadata, (length, gates) = report(ds, CaptionsSpec())
    assert metadata["rows_by_gate"].value == {"words": 2, "cut_off": 1, "loop": 1}
    assert (length.passed, length.warn) == (False, True)
    assert length.description.startswith("2 of 4 captions")
    assert (gates.passed, gates.warn) == (False, True)
    assert gates.description == "Failed quality gates: cut_off 1, loop 1."


def test_samples_show_untrusted_text_harmlessly(tmp_path: Path) -> None:
    ds = dataset(tmp_path, ["<img src=x onerror=alert(1)>\x1b[2J " + "long " * 90], [None])
    (sample,) = report(ds, CaptionsSpec())[0]["samples"].value
    assert sample["image_id"] == "pets/0"
    assert sample["caption"].startswith("&lt;img src=x onerror=alert(1)&gt;\\u001b[2J long")
    assert sample["caption"].endswith("\u2026")


def test_no_captions_yet(tmp_path: Path) -> None:
    metadata, checks = report(dataset(tmp_path, [None], [None]), CaptionsSpec())
    assert all(check.passed for check in checks)
    assert metadata["samples"].value == []
    assert "plot_words" not in metadata
