from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pytest
from PIL import Image

from prx_assets.captions.compute import CaptionCompute, shrink
from prx_assets.captions.engine import CaptionResult
from prx_assets.captions.spec import CaptionsSpec
from prx_resources.columns import CAPTIONS
from prx_resources.errors import EngineError, UnknownError


class Poisoned:
    """Fails whenever a red image is in the batch; remembers the sizes it saw."""

    caption_model = "poisoned/1"

    def __init__(self, spec: CaptionsSpec) -> None:
        self.batches: list[list[tuple[int, int]]] = []

    def caption(self, images: Sequence[Image.Image]) -> list[CaptionResult]:
        self.batches.append([image.size for image in images])
        if any(image.getpixel((0, 0)) == (255, 0, 0) for image in images):
            raise RuntimeError("a red one")
        return [CaptionResult(f"A picture of colour {image.getpixel((0, 0))}.") for image in images]


class Dead:
    caption_model = "dead/1"

    def __init__(self, spec: CaptionsSpec) -> None:
        pass

    def caption(self, images: Sequence[Image.Image]) -> list[CaptionResult]:
        raise EngineError("the engine's process is gone")


class Short(Dead):
    def caption(self, images: Sequence[Image.Image]) -> list[CaptionResult]:
        return []


class Scripted:
    """Returns what the test put there."""

    caption_model = "scripted/1"
    results: Sequence[CaptionResult] = ()

    def __init__(self, spec: CaptionsSpec) -> None:
        pass

    def caption(self, images: Sequence[Image.Image]) -> list[CaptionResult]:
        return list(self.results)


class Unstartable:
    def __init__(self, spec: CaptionsSpec) -> None:
        raise OSError("no weights")


def compute(engine: type, monkeypatch: pytest.MonkeyPatch, **spec: object) -> CaptionCompute:
    monkeypatch.setattr("prx_assets.captions.engine.BUILTIN", {"under-test": "made:Up"})
    monkeypatch.setattr(
        "prx_assets.captions.engine.load_engine_class", lambda *args, **kwargs: engine
    )
    return CaptionCompute(CaptionsSpec(min_words=1, **spec))  # type: ignore[arg-type]


def png(colour: str, size: tuple[int, int] = (40, 40)) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, colour).save(data, "PNG")
    return data.getvalue()


def table(images: Sequence[bytes | None]) -> pa.Table:
    return pa.table({"_rowid": range(len(images)), "image": pa.array(images, pa.binary())})


def test_rows_keep_their_order_and_bad_ones_carry_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table([png("blue"), b"no image", png("red"), None, png("white")])
    found = compute(Poisoned, monkeypatch)(rows)
    assert found["caption"].to_pylist() == [
        "A picture of colour (0, 0, 255).",
        None,
        None,
        None,
        "A picture of colour (255, 255, 255).",
    ]
    errors = found["caption_error"].to_pylist()
    assert errors[0] is None
    assert errors[1].startswith("decode: not_an_image: ")
    assert errors[2] == "engine: RuntimeError: a red one"
    assert errors[3].startswith("decode: empty: ")
    assert found["caption_model"].to_pylist() == ["poisoned/1"] * 5


def test_the_columns_are_the_group_without_its_fingerprint() -> None:
    found = CaptionCompute(CaptionsSpec())(table([png("blue")]))
    assert found.schema.names == [name for name in CAPTIONS.names if name != CAPTIONS.fp]
    assert CaptionCompute(CaptionsSpec())(table([])).num_rows == 0


def test_batches_are_as_large_as_asked_and_images_within_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = compute(Poisoned, monkeypatch, max_pixels=900)
    made._batch_size = 2
    made(table([png("blue", (120, 30)) for _ in range(5)]))
    engine = made._engine
    assert isinstance(engine, Poisoned)
    assert [len(batch) for batch in engine.batches] == [2, 2, 1]
    assert {size for batch in engine.batches for size in batch} == {(60, 15)}


def test_a_dead_engine_stops_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="process is gone"):
        compute(Dead, monkeypatch)(table([png("blue")]))
    with pytest.raises(EngineError, match="0 results for 1 images"):
        compute(Short, monkeypatch)(table([png("blue")]))


def test_an_engine_that_cant_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="can't start: OSError: no weights"):
        compute(Unstartable, monkeypatch)


def test_what_an_engine_returns_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compute(Scripted, monkeypatch)
    monkeypatch.setattr(
        Scripted,
        "results",
        [
            CaptionResult("  A dog \ud800 runs.\0 "),
            CaptionResult("   "),
            CaptionResult(None),
            CaptionResult(None, error="out of\nmemory"),
            CaptionResult("A dog runs over a", "length"),
        ],
    )
    found = made(table([png("blue")] * 5))
    assert found["caption"].to_pylist() == ["A dog ? runs.", None, None, None, "A dog runs over a"]
    assert found["caption_error"].to_pylist() == [
        None,
        "empty: the engine wrote nothing",
        "empty: the engine wrote nothing",
        "engine: out of memory",
        None,
    ]
    assert found["caption_gates"].to_pylist() == [None, None, None, None, "cut_off"]


def test_shrinking_keeps_the_shape_and_never_enlarges() -> None:
    assert shrink(Image.new("RGB", (4000, 2000)), 1_000_000).size == (1414, 707)
    assert shrink(Image.new("RGB", (40, 20)), 1_000_000).size == (40, 20)
    assert shrink(Image.new("RGB", (5000, 1)), 100).size == (707, 1)


def test_files_are_captioned_without_a_lake() -> None:
    found, bad = CaptionCompute(CaptionsSpec()).caption([png("blue", (500, 400)), b"junk"])
    assert found.caption is not None
    assert "Blue covers almost all" in found.caption
    assert found.caption_error is None
    assert bad.caption is None


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UnknownError, match="'gpt'"):
        CaptionCompute(CaptionsSpec(engine="gpt"))
