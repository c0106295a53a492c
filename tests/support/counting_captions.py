"""A caption engine for tests: slow if told to be, and it leaves a note of every image it saw."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from prx_assets.captions.engine import CaptionResult
from prx_assets.captions.spec import CaptionsSpec


class CountingCaptions:
    """Named in settings as `counting_captions:CountingCaptions`, with this folder on PYTHONPATH.

    `spec.model` is a folder: each captioned image adds a line to `calls` in it, each worker its
    process id to `workers`, and the number in its file `delay_s`, if there is one, is how long each
    image takes (a file, not a setting, so that a slow run and a fast one have the same identity).
    """

    caption_model = "test-counting/1"

    def __init__(self, spec: CaptionsSpec) -> None:
        self._folder = Path(spec.model)
        self._note("workers", str(os.getpid()))

    def caption(self, images: Sequence[Image.Image]) -> list[CaptionResult]:
        return [self._caption(image) for image in images]

    def _caption(self, image: Image.Image) -> CaptionResult:
        delay = self._folder / "delay_s"
        if delay.exists():
            time.sleep(float(delay.read_text()))
        digest = hashlib.sha256(image.tobytes()).hexdigest()[:16]
        self._note("calls", digest)
        return CaptionResult(f"A picture whose pixels have the digest {digest}.")

    def _note(self, name: str, line: str) -> None:
        # One write of one short line to a file opened for appending is never torn.
        file = os.open(self._folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)


def calls(folder: Path) -> list[str]:
    """Returns the digests of all images captioned so far, in order."""
    path = folder / "calls"
    return path.read_text().split() if path.exists() else []


def workers(folder: Path) -> list[int]:
    """Returns the process ids of all workers so far, in order of their start."""
    path = folder / "workers"
    return [int(line) for line in path.read_text().split()] if path.exists() else []
