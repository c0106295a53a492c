"""`prx try`: what would become of these files, without touching the lake."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prx_assets.cli import output
from prx_assets.cli.workspace import Workspace
from prx_resources.settings import Settings

if TYPE_CHECKING:
    from prx_assets.caption_labels.compute import LabelCompute
    from prx_assets.captions.compute import CaptionCompute


@dataclass(frozen=True)
class Verdict:
    """What would become of one file; what can't be known is None.

    Attributes:
        file: Path as given.
        fate: `exported`, `skipped: <label>`, `not eligible: <why>` or `set aside: <why>`.
        size: `width x height` after EXIF orientation.
        bucket: `<level>/<w:h>` and the bucket's size.
        phash: 16 hex digits, marked if the picture is flat.
        caption: The configured engine's.
        caption_model: Who wrote it.
        label: visual, text or nsfw.
    """

    file: str
    fate: str
    size: str | None = None
    bucket: str | None = None
    phash: str | None = None
    caption: str | None = None
    caption_model: str | None = None
    label: str | None = None


@click.command(name="try")
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.pass_context
def try_images(context: click.Context, images: tuple[Path, ...]) -> int:
    """Show size, fate, bucket, hash, caption and label of IMAGE files."""
    workspace: Workspace = context.obj["workspace"]
    trial = Trial(workspace.settings)
    verdicts = [trial.judge(path) for path in images]
    blocks = [
        "\n".join(f"{name:>14}: {value}" for name, value in asdict(one).items() if value)
        for one in verdicts
    ]
    output.emit(
        [asdict(one) for one in verdicts],
        "\n\n".join(blocks),
        next_command="prx source add NAME --folder PATH",
    )
    return 0 if any(one.size for one in verdicts) else 1


class Trial:
    """The stages' own functions on single files; engines start when the first file needs them.

    Args:
        settings: Engines and thresholds.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def judge(self, path: Path) -> Verdict:
        """Returns what would become of a file. Never raises for what is in it."""
        from prx_assets.image import buckets, eligibility
        from prx_assets.image.decode import DecodeError, decode

        try:
            # A pipe or a device would be read for ever.
            if path.exists() and not path.is_file():
                return Verdict(str(path), "can't be read: not a file")
            data = path.read_bytes()
        except OSError as error:
            return Verdict(str(path), f"can't be read: {error.strerror}")
        try:
            image = decode(data, max_pixels=self._settings.max_pixels)
        except DecodeError as error:
            return Verdict(str(path), f"set aside: {error.reason}")
        size = f"{image.width} x {image.height}"
        fate = eligibility.fate(image.width, image.height)
        if fate != eligibility.USABLE:
            return Verdict(str(path), f"not eligible: {fate}", size, phash=self._hash(data))
        bucket = buckets.assign(image.width, image.height)
        assert bucket is not None
        caption = self._captioner.caption([data])[0]
        label = self._labeller.label([caption.caption])[0] if caption.caption else None
        return Verdict(
            str(path),
            _fate(caption.caption_error, label.label if label else None),
            size,
            f"{bucket.level}/{bucket.dir} ({bucket.width} x {bucket.height})",
            self._hash(data),
            caption.caption or caption.caption_error,
            caption.caption_model,
            label.label or label.label_error if label else None,
        )

    def _hash(self, data: bytes) -> str | None:
        from prx_assets.perceptual_hashes.asset import build_spec
        from prx_assets.perceptual_hashes.hasher import Hasher

        hashed = Hasher(build_spec(self._settings)).hash(data)
        if hashed.phash is None:
            return hashed.phash_error
        flat = " (flat: never grouped)" if hashed.phash_flat else ""
        return f"{hashed.phash:016x}{flat}"

    @cached_property
    def _captioner(self) -> CaptionCompute:
        from prx_assets.captions.asset import build_spec
        from prx_assets.captions.compute import CaptionCompute

        return CaptionCompute(build_spec(self._settings))

    @cached_property
    def _labeller(self) -> LabelCompute:
        from prx_assets.caption_labels.asset import build_spec
        from prx_assets.caption_labels.compute import LabelCompute

        return LabelCompute(build_spec(self._settings))


def _fate(caption_error: str | None, label: str | None) -> str:
    if caption_error:
        return f"no caption: {caption_error}"
    return "exported" if label == "visual" else f"exported, skipped: {label or 'undecided'}"
