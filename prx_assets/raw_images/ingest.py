"""The driver of ingest: finds what is due, has it read, and alone commits.

Every commit leaves a table that may be published: appended rows and the set-aside of doubled keys
come under one lease.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from prx_assets.raw_images import groups, parquet
from prx_assets.raw_images.duplicate_keys import decide
from prx_assets.raw_images.groups import FileReport, Group, GroupResult
from prx_assets.raw_images.ledger import Ledger, note_without_rows, read_ledger
from prx_assets.raw_images.listing import SourceFile, local_path
from prx_assets.raw_images.readers import Readers
from prx_assets.raw_images.spec import RawImagesSpec
from prx_resources import lance_table
from prx_resources.column_stage import Job
from prx_resources.errors import (
    ConflictError,
    InvariantError,
    ManifestError,
    SourceReadError,
)
from prx_resources.lake import Lake
from prx_resources.lease import Lease, lease

_MIN_GROUP_BYTES = 64 << 20
_MAX_GROUP_BYTES = 4 << 30
_COMMIT_GROUPS = 64
_COMMIT_EVERY_S = 60.0
_WAIT_S = 6 * 3600.0
"""Compaction can take its time; what was read would have to be read again."""


@dataclass
class Ingest:
    """One run over one source.

    Attributes:
        job: The job.
        spec: The stage's spec.
        files: The source's listing.
        ledger: What was read before this run.
        version: The table's version that the ledger was read from, then of the last commit.
        reports: What became of the files read by this run.
    """

    job: Job
    spec: RawImagesSpec
    files: Sequence[SourceFile]
    ledger: Ledger
    version: int = 0
    reports: list[FileReport] = field(default_factory=list)

    @property
    def lake(self) -> Lake:
        """The lake."""
        return Lake(self.job.spec.lake)

    @property
    def source(self) -> str:
        """The source's name."""
        return self.job.spec.source

    @property
    def uri(self) -> str:
        """URI of the source's table."""
        return self.lake.images_uri(self.source)

    def due(self) -> list[SourceFile]:
        """Returns the files to read; on `redo` all, on `retry_failed` those with such rows too."""
        if self.job.spec.redo:
            return list(self.files)
        again = self._failed(self.job.spec.retry_failed)
        return [file for file in self.files if file.path in again or not self.ledger.has(file)]

    def _failed(self, reasons: Sequence[str]) -> set[str]:
        if not reasons or not self.ledger.in_table:
            return set()
        rows = lance_table.open_latest(self.uri).to_table(
            columns=["source_file"], filter=lance_table.is_in("set_aside", reasons)
        )
        return set(rows["source_file"].to_pylist())

    def prepare(self, due: Sequence[SourceFile]) -> int | None:
        """Creates the table if there is none and returns its embedding length.

        Raises:
            ManifestError: The source's columns aren't what the manifest says.
            SourceReadError: No file can be read.
        """
        if lance_table.exists(self.uri):
            dim = self._table_dim()
        else:
            self._check_columns(due)
            dim = groups.embedding_dim(self.spec, due)
        # Also where it exists: a job killed in between may have left it without its settings.
        lance_table.create(
            self.uri,
            chunk_rows=self.spec.chunk_rows,
            target_fragment_rows=self.spec.target_fragment_rows,
            embedding_dim=dim,
        )
        return dim

    def read(self, due: Sequence[SourceFile], dim: int | None, readers: Readers) -> None:
        """Reads files and commits their rows now and then."""
        tuning = self.job.spec.tuning
        most = int(tuning.get("commit_groups", _COMMIT_GROUPS))
        every_s = float(tuning.get("commit_every_s", _COMMIT_EVERY_S))
        waiting: list[GroupResult] = []
        last = time.monotonic()
        for result in readers.read(self._groups(due, dim, readers.workers)):
            waiting.append(result)
            self.reports += result.reports
            if len(waiting) >= most or time.monotonic() - last >= every_s:
                started = time.monotonic()
                self._commit(waiting)
                waiting, last = [], time.monotonic()
                # Doubled keys are looked for in the whole table: seldom, if that takes long.
                every_s = max(every_s, 10 * (last - started))
            self.job.progress(len(self.reports), len(due))
        self._commit(waiting)

    def finish(self) -> None:
        """Makes doubled keys unique, checks the books, and publishes; nothing if nothing changed.

        Raises:
            InvariantError: Rows or files are missing; nothing is published.
        """
        ds = lance_table.open_latest(self.uri)
        published = lance_table.published_version(self.uri)
        changes = decide(ds)
        if published == ds.version and not changes.num_rows:
            return
        with self._lease() as held:
            self._set_aside_doubles(held)
            ds = lance_table.open_latest(self.uri)
            self._check_books(read_ledger(self.lake, self.source, ds))
            failed = any(report.error for report in self.reports)
            if not (failed and ds.count_rows() == 0):
                lance_table.publish(self.uri, int(ds.version), held)

    def _check_columns(self, due: Sequence[SourceFile]) -> None:
        """Checks the manifest against the first file that can be read, before there is a table."""
        damaged: SourceReadError | None = None
        for file in due if self.spec.kind == "parquet" else ():
            try:
                parquet.check_file(local_path(self.spec.uri, file.path), self.spec.columns)
            except SourceReadError as error:
                damaged = damaged or error
            else:
                return
        if damaged is not None:
            raise damaged

    def _table_dim(self) -> int | None:
        schema = lance_table.open_latest(self.uri).schema
        if "embedding" in schema.names:
            return int(schema.field("embedding").type.list_size)
        if self.spec.columns.embedding is not None:
            raise ManifestError(
                "the source's table was made without embeddings, and the manifest names some now",
                where=self.uri,
                fix="remove `columns.embedding`, or add the source again under another name",
            )
        return None

    def _groups(self, due: Sequence[SourceFile], dim: int | None, workers: int) -> Iterator[Group]:
        share = sum(file.bytes for file in due) // (2 * workers)
        target = min(max(share, _MIN_GROUP_BYTES), _MAX_GROUP_BYTES)
        most = int(self.job.spec.tuning.get("files_per_task", self.spec.target_fragment_rows))
        replaced = [file for file in due if file.path in self.ledger.in_table]
        fresh = [file for file in due if file.path not in self.ledger.in_table]
        for files, old in ((fresh, False), (replaced, True)):
            for part in groups.make_groups(files, target_bytes=target, max_files=most):
                yield Group(self.source, self.uri, self.spec, part, old, dim)

    def _commit(self, results: Sequence[GroupResult]) -> None:
        done = [report for result in results for report in result.done]
        if not done:
            return
        with self._lease() as held:
            self._refuse_double_ingest(done)
            fresh = [text for r in results if not r.group.replaced for text in r.fragments]
            if fresh:
                lance_table.commit_append(self.uri, fresh, held)
            for result in results:
                if result.group.replaced and result.done:
                    paths = [report.file.path for report in result.done]
                    lance_table.replace_rows(
                        self.uri, lance_table.is_in("source_file", paths), result.fragments, held
                    )
            self._set_aside_doubles(held)
            self.version = int(lance_table.open_latest(self.uri).version)
        for report in done:
            if report.rows == 0:
                note_without_rows(self.lake, self.source, report.file)

    def _refuse_double_ingest(self, done: Sequence[FileReport]) -> None:
        """Appending is not idempotent: nobody else may have read these files meanwhile."""
        ds = lance_table.open_latest(self.uri)
        if ds.version == self.version:
            return
        now = read_ledger(self.lake, self.source, ds)
        before = self.ledger.in_table
        for report in done:
            if now.in_table.get(report.file.path) != before.get(report.file.path):
                raise ConflictError(
                    f"another job has just read {report.file.path!r}; nothing was committed",
                    where=self.uri,
                    fix="wait until it ends, then run it again",
                )

    def _set_aside_doubles(self, held: Lease) -> None:
        changes = decide(lance_table.open_latest(self.uri))
        if changes.num_rows:
            names = ("set_aside", "set_aside_detail")
            lance_table.commit_columns(self.uri, names, changes, held)

    def _check_books(self, now: Ledger) -> None:
        excused = {r.file.path for r in self.reports if r.error is not None or r.gone}
        for file in self.files:
            if file.path not in excused and not now.has(file):
                raise _wrong(f"{file.path!r} was listed, but neither rows nor a note exist", self)
        for report in self.reports:
            path, source_fp = report.file.path, report.file.source_fp
            rows = now.in_table[path][source_fp] if path in now.in_table else 0
            if path not in excused and rows != report.rows:
                raise _wrong(f"{path!r} gave {report.rows} rows, the table has {rows}", self)

    def _lease(self) -> AbstractContextManager[Lease]:
        name = f"images/{self.source}"
        return lease(self.lake.store, name, self.job.id, wait_s=_WAIT_S)


def _wrong(what: str, ingest: Ingest) -> InvariantError:
    return InvariantError(
        f"{what}; nothing was published",
        where=ingest.uri,
        fix=f"run it again; if it stays, report it: prx materialize raw_images --source"
        f" {ingest.source}",
    )
