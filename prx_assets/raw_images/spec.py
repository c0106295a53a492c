"""What the job of `raw_images` needs to know. Stdlib only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

STAGE = "raw_images"
CODE_VERSION = 1
"""Bumped by hand when the same source file gives other rows."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("rows_accounted", True, "Every source row is in the table once: usable or set aside."),
    ("files_accounted", True, "Every file of the source has rows or a note why it has none."),
    ("rows_set_aside", False, "No image of the source had to be set aside."),
    ("vanished_files", False, "Every file that has rows is still in the source."),
)
"""(name, blocking, description) of the asset's checks, for the asset."""


@dataclass(frozen=True)
class ColumnMap:
    """Which column (parquet) or JSON field (tar) holds what; nothing of it is for folders.

    Attributes:
        id: Key that is unique in the source; without it the content's hash is the key.
        image: Encoded image bytes, or a struct with `bytes` (parquet only).
        caption: The caption the source ships.
        embedding: A vector of fixed length.
        metadata: Columns kept as JSON; for tars and none named: the whole JSON member.
    """

    id: str | None = None
    image: str | None = None
    caption: str | None = None
    embedding: str | None = None
    metadata: tuple[str, ...] = ()


@dataclass(frozen=True)
class RawImagesSpec:
    """Where a source's files are and how its table is laid out.

    Attributes:
        kind: folder, parquet or webdataset.
        uri: Absolute path of the folder that holds the files.
        glob: Which files below it.
        columns: Where values are.
        chunk_rows: Range sizes per stage, fixed when the table is created.
        target_fragment_rows: Rows of a full fragment, fixed when the table is created.
        max_pixels: Images with more are set aside undecoded.
        max_image_bytes: Encoded images above this are set aside unread.
    """

    kind: str
    uri: str
    glob: str
    columns: ColumnMap = ColumnMap()
    chunk_rows: dict[str, int] = field(default_factory=dict)
    target_fragment_rows: int = 1_000_000
    max_pixels: int = 300_000_000
    max_image_bytes: int = 268_435_456

    def ingredients(self) -> dict[str, Any]:
        """Returns what changes the rows that a file gives."""
        return {
            "code_version": CODE_VERSION,
            "columns": {**asdict(self.columns), "metadata": list(self.columns.metadata)},
            "max_pixels": self.max_pixels,
            "max_image_bytes": self.max_image_bytes,
        }

    @property
    def params(self) -> dict[str, Any]:
        """The spec as `JobSpec.params`."""
        return asdict(self)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> RawImagesSpec:
        """Rebuilds a spec from `params`, also after a trip through JSON."""
        columns = dict(params.get("columns") or {})
        columns["metadata"] = tuple(columns.get("metadata", ()))
        return cls(**{**params, "columns": ColumnMap(**columns)})
