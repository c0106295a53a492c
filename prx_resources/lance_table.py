"""A source's image table: opening, publishing, holding, reading.

Everything about image tables is imported from here; schema, commits and data versions live in
modules of their own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prx_resources.data_version import data_version, ingest_data_version
from prx_resources.errors import TableError, UnknownError
from prx_resources.jobs import SubmissionId
from prx_resources.lance_commit import commit_append, commit_columns, replace_rows
from prx_resources.lance_schema import (
    STORAGE_VERSION,
    check_writer,
    chunk_rows,
    configured,
    image_schema,
    table_config,
    target_fragment_rows,
)
from prx_resources.lance_sql import all_of, is_in, quote
from prx_resources.lance_write import write_fragment
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
    "sweep_predecessors",
    "take_rows",
    "target_fragment_rows",
    "write_fragment",
]

PUBLISHED = "published"
HOLD_PREFIX = "hold-"
_NEXT = f"{PUBLISHED}.next"
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
    if not exists(uri):
        try:
            lance.write_dataset(
                image_schema(embedding_dim).empty_table(),
                uri,
                mode="create",
                data_storage_version=STORAGE_VERSION,
                enable_stable_row_ids=True,
            )
        except OSError:
            # Two creators: the loser's error is fine, the table is there.
            if not exists(uri):
                raise
    ds = _open(uri)
    if not configured(ds):
        ds.update_config(table_config(chunk_rows, target_fragment_rows))


def exists(uri: str) -> bool:
    """Tells whether there is a table."""
    try:
        lance.dataset(uri)
    except ValueError as error:
        if "not found" in str(error):
            return False
        raise
    return True


def open_latest(uri: str) -> lance.LanceDataset:
    """Opens the newest version: for writers.

    Raises:
        UnknownError: There is no such table.
        TableError: It is written by another pylance.
    """
    ds = _open(uri)
    check_writer(ds)
    return ds


def open_published(uri: str) -> lance.LanceDataset:
    """Opens the published version: for readers, once per job.

    Raises:
        UnknownError: There is no such table, or nothing is published yet.
    """
    version = published_version(uri)
    if version is None:
        raise UnknownError(
            "nothing of this table is published yet", where=uri, fix="materialize raw_images first"
        )
    return lance.dataset(uri, version=version)


def published_version(uri: str) -> int | None:
    """Returns the published version, None if nothing is published yet."""
    return _tags(_open(uri)).get(PUBLISHED)


def publish(uri: str, version: int, lease: Lease) -> int:
    """Moves the tag `published` forward to `version` and returns where it stands then."""
    ds = _open(uri)
    now = _tags(ds).get(PUBLISHED)
    if now is not None and now >= version:
        return now
    lease.check()
    _move_published(ds, version)
    return version


def _move_published(ds: lance.LanceDataset, version: int) -> None:
    """Moves the tag in one step.

    Lance's own update empties the tag's file first: on a full disk it leaves it so without an
    error, and no tag of the table can be read any more.
    """
    with contextlib.suppress(ValueError):
        ds.tags.delete(_NEXT)  # of a job that was killed right here
    ds.tags.create(_NEXT, version)
    folder = Path(ds.uri) / "_refs" / "tags"
    with (folder / f"{_NEXT}.json").open("rb") as file:
        os.fsync(file.fileno())
    (folder / f"{_NEXT}.json").replace(folder / f"{PUBLISHED}.json")


@contextlib.contextmanager
def hold(uri: str, version: int, holder: str) -> Iterator[None]:
    """Keeps a version's files while a long reader works on it.

    Args:
        uri: The table.
        version: The version that is read.
        holder: Submission id of the reader.
    """
    sweep_predecessors(uri, holder)
    ds, tag = _open(uri), f"{HOLD_PREFIX}{holder}"
    # A job that was killed and started again under its id finds its own old hold.
    with contextlib.suppress(ValueError):
        ds.tags.delete(tag)
    ds.tags.create(tag, version)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            ds.tags.delete(tag)


def holds(uri: str) -> dict[str, int]:
    """Returns holder -> version of every hold."""
    tags = _tags(_open(uri))
    return {
        tag.removeprefix(HOLD_PREFIX): version
        for tag, version in tags.items()
        if tag.startswith(HOLD_PREFIX)
    }


def sweep_predecessors(uri: str, holder: str) -> None:
    """Removes what killed jobs of the holder's stage and source held: only one such job runs."""
    mine = SubmissionId.parse(holder)
    if mine is None:
        return
    ds = _open(uri)
    for other in holds(uri):
        theirs = SubmissionId.parse(other)
        if theirs and theirs != mine and (theirs.stage, theirs.source) == (mine.stage, mine.source):
            with contextlib.suppress(ValueError):
                ds.tags.delete(f"{HOLD_PREFIX}{other}")


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
        budget_bytes: Bytes of images in one batch; a larger image comes alone.

    Yields:
        `_rowid` (uint64), `columns`, `image` (large_binary).
    """
    wanted = np.unique(np.asarray(row_ids, dtype=np.uint64))
    plain = [name for name in dict.fromkeys(columns) if name not in ("_rowid", "image")]
    rows = take_rows(ds, wanted, [*plain, *([] if "bytes" in plain else ["bytes"])])
    ends = np.cumsum(rows["bytes"].fill_null(0).to_numpy())
    start = 0
    while start < rows.num_rows:
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + budget_bytes, side="right")))
        part = rows.slice(start, end - start).combine_chunks()
        blobs = ds.read_blobs("image", ids=part["_rowid"].combine_chunks(), preserve_order=True)
        if len(blobs) != part.num_rows:
            raise TableError(
                f"asked for {part.num_rows} images, got {len(blobs)}",
                where=f"{ds.uri} version {ds.version}",
            )
        images = pa.array([data for _, data in blobs], pa.large_binary())
        yield from (
            part.select(["_rowid", *plain]).append_column("image", images).combine_chunks()
        ).to_batches()
        start = end


def take_rows(
    ds: lance.LanceDataset, row_ids: npt.NDArray[np.uint64] | pa.Array, columns: Sequence[str]
) -> pa.Table:
    """Returns `_rowid` and `columns` of the rows that are there, sorted by `_rowid`."""
    ids = row_ids if isinstance(row_ids, pa.Array) else pa.array(row_ids, pa.uint64())
    return ds._take_rows(ids, columns=["_rowid", *columns]).sort_by("_rowid")


def _open(uri: str) -> lance.LanceDataset:
    if not exists(uri):
        raise UnknownError("there is no such table", where=uri, fix="materialize raw_images first")
    return lance.dataset(uri)


def _tags(ds: lance.LanceDataset) -> dict[str, int]:
    return {tag: int(entry["version"]) for tag, entry in ds.tags.list().items()}
