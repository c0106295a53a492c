"""What a captioning engine is, and how one is found by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from PIL import Image

from prx_assets.captions.spec import CaptionsSpec
from prx_resources.errors import EngineError, PrxError
from prx_resources.plugins import load_engine_class

BUILTIN = {"measured": "prx_assets.captions.measured:MeasuredCaptions"}


@dataclass(frozen=True)
class CaptionResult:
    """What an engine says about one image.

    Attributes:
        text: The caption; None if there is none.
        finish_reason: `length` if the model was cut off at its token limit, else `stop`.
        error: "reason: detail" if there is no caption; the reason is a short word that people can
            ask a retry for.
    """

    text: str | None
    finish_reason: Literal["stop", "length"] = "stop"
    error: str | None = None


class CaptionEngine(Protocol):
    """Writes captions.

    An engine is made inside the worker as `Class(spec)` and lives as long as the worker.
    """

    @property
    def caption_model(self) -> str:
        """What stands in the column `caption_model`: says plainly what wrote the caption."""
        ...

    def caption(self, images: Sequence[Image.Image]) -> list[CaptionResult]:
        """Returns one result per image, in order.

        Args:
            images: Mode RGB in sRGB, upright, of at most `spec.max_pixels` pixels.

        Raises:
            EngineError: The engine itself is gone; the job stops. Any other exception is taken
                for an image's fault: the images are tried one by one and fail as rows.
        """
        ...


def build_engine(spec: CaptionsSpec) -> CaptionEngine:
    """Returns the engine that `spec` names.

    Raises:
        UnknownError: There is no such engine.
        EngineError: It can't start.
    """
    factory = load_engine_class(spec.engine, BUILTIN, kind="caption engine")
    try:
        engine: CaptionEngine = factory(spec)
    except PrxError:
        raise
    except Exception as error:
        raise EngineError(
            f"the caption engine {spec.engine!r} can't start: {type(error).__name__}: {error}"
        ) from error
    return engine
