"""What a worker does: reads a group of source files and writes their rows as fragments."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from prx_assets.raw_images import folder, parquet, webdataset
from prx_assets.raw_images.listing import SourceFile, current_fp, local_path
from prx_assets.raw_images.rows import RowBuilder, batches, row_schema
from prx_assets.raw_images.source_row import SourceRow
from prx_assets.raw_images.spec import RawImagesSpec
from prx_resources.errors import PrxError, SourceReadError
from prx_resources.lance_table import image_schema, write_fragment


@dataclass(frozen=True)
class Group:
    """Files that one worker reads into fragments of their own.

    Attributes:
        source: The source's name.
        table: URI of its table.
        spec: The stage's spec.
        files: The files.
        replaced: Whether the table holds older rows of these files.
        embedding_dim: Length of vectors in the table; None if it has no such column.
    """

    source: str
    table: str
    spec: RawImagesSpec
    files: tuple[SourceFile, ...]
    replaced: bool = False
    embedding_dim: int | None = None


@dataclass
class FileReport:
    """What became of one file.

    Attributes:
        file: The file.
        rows: Source rows that were read.
        set_aside: Of these the ones set aside, by reason.
        error: Why nothing of the file was written.
        gone: The file vanished after it was listed.
    """

    file: SourceFile
    rows: int = 0
    set_aside: Counter[str] = field(default_factory=Counter)
    error: PrxError | None = None
    gone: bool = False


@dataclass(frozen=True)
class GroupResult:
    """What a worker hands to the driver, who alone commits.

    Attributes:
        group: What was asked for.
        reports: One for every file of the group.
        fragments: Written fragments that hold exactly the rows of the files without an error.
    """

    group: Group
    reports: tuple[FileReport, ...]
    fragments: tuple[str, ...]

    @property
    def done(self) -> tuple[FileReport, ...]:
        """Reports of the files that were read."""
        return tuple(r for r in self.reports if r.error is None and not r.gone)


class _FileFailed(Exception):
    """Rows of a file that failed later are already in the fragment: it must be written anew."""


def read_group(group: Group) -> GroupResult:
    """Reads the group's files and writes their rows; a file that fails leaves no row.

    Raises:
        StoreRefused: The lake can't be written.
    """
    failed: dict[str, FileReport] = {}
    while True:
        work = _Work(group, failed)
        try:
            fragments = work.write()
        except Exception:
            # Lance turns what its input raises into an error of its own.
            if work.restart is None:
                raise
            failed[work.restart.file.path] = work.restart
            continue
        reports = {report.file.path: report for report in [*failed.values(), *work.reports]}
        return GroupResult(group, tuple(reports[f.path] for f in group.files), tuple(fragments))


class _Work:
    """One attempt at a group."""

    def __init__(self, group: Group, failed: dict[str, FileReport]) -> None:
        self.reports: list[FileReport] = []
        self.restart: FileReport | None = None
        self._group = group
        self._files = [file for file in group.files if file.path not in failed]
        self._handed_over = 0  # rows that left for the fragment
        self._taken = 0

    def write(self) -> list[str]:
        """Writes fragments of the table's target size."""
        dim = self._group.embedding_dim
        target = self._group.spec.target_fragment_rows
        rows = self._rows()
        fragments: list[str] = []
        for first in rows:
            piece = itertools.chain([first], itertools.islice(rows, target - 1))
            fragments += write_fragment(
                self._group.table,
                image_schema(dim),
                self._counted(batches(piece, row_schema(dim))),
            )
        return fragments

    def _counted(self, source: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in source:
            self._handed_over += batch.num_rows
            yield batch

    def _rows(self) -> Iterator[dict[str, Any]]:
        for file in self._files:
            report = FileReport(file)
            self.reports.append(report)
            try:
                yield from self._file_rows(file, report)
            except FileNotFoundError:
                report.gone = True
            except OSError as error:
                report.error = _unreadable(file, self._group, error)
            except PrxError as error:
                report.error = error
            if (report.error is not None or report.gone) and report.rows:
                self.restart = report
                raise _FileFailed

    def _file_rows(self, file: SourceFile, report: FileReport) -> Iterator[dict[str, Any]]:
        group, spec = self._group, self._group.spec
        builder = RowBuilder(
            group.source, file.path, file.source_fp, spec.max_pixels, group.embedding_dim
        )
        for source_row in read_file(spec, local_path(spec.uri, file.path)):
            row = builder.table_row(source_row)
            report.rows += 1
            if row["set_aside"] is not None:
                report.set_aside[row["set_aside"]] += 1
            yield row
        now = current_fp(spec.kind, spec.uri, file.path)
        if now is not None and now != file.source_fp:
            raise SourceReadError(
                "the file changed while it was read",
                where=file.path,
                fix="run it again when whatever writes the source has finished",
            )


def read_file(spec: RawImagesSpec, path: Path) -> Iterator[SourceRow]:
    """Yields the rows of one file with the reader of the source's kind."""
    if spec.kind == "parquet":
        return parquet.read(path, spec.columns, spec.max_image_bytes)
    if spec.kind == "webdataset":
        return webdataset.read(path, spec.columns, spec.max_image_bytes)
    return folder.read(path, spec.max_image_bytes)


def embedding_dim(spec: RawImagesSpec, files: Sequence[SourceFile]) -> int | None:
    """Returns the length of the source's vectors, None if it doesn't bring any.

    Raises:
        SourceReadError: The manifest names a column of vectors, but no readable file has one.
    """
    column = spec.columns.embedding
    if column is None or spec.kind == "folder":
        return None
    find = parquet.embedding_length if spec.kind == "parquet" else webdataset.embedding_length
    damaged: SourceReadError | None = None
    for file in files:
        try:
            length = find(local_path(spec.uri, file.path), column)
        except SourceReadError as error:
            damaged = damaged or error
            continue
        if length is not None:
            return length
    raise damaged or SourceReadError(
        f"no file of the source holds a vector in {column!r}",
        where=spec.uri,
        fix="correct or remove `columns.embedding` in the source's manifest",
    )


def _unreadable(file: SourceFile, group: Group, error: OSError) -> SourceReadError:
    return SourceReadError(
        f"the file can't be read: {error.strerror or error}",
        where=str(local_path(group.spec.uri, file.path)),
        fix="give this user the right to read it, or remove it from the source",
    )


def make_groups(
    files: Sequence[SourceFile],
    *,
    target_bytes: int,
    max_files: int,
) -> Iterator[tuple[SourceFile, ...]]:
    """Cuts a listing into groups of about `target_bytes`, in its order."""
    waiting: list[SourceFile] = []
    size = 0
    for file in files:
        if waiting and (size + file.bytes > target_bytes or len(waiting) >= max_files):
            yield tuple(waiting)
            waiting, size = [], 0
        waiting.append(file)
        size += file.bytes
    if waiting:
        yield tuple(waiting)
