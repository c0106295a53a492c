"""A worker's part of captioning: bytes to pixels to caption, one row per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from PIL import Image

from prx_assets.captions.engine import CaptionEngine, CaptionResult, build_engine
from prx_assets.captions.gates import failed_gates
from prx_assets.captions.spec import CaptionsSpec
from prx_assets.image.decode import DecodeError, decode
from prx_resources.columns import CAPTIONS
from prx_resources.errors import EngineError

_SCHEMA = pa.schema([field for field in CAPTIONS.fields if field.name != CAPTIONS.fp])
_DETAIL_LENGTH = 300


@dataclass(frozen=True)
class Caption:
    """The values of one row, as the columns have them."""

    caption: str | None
    caption_model: str | None
    caption_gates: str | None = None
    caption_error: str | None = None


class CaptionCompute:
    """Captions rows; an engine is started once and stays.

    Args:
        spec: Engine, prompt, pixel budget, gates.
        batch_size: How many images the engine gets at once.
    """

    def __init__(self, spec: CaptionsSpec, batch_size: int = 16) -> None:
        self.spec = spec
        self._batch_size = max(1, batch_size)
        self._engine: CaptionEngine = build_engine(spec)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Returns the caption columns of `rows` (column `image`: bytes), in the same order."""
        captions: list[Caption] = []
        for batch in rows.select(["image"]).to_batches(max_chunksize=self._batch_size):
            captions += self.caption([image.as_py() for image in batch.column(0)])
        return pa.Table.from_pylist([vars(caption) for caption in captions], schema=_SCHEMA)

    def caption(self, files: Sequence[bytes | None]) -> list[Caption]:
        """Returns one caption per image file: needs no lake. Never raises for a file.

        Raises:
            EngineError: The engine died.
        """
        found = [self._pixels(data) for data in files]
        images = [item for item in found if isinstance(item, Image.Image)]
        written = iter(self._ask(images) if images else [])
        return [
            self._checked(next(written) if isinstance(item, Image.Image) else item)
            for item in found
        ]

    def _pixels(self, data: bytes | None) -> Image.Image | CaptionResult:
        try:
            return shrink(decode(data or b"").rgb, self.spec.max_pixels)
        except DecodeError as error:
            return CaptionResult(None, error=f"decode: {error.reason}")

    def _ask(self, images: Sequence[Image.Image]) -> list[CaptionResult]:
        try:
            results = list(self._engine.caption(images))
        except EngineError:
            raise
        except Exception as error:
            if len(images) == 1:
                return [CaptionResult(None, error=f"engine: {type(error).__name__}: {error}")]
            # One image may spoil a batch: alone, it fails alone.
            return [self._ask([image])[0] for image in images]
        if len(results) != len(images):
            raise EngineError(
                f"caption engine {self.spec.engine!r} returned {len(results)} results for"
                f" {len(images)} images",
                fix="return one CaptionResult per image, in order",
            )
        return results

    def _checked(self, result: CaptionResult) -> Caption:
        model = self._engine.caption_model
        if result.error is not None:
            return Caption(None, model, caption_error=_one_line(result.error))
        # A caption is untrusted text: lone surrogates and NULs don't survive Arrow or a loader.
        text = (result.text or "").encode("utf-8", "replace").decode().replace("\0", "").strip()
        if not text:
            return Caption(None, model, caption_error="empty: the engine wrote nothing")
        gates = failed_gates(CaptionResult(text, result.finish_reason), self.spec)
        return Caption(text, model, caption_gates=",".join(gates) or None)


def shrink(image: Image.Image, max_pixels: int) -> Image.Image:
    """Returns the image with at most `max_pixels` pixels, its aspect ratio kept."""
    if image.width * image.height <= max_pixels:
        return image
    scale = (max_pixels / (image.width * image.height)) ** 0.5
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    # At least three times the target remains after the fast step: no visible difference.
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def _one_line(error: str) -> str:
    text = " ".join(error.encode("utf-8", "replace").decode().split())
    reason = text if ": " in text else f"engine: {text}"
    return reason[:_DETAIL_LENGTH]
