from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import counting_captions
import pytest
from image_tables import add_images, png, rows
from PIL import Image

from prx_assets.captions.engine import CaptionResult
from prx_assets.captions.job import identity, work
from prx_assets.captions.spec import CHECKS, STAGE, CaptionsSpec
from prx_assets.runtime import Job
from prx_resources.column_stage import InlinePool
from prx_resources.contract import JobResult, JobSpec
from prx_resources.errors import CostRefused, EngineError
from prx_resources.lake import Lake

FILES = {
    "a": png("red"),
    "b": png("blue"),
    "small": png("red", (300, 300)),
    "c": png("white"),
    "broken": b"\xff\xd8\xff not a picture",
    "d": png("black", (500, 400)),
    "wide": png("red", (1000, 300)),
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    add_images(lake, "pets", FILES)
    return lake


def run(lake: Lake, spec: CaptionsSpec, **more: object) -> JobResult:
    job_spec = JobSpec(
        stage=STAGE,
        source="pets",
        lake=lake.root,
        params=spec.params,
        ingredients=spec.ingredients(),
        **more,  # type: ignore[arg-type]
    )
    return work(Job(job_spec, Path(lake.root)), pool=InlinePool())


def test_eligible_rows_get_a_caption_or_a_reason(lake: Lake) -> None:
    result = run(lake, CaptionsSpec())
    found = rows(lake, "pets", "caption", "caption_model", "caption_error", "caption_gates")
    assert {key for key, row in found.items() if row["caption"]} == {"a", "b", "c", "d"}
    assert "Red covers almost all" in str(found["a"]["caption"])
    assert found["a"]["caption_model"] == "measured-description/1 (not a vision-language model)"
    assert str(found["broken"]["caption_error"]).startswith("decode: ")
    assert found["small"] == dict.fromkeys(found["small"])
    assert (result.rows_in, result.rows_out, result.set_aside) == (5, 4, {"decode": 1})
    assert tuple(check.name for check in result.checks) == tuple(name for name, *_ in CHECKS)
    assert {check.name for check in result.checks if not check.passed} == {"failed_rows"}


def test_the_same_again_computes_nothing(lake: Lake) -> None:
    first = run(lake, CaptionsSpec())
    again = run(lake, CaptionsSpec())
    assert (first.done, again.done) == (5, 0)
    assert again.data_version == first.data_version


class Mortal(counting_captions.CountingCaptions):
    """Dies at the third image while there is a file `mortal` beside the calls."""

    def caption(self, images: Sequence[Image.Image]) -> list[CaptionResult]:
        if (self._folder / "mortal").exists() and len(counting_captions.calls(self._folder)) >= 2:
            raise EngineError("killed")
        return super().caption(images)


def test_after_a_crash_only_unfinished_rows_are_captioned(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_captions, "CountingCaptions", Mortal)
    calls = tmp_path / "calls"
    calls.mkdir()
    spec = CaptionsSpec(engine="counting_captions:CountingCaptions", model=str(calls))
    (calls / "mortal").touch()
    with pytest.raises(EngineError, match="killed"):
        run(lake, spec, tuning={"batch_size": 1})
    assert len(counting_captions.calls(calls)) == 2
    (calls / "mortal").unlink()
    run(lake, spec, tuning={"batch_size": 1})
    seen = counting_captions.calls(calls)
    assert len(seen) == len(set(seen)) == 4
    captions = [row["caption"] for row in rows(lake, "pets", "caption").values() if row["caption"]]
    assert len(set(captions)) == 4


def test_new_rows_alone_are_captioned(lake: Lake) -> None:
    first = run(lake, CaptionsSpec())
    add_images(lake, "pets", {"new": png("green")})
    result = run(lake, CaptionsSpec())
    assert result.done == 1
    assert result.data_version != first.data_version
    assert "Green" in str(rows(lake, "pets", "caption")["new"]["caption"])


def test_a_failure_is_tried_again_only_when_asked(lake: Lake) -> None:
    run(lake, CaptionsSpec())
    assert run(lake, CaptionsSpec(), retry_failed=("engine",)).done == 0
    assert run(lake, CaptionsSpec(), retry_failed=("decode",)).done == 1


def test_another_identity_fills_only_what_is_missing_and_warns(lake: Lake) -> None:
    run(lake, CaptionsSpec())
    other = CaptionsSpec(prompt="Describe this picture in one paragraph.")
    result = run(lake, other)
    assert result.done == 0
    assert "one_identity" in {check.name for check in result.checks if not check.passed}
    assert run(lake, other, redo=True).done == 5


def test_paid_work_above_the_limit_is_refused_before_it_starts(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    tuning = {"rows_per_second": 0.001, "gpu_hour_usd": 2.0, "max_cost_usd": 1.0}
    with pytest.raises(CostRefused, match=r"5 rows, about 1.4 GPU-hours and \$2.78"):
        run(lake, CaptionsSpec(), tuning=tuning)
    assert rows(lake, "pets", "caption")["a"]["caption"] is None
    assert run(lake, CaptionsSpec(), tuning={**tuning, "max_cost_usd": None}).done == 5
    assert "expected cost: 5 rows" in capsys.readouterr().out


def test_an_identity_is_readable() -> None:
    assert identity(CaptionsSpec()) == "measured"
    assert identity(CaptionsSpec(engine="my:Vlm", model="org/m", revision="1")) == "my:Vlm/org/m@1"
