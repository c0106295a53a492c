"""Commits to a source's image table: the one home of Lance's low-level transactions.

Every commit is made under the table's lease, upon the latest version as it finds it. Stage columns
are written late-bound: values are tied to stable row ids and content hashes, looked up in the
version that is committed upon, never to positions.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.commit import CommitConflictError
from lance.file import LanceFileReader, LanceFileWriter
from lance.fragment import DataFile, FragmentMetadata, LanceFragment

from prx_resources.columns import STAGE_GROUPS, ColumnGroup
from prx_resources.errors import ConflictError, InvariantError
from prx_resources.lance_schema import STORAGE_VERSION, check_writer
from prx_resources.late_binding import bind, column_names
from prx_resources.lease import Lease

_ATTEMPTS = 20
_KEY = ("image_id", "content_sha256")
Operation = Any
"""A `lance.LanceOperation`; Lance ships without types that mypy could follow."""


def commit_append(uri: str, fragments: Sequence[str], lease: Lease) -> int:
    """Adds written fragments to the table and returns the new version (not yet published)."""

    def build(_: lance.LanceDataset) -> Operation:
        if not fragments:
            return None
        return lance.LanceOperation.Append([FragmentMetadata.from_json(text) for text in fragments])

    return _commit(uri, build, lease)


def replace_rows(uri: str, delete_where: str, fragments: Sequence[str], lease: Lease) -> int:
    """Deletes the rows that match `delete_where` and adds `fragments`, in one commit.

    The new rows take over the stage columns of deleted rows with the same `image_id` and
    `content_sha256`.

    Returns:
        The new version (not yet published).
    """

    def build(ds: lance.LanceDataset) -> Operation:
        kept = [name for group in STAGE_GROUPS.values() for name in group.names]
        old = ds.to_table(columns=[*_KEY, *kept, "_rowaddr"], filter=delete_where)
        removed, updated = [], []
        for number in np.unique(_fragment_ids(old["_rowaddr"])):
            left = ds.get_fragment(int(number)).delete(delete_where)
            if left is None:
                removed.append(int(number))
            else:
                updated.append(getattr(left, "metadata", left))
        new = [FragmentMetadata.from_json(text) for text in fragments]
        for fragment in new:
            _carry_over(uri, ds, fragment, old)
        if not removed and not updated and not new:
            return None
        return lance.LanceOperation.Update(
            removed_fragment_ids=removed, updated_fragments=updated, new_fragments=new
        )

    return _commit(uri, build, lease)


def commit_columns(
    uri: str, group: ColumnGroup | Sequence[str], values: pa.Table, lease: Lease
) -> int:
    """Writes values into columns of rows that exist, whatever happened to the table meanwhile.

    Args:
        uri: The table.
        group: The columns to write: a stage's group or the `set_aside` ones. Lance replaces
            columns only if all of them stand in one data file or in none, so what belongs together
            is always written together.
        values: `_rowid` (uint64), `content_sha256`, and every column to write. A row whose
            `_rowid` is gone, whose `content_sha256` differs from the table's, or (groups with an
            `input`) whose input digest isn't that of the table's text is passed over; of several
            that fit one row, the last stands. Rows not named keep what they have.
        lease: The table's lease.

    Returns:
        The version that holds the values (not yet published); the latest one if nothing changed.

    Raises:
        ConflictError: The lease was lost, or other writers won again and again.
    """
    names = column_names(group)

    def build(ds: lance.LanceDataset) -> Operation:
        bound = bind(ds, group, values)
        if not bound.num_rows:
            return None
        replacements = []
        numbers, starts = np.unique(_fragment_ids(bound["_rowaddr"]), return_index=True)
        ends = [*starts[1:], bound.num_rows]
        for number, start, end in zip(numbers.tolist(), starts, ends, strict=True):
            mine = bound.slice(start, end - start)
            file = _write_columns(uri, ds, names, _merged(ds.get_fragment(number), names, mine))
            replacements.append(lance.LanceOperation.DataReplacementGroup(number, file))
        return lance.LanceOperation.DataReplacement(replacements)

    return _commit(uri, build, lease)


def _commit(uri: str, build: Callable[[lance.LanceDataset], Operation], lease: Lease) -> int:
    for _ in range(_ATTEMPTS):
        ds = lance.dataset(uri)
        check_writer(ds)
        operation = build(ds)
        if operation is None:
            return int(ds.version)
        lease.check()
        with contextlib.suppress(CommitConflictError):
            return int(
                lance.LanceDataset.commit(
                    uri, operation, read_version=ds.version, max_retries=0
                ).version
            )
    raise ConflictError("other writers won again and again", where=uri, fix="run it again")


def _fragment_ids(addresses: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    numbers: npt.NDArray[np.uint64] = addresses.to_numpy().astype(np.uint64) >> np.uint64(32)
    return numbers


def _merged(
    fragment: LanceFragment, names: Sequence[str], values: pa.Table
) -> Iterator[pa.RecordBatch]:
    """Yields the columns over all physical rows, deleted ones too, with `values` put in place."""
    offsets = values["_rowaddr"].to_numpy().astype(np.uint64) & np.uint64(0xFFFFFFFF)
    ids = values["_rowid"].to_numpy()
    columns = values.select(names)
    start = 0
    scanner = fragment.scanner(columns=list(names), with_row_id=True, include_deleted_rows=True)
    for batch in scanner.to_batches():
        low, high = np.searchsorted(offsets, [start, start + batch.num_rows])
        at = (offsets[low:high] - np.uint64(start)).astype(np.int64)
        found = batch.column("_rowid").take(pa.array(at))
        if found.null_count or not np.array_equal(found.to_numpy(), ids[low:high]):
            raise InvariantError(
                "row ids and physical rows disagree; nothing was committed",
                where=f"fragment {fragment.fragment_id}",
                fix="report this: Lance's DataReplacement may no longer work as it did",
            )
        pick = np.arange(batch.num_rows)
        pick[at] = batch.num_rows + np.arange(high - low)
        old = pa.Table.from_batches([batch.select(list(names))])
        both = pa.concat_tables([old, columns.slice(low, high - low)]).combine_chunks()
        yield from both.take(pa.array(pick)).combine_chunks().to_batches()
        start += batch.num_rows
    if start != fragment.physical_rows:
        raise InvariantError(
            f"read {start} of {fragment.physical_rows} physical rows; nothing was committed",
            where=f"fragment {fragment.fragment_id}",
            fix="report this: Lance's scanner may no longer show deleted rows",
        )


def _field_ids(ds: lance.LanceDataset) -> dict[str, int]:
    return {field.name(): field.id() for field in ds.lance_schema.fields()}


def _write_columns(
    uri: str, ds: lance.LanceDataset, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> DataFile:
    ids = _field_ids(ds)
    schema = pa.schema([ds.schema.field(name) for name in names])
    path = f"{uuid.uuid4().hex}.lance"
    with LanceFileWriter(f"{uri}/data/{path}", schema, version=STORAGE_VERSION) as writer:
        for batch in batches:
            writer.write_batch(batch)
    major, minor = STORAGE_VERSION.split(".")
    return DataFile(
        path=path,
        fields=[ids[name] for name in names],
        column_indices=list(range(len(names))),
        file_major_version=int(major),
        file_minor_version=int(minor),
        file_size_bytes=Path(f"{uri}/data/{path}").stat().st_size,
    )


def _carry_over(
    uri: str, ds: lance.LanceDataset, fragment: FragmentMetadata, old: pa.Table
) -> None:
    """Adds data files with the stage columns of the rows that `fragment`'s rows replace."""
    path = f"{uri}/data/{fragment.files[0].path}"
    new = LanceFileReader(path, columns=list(_KEY)).read_all().to_table()
    # A row that was never downloaded has no hash: such rows don't stand for each other.
    at = pc.index_in(_keys(new), value_set=_keys(old), skip_nulls=True)
    for group in STAGE_GROUPS.values():
        carried = old.select(group.names).take(at).combine_chunks()
        if carried[group.fp].null_count < carried.num_rows:
            fragment.files.append(_write_columns(uri, ds, group.names, carried.to_batches()))


def _keys(rows: pa.Table) -> pa.Array:
    joined = pc.binary_join_element_wise(rows["image_id"], rows["content_sha256"], "\n")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
