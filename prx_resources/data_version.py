"""Data versions: what a stage's columns say, independent of row order, versions and compaction."""

from __future__ import annotations

from collections.abc import Iterable

import lance
import pyarrow as pa

from prx_resources.columns import ColumnGroup


def data_version(ds: lance.LanceDataset, group: ColumnGroup, row_fp: str | None = None) -> str:
    """Returns the data version of a stage's columns.

    Args:
        ds: The table at one version.
        group: The stage's columns.
        row_fp: Count only rows of this identity; None for all finished rows.
    """
    raise NotImplementedError


def ingest_data_version(ds: lance.LanceDataset) -> str:
    """Returns the data version of the ingested columns: ids, contents, captions, set-asides."""
    raise NotImplementedError


def rows_version(name: str, tables: Iterable[pa.Table | pa.RecordBatch]) -> str:
    """Returns a 16 hex digit digest of a multiset of rows, whatever their order.

    Args:
        name: What the rows are; part of the digest.
        tables: Rows of one set of columns (strings, integers, booleans), in pieces of any size.
    """
    raise NotImplementedError
