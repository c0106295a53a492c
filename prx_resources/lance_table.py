"""A source's image table: opening, publishing, holding, reading.

Everything about image tables is imported from here; schema, commits and data versions live in
modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import lance
import pyarrow as pa

from prx_resources.data_version import data_version, ingest_data_version
from prx_resources.lance_commit import commit_append, commit_columns, replace_rows, write_fragment
from prx_resources.lance_schema import chunk_rows, image_schema, target_fragment_rows
from prx_resources.lance_sql import all_of, is_in, quote
from prx_resources.lease import Lease

__all__ = [
    "all_of",
    "chunk_rows",
    "commit_append",
    "commit_columns",
    "create",
    "data_version",
    "exists",
    "hold",
    "holds",
    "image_schema",
    "ingest_data_version",
    "is_in",
    "open_latest",
    "open_published",
    "publish",
    "published_version",
    "quote",
    "read_images",
    "replace_rows",
    "sweep_holds",
    "target_fragment_rows",
    "write_fragment",
]

PUBLISHED = "published"
HOLD_PREFIX = "hold-"
BUDGET_BYTES = 128 << 20


def create(
    uri: str,
    *,
    chunk_rows: Mapping[str, int],
    target_fragment_rows: int,
    embedding_dim: int | None = None,
) -> None:
    """Creates an empty image table; one that exists already is left alone.

    Args:
        uri: Where.
        chunk_rows: Range sizes per stage; the key `""` is for every other stage.
        target_fragment_rows: How many rows a full fragment has.
        embedding_dim: Length of the source's vectors; None if it brings none.
    """
    raise NotImplementedError


def exists(uri: str) -> bool:
    """Tells whether there is a table."""
    raise NotImplementedError


def open_latest(uri: str) -> lance.LanceDataset:
    """Opens the newest version: for writers.

    Raises:
        UnknownError: There is no such table.
        TableError: It was written by another pylance.
    """
    raise NotImplementedError


def open_published(uri: str) -> lance.LanceDataset:
    """Opens the published version: for readers, once per job.

    Raises:
        UnknownError: There is no such table, or nothing is published yet.
    """
    raise NotImplementedError


def published_version(uri: str) -> int | None:
    """Returns the published version, None if nothing is published yet."""
    raise NotImplementedError


def publish(uri: str, version: int, lease: Lease) -> int:
    """Moves the tag `published` forward to `version` and returns where it stands then."""
    raise NotImplementedError


@contextmanager
def hold(uri: str, version: int, holder: str) -> Iterator[None]:
    """Keeps a version's files while a long reader works on it.

    Args:
        uri: The table.
        version: The version that is read.
        holder: Submission id of the reader.
    """
    raise NotImplementedError
    yield


def holds(uri: str) -> dict[str, int]:
    """Returns holder -> version of every hold."""
    raise NotImplementedError


def sweep_holds(uri: str, alive: Callable[[str], bool]) -> list[str]:
    """Removes the holds of holders that aren't `alive` and returns them."""
    raise NotImplementedError


def read_images(
    ds: lance.LanceDataset,
    row_ids: Sequence[int] | pa.UInt64Array,
    columns: Sequence[str] = ("image_id", "content_sha256"),
    budget_bytes: int = BUDGET_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Reads rows with their image bytes, in the order of their row ids, in small batches.

    Args:
        ds: The table at one version.
        row_ids: Stable row ids; ones that are gone are passed over.
        columns: Columns beside `_rowid` and `image`.
        budget_bytes: Bytes of images in one batch, about.

    Yields:
        `_rowid` (uint64), `columns`, `image` (large_binary).
    """
    raise NotImplementedError
