"""The image table's Lance schema and the settings that are fixed when a table is created."""

from __future__ import annotations

from collections.abc import Mapping

import lance
import pyarrow as pa

from prx_resources.columns import INGEST_FIELDS, SET_ASIDE_FIELDS, STAGE_GROUPS

STORAGE_VERSION = "2.2"
CHUNK_ROWS = 4096
"""Row ids in one aligned range of work, unless the table says otherwise."""
_PYLANCE = "prx.pylance"
_CHUNK_ROWS = "prx.chunk_rows"
_TARGET_ROWS = "prx.target_fragment_rows"


def image_schema(embedding_dim: int | None = None) -> pa.Schema:
    """Returns the whole schema of a source's image table.

    Args:
        embedding_dim: Length of the source's vectors; None if it brings none.
    """
    raise NotImplementedError


def table_config(chunk_rows: Mapping[str, int], target_fragment_rows: int) -> dict[str, str]:
    """Returns the table config that is written once, at creation."""
    raise NotImplementedError


def chunk_rows(ds: lance.LanceDataset, stage: str) -> int:
    """Returns how many row ids one chunk of `stage` covers in this table."""
    raise NotImplementedError


def target_fragment_rows(ds: lance.LanceDataset) -> int:
    """Returns how many rows a full fragment of this table has."""
    raise NotImplementedError


__all__ = ["INGEST_FIELDS", "SET_ASIDE_FIELDS", "STAGE_GROUPS"]
