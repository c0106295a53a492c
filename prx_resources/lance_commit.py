"""Commits to a source's image table: the one home of Lance's low-level transactions.

Every commit is made under the table's lease and takes the latest version as it finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from prx_resources.columns import ColumnGroup
from prx_resources.lease import Lease


def write_fragment(uri: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Writes rows as fragments that no version of the table shows yet.

    Args:
        uri: The table, which exists.
        schema: `lance_schema.image_schema(...)`; `batches` may leave out stage columns.
        batches: The rows. `image` may be plain binary: it is stored as blob v2.

    Returns:
        Fragments as JSON, for `commit_append` or `replace_rows`.
    """
    raise NotImplementedError


def commit_append(uri: str, fragments: Sequence[str], lease: Lease) -> int:
    """Adds written fragments to the table and returns the new version (not yet published)."""
    raise NotImplementedError


def replace_rows(uri: str, delete_where: str, fragments: Sequence[str], lease: Lease) -> int:
    """Deletes the rows that match `delete_where` and adds `fragments`, in one commit.

    The new rows take over the stage columns of deleted rows with the same `image_id` and
    `content_sha256`.

    Returns:
        The new version (not yet published).
    """
    raise NotImplementedError


def commit_columns(
    uri: str, group: ColumnGroup | Sequence[str], values: pa.Table, lease: Lease
) -> int:
    """Writes values into columns of rows that exist, whatever happened to the table meanwhile.

    Args:
        uri: The table.
        group: The columns to write: a stage's group or names such as `set_aside`.
        values: `_rowid` (uint64), `content_sha256`, and every column to write. A row whose
            `_rowid` is gone, whose `content_sha256` differs from the table's, or (groups with an
            `input`) whose input digest isn't that of the table's text is passed over. Rows not
            named keep what they have.
        lease: The table's lease.

    Returns:
        The version that holds the values (not yet published); the latest one if nothing changed.

    Raises:
        ConflictError: The lease was lost.
    """
    raise NotImplementedError
