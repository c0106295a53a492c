"""What the export's job must know."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

STAGE = "mds_shards"
CODE_VERSION = 1
"""Bumped by hand whenever the same row would give another sample."""

DECODE_VERSION = 1
"""`image.decode.DECODE_VERSION`, which can't be imported without Pillow; a test compares them."""

COLUMNS = {
    "image": "jpeg",
    "caption": "str",
    "width": "int",
    "height": "int",
    "original_width": "int",
    "original_height": "int",
    "id": "str",
    "source": "str",
}
"""Columns of a sample and their MDS encodings; `width` and `height` are the bucket's."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("rows_accounted", True, "Every row is a live sample or has a reason why not."),
    ("shards_verified", True, "Every live shard lies there with its size, and its hash was read."),
    ("bucket_images", True, "Images have their bucket's size, three channels and the set quality."),
)
"""(name, blocking, description) of the asset's checks."""


@dataclass(frozen=True)
class MdsShardsSpec:
    """How a source is exported.

    Attributes:
        quality: JPEG quality of the exported images.
        shard_bytes: Size that shards have about; layout, not identity.
        max_pixels: Images with more pixels aren't decoded; a limit, not identity.
    """

    quality: int = 92
    shard_bytes: int = 64 << 20
    max_pixels: int = 300_000_000

    def ingredients(self) -> dict[str, Any]:
        """Returns all that changes a sample; its fingerprint names the export's folder."""
        return {
            "code_version": CODE_VERSION,
            "decode_version": DECODE_VERSION,
            "buckets": {"grid": 16, "levels": [512, 1024, 2048, 4096], "max_upscale": "4/3"},
            "resize": "lanczos3",
            "jpeg": {"quality": self.quality, "chroma": "4:2:0"},
            "columns": COLUMNS,
        }

    @property
    def params(self) -> dict[str, Any]:
        """The spec as the `params` of a `JobSpec`."""
        return asdict(self)
