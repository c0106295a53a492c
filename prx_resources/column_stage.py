"""The driver of every stage that fills columns of the image table, row by row.

Due rows are found once on the published version, computed in aligned ranges of row ids by workers
that never fail for a row, kept as chunks, and committed under the table's lease now and then.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prx_resources.chunks import FINISHED, ChunkStore
from prx_resources.columns import ColumnGroup
from prx_resources.contract import CheckOutcome, JobResult, JobSpec, Meta
from prx_resources.data_version import data_version
from prx_resources.errors import BusyError, InvariantError
from prx_resources.lake import Lake
from prx_resources.lance_commit import bind, commit_columns, digests
from prx_resources.lance_schema import chunk_rows
from prx_resources.lance_sql import all_of, quote
from prx_resources.lance_table import hold, open_published, publish
from prx_resources.lease import lease
from prx_resources.worker_pool import (
    Compute,
    ComputeFactory,
    InlinePool,
    Pool,
    RangeTask,
    RangeWork,
    RayPool,
)

__all__ = [
    "ColumnStage",
    "Compute",
    "ComputeFactory",
    "InlinePool",
    "Job",
    "Pool",
    "RayPool",
    "due_rows",
    "run",
]

_COMMIT_BYTES = 512 << 20
_FINAL_WAIT_S = 6 * 3600.0


class Job(Protocol):
    """What the driver needs of the job it runs in; `prx_assets.runtime.Job` is one."""

    @property
    def spec(self) -> JobSpec:
        """What was asked for."""
        ...

    @property
    def id(self) -> str:
        """The submission id: holder of leases and holds."""
        ...

    @property
    def run_dir(self) -> Path:
        """The run's folder."""
        ...

    def log(self, text: str) -> None:
        """Prints a line."""
        ...

    def plan(self, rows_due: int, identity: str, seconds: float | None) -> None:
        """Prints the job's first line."""
        ...

    def progress(self, done: int, total: int) -> None:
        """Shows how far it is."""
        ...

    def connect_ray(self) -> object:
        """Connects this process to Ray; called only if there is work."""
        ...


@dataclass(frozen=True)
class ColumnStage:
    """A stage that fills a group of columns.

    Attributes:
        group: The columns it writes.
        reads: Columns handed to the compute; `image` is allowed, `group.input_of` must be there.
        where: Lance SQL of the rows it is responsible for.
    """

    group: ColumnGroup
    reads: tuple[str, ...]
    where: str

    @property
    def name(self) -> str:
        """The stage's name: its asset, its chunks' folder, its range size in the table."""
        return self.group.stage


def due_rows(ds: lance.LanceDataset, stage: ColumnStage, spec: JobSpec) -> pa.Table:
    """Returns the rows to compute: `_rowid`, `content_sha256`, `input`, sorted by `_rowid`.

    Due are rows without a value of any identity and rows whose input changed; on `redo` also those
    of another identity; on `retry_failed` also those that failed for such a reason.
    """
    group = stage.group
    columns = ["_rowid", "content_sha256", group.fp, group.error]
    where = stage.where
    if group.input is not None and group.input_of is not None:
        # Whether an input changed only its digest tells, which SQL can't compute.
        columns += [group.input, group.input_of]
    else:
        open_rows = [f"{group.fp} IS NULL"]
        open_rows += [f"{group.fp} != {quote(spec.row_fp)}"] if spec.redo else []
        open_rows += [f"{group.error} IS NOT NULL"] if spec.retry_failed else []
        where = all_of(where, " OR ".join(open_rows))
    parts = [FINISHED.empty_table()]
    for batch in ds.scanner(columns=columns, filter=where).to_batches():
        rows = pa.Table.from_batches([batch])
        inputs = rows["content_sha256"]
        due = pc.is_null(rows[group.fp])
        if group.input is not None and group.input_of is not None:
            inputs = digests(rows[group.input_of])
            same = pc.fill_null(pc.equal(rows[group.input], inputs), False)
            due = pc.or_(due, pc.invert(same))
        if spec.redo:
            due = pc.or_(due, pc.fill_null(pc.not_equal(rows[group.fp], spec.row_fp), True))
        if spec.retry_failed:
            wanted = pc.is_in(_reasons(rows[group.error]), value_set=pa.array(spec.retry_failed))
            due = pc.or_(due, wanted)
        rows = rows.select(["_rowid", "content_sha256"]).append_column("input", inputs)
        parts.append(rows.filter(due).cast(FINISHED))
    return pa.concat_tables(parts).sort_by("_rowid")


def run(
    job: Job,
    stage: ColumnStage,
    compute_factory: ComputeFactory,
    *,
    workers: int | None = None,
    pool: Pool | None = None,
    seconds_per_row: float | None = None,
    identity: str = "",
    commit_every_s: float = 600,
) -> JobResult:
    """Brings a stage's columns up to date with the published table.

    Args:
        job: The job.
        stage: What to fill.
        compute_factory: Builds the stage's work inside each worker.
        workers: How many actors; None for one per CPU of the cluster.
        pool: Where computes run; None for Ray.
        seconds_per_row: The whole job's estimate, for the plan line.
        identity: How to call the identity in the plan line; the row fingerprint by default.
        commit_every_s: Time between partial commits.

    Returns:
        Rows by outcome, with the checks `rows_accounted`, `one_identity` and `failed_rows`.

    Raises:
        EngineError: An engine can't start, or its worker died again and again.
        InvariantError: The commit doesn't hold what was computed.
    """
    spec = job.spec
    lake = Lake(spec.lake)
    uri = lake.images_uri(spec.source)
    chunks = ChunkStore(lake, stage.name, spec.source, spec.row_fp)
    if spec.retry_failed:
        # An earlier run's failures may wait in chunks; only in the table are they seen as failed.
        _commit(job, stage, uri, chunks)
    ds = open_published(uri)
    due = due_rows(ds, stage, spec)
    todo = _without(due, chunks.finished())
    seconds = None if seconds_per_row is None else seconds_per_row * todo.num_rows
    job.plan(todo.num_rows, identity or spec.row_fp, seconds)
    if todo.num_rows:
        if pool is None:
            job.connect_ray()
            pool = RayPool(workers)
        work = RangeWork(uri, ds.version, stage.group, stage.reads, chunks, spec.row_fp)
        tasks = list(_tasks(todo, chunk_rows(ds, stage.name)))
        done, committed_at = 0, time.monotonic()
        with hold(uri, ds.version, job.id):
            for rows in pool.map(compute_factory, work, tasks):
                done += rows
                job.progress(done, todo.num_rows)
                if time.monotonic() - committed_at >= commit_every_s:
                    with contextlib.suppress(BusyError):  # Compaction can take its time.
                        _commit(job, stage, uri, chunks, wait_s=0)
                    committed_at = time.monotonic()
    _commit(job, stage, uri, chunks)
    return _result(open_published(uri), stage, spec, due, todo.num_rows)


def _commit(
    job: Job, stage: ColumnStage, uri: str, chunks: ChunkStore, wait_s: float = _FINAL_WAIT_S
) -> None:
    """Commits all finished chunks, publishes, and removes what the table was seen to hold."""
    if not chunks.keys():
        return
    spec = job.spec
    with lease(chunks.lake.store, f"images/{spec.source}", job.id, wait_s=wait_s) as held:
        for keys, values in _portions(chunks):
            version = commit_columns(uri, stage.group, values, held)
            left = bind(lance.dataset(uri, version=version), stage.group, values).num_rows
            if left:
                raise InvariantError(
                    f"{left} rows of {stage.name} aren't in the table as they were computed",
                    where=f"{spec.source} version {version}",
                    fix="run it again: the chunks are kept",
                )
            publish(uri, version, held)
            chunks.delete(keys)


def _portions(chunks: ChunkStore) -> Iterator[tuple[list[str], pa.Table]]:
    """Yields chunks joined to what one commit may hold in memory."""
    keys: list[str] = []
    tables: list[pa.Table] = []
    for key, table in chunks.tables():
        keys.append(key)
        tables.append(table)
        if sum(part.nbytes for part in tables) > _COMMIT_BYTES:
            yield keys, pa.concat_tables(tables)
            keys, tables = [], []
    if keys:
        yield keys, pa.concat_tables(tables)


def _tasks(due: pa.Table, rows_per_range: int) -> Iterator[RangeTask]:
    ids = due["_rowid"].to_numpy()
    starts, first = np.unique(ids // rows_per_range, return_index=True)
    for start, part in zip(starts, np.split(ids, first[1:]), strict=True):
        yield RangeTask(int(start) * rows_per_range, pa.array(part, pa.uint64()))


def _without(due: pa.Table, finished: pa.Table) -> pa.Table:
    return due.filter(pc.invert(pc.is_in(_keys(due), value_set=_keys(finished).combine_chunks())))


def _keys(rows: pa.Table) -> pa.ChunkedArray:
    inputs = pc.fill_null(rows["input"], "")
    return pc.binary_join_element_wise(rows["_rowid"].cast(pa.string()), inputs, "/")


def _reasons(errors: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(errors, "(?s):.*", ""))


def _result(
    ds: lance.LanceDataset, stage: ColumnStage, spec: JobSpec, due: pa.Table, done: int
) -> JobResult:
    group = stage.group
    rows = ds.to_table(columns=["_rowid", group.fp, group.error], filter=stage.where)
    unfinished = rows.filter(pc.is_null(rows[group.fp]))
    # Rows that came after the version we read are the next run's, not lost.
    lost = pc.sum(pc.is_in(unfinished["_rowid"], value_set=due["_rowid"])).as_py() or 0
    finished = rows.filter(pc.is_valid(rows[group.fp]))
    failed = _counts(_reasons(finished[group.error]))
    identities = _counts(finished[group.fp])
    failures = sum(failed.values())
    others = finished.num_rows - identities.get(spec.row_fp, 0)
    set_aside = {**failed, "unfinished": lost} if lost else failed
    checks = (
        CheckOutcome("rows_accounted", not lost, f"{lost} due rows have neither value nor reason"),
        CheckOutcome("one_identity", not others, _identity_text(others, spec), warn=True),
        CheckOutcome("failed_rows", not failures, f"{failures} rows failed", warn=True),
    )
    return JobResult(
        data_version=data_version(ds, group, where=stage.where),
        rows_in=finished.num_rows + lost,
        rows_out=finished.num_rows - failures,
        set_aside=set_aside,
        done=done,
        metadata={
            "rows_due": Meta(due.num_rows, "int"),
            "rows_computed": Meta(done, "int"),
            "rows_failed": Meta(failures, "int"),
            "failed_by_reason": Meta(failed, "json"),
            "rows_by_identity": Meta(identities, "json"),
        },
        checks=checks,
    )


def _identity_text(others: int, spec: JobSpec) -> str:
    if not others:
        return f"every row stands by {spec.row_fp}"
    return f"{others} rows stand by another identity than {spec.row_fp}; redo recomputes them"


def _counts(values: pa.ChunkedArray) -> dict[str, int]:
    counts = pc.value_counts(pc.drop_null(values)).to_pylist()
    return {entry["values"]: entry["counts"] for entry in sorted(counts, key=lambda e: e["values"])}
