"""The driver of every stage that fills columns of the image table, row by row.

Due rows are found once on the published version, computed in aligned ranges of row ids by workers
that never fail for a row, kept as chunks, and committed under the table's lease now and then.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prx_resources.chunks import ChunkStore
from prx_resources.contract import JobResult, JobSpec
from prx_resources.due_rows import ColumnStage, due_rows, failed_reasons
from prx_resources.errors import BusyError, InvariantError
from prx_resources.lake import Lake
from prx_resources.lance_commit import commit_columns
from prx_resources.lance_schema import chunk_rows
from prx_resources.lance_table import (
    hold,
    open_published,
    publish,
    sweep_predecessors,
    take_rows,
)
from prx_resources.late_binding import bind
from prx_resources.lease import lease
from prx_resources.stage_result import stage_result
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
    ds = open_published(uri)
    sweep_predecessors(uri, job.id)
    due = due_rows(ds, stage, spec)
    if spec.retry_failed and chunks.keys():
        # An earlier run's failures may wait in chunks; only in the table are they seen as failed.
        _commit(job, stage, uri, chunks, due)
        ds = open_published(uri)
        due = due_rows(ds, stage, spec)
    todo = _without(due, chunks.finished())
    seconds = None if seconds_per_row is None else seconds_per_row * todo.num_rows
    job.plan(todo.num_rows, identity or spec.row_fp, seconds)
    if spec.retry_failed:
        _say_absent(job, failed_reasons(ds, stage.group))
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
                        _commit(job, stage, uri, chunks, due, wait_s=0)
                    committed_at = time.monotonic()
    _commit(job, stage, uri, chunks, due)
    return stage_result(open_published(uri), stage, spec, due, todo.num_rows)


def _say_absent(job: Job, present: set[str]) -> None:
    absent = sorted(set(job.spec.retry_failed) - present)
    if absent:
        known = ", ".join(sorted(present)) or "none"
        job.log(f"no row failed for {', '.join(absent)}; reasons here: {known}")


def _commit(
    job: Job,
    stage: ColumnStage,
    uri: str,
    chunks: ChunkStore,
    due: pa.Table,
    wait_s: float = _FINAL_WAIT_S,
) -> None:
    """Commits all finished chunks, publishes, and removes what the table was seen to hold."""
    if not chunks.keys():
        return
    spec = job.spec
    with lease(chunks.lake.store, f"images/{spec.source}", job.id, wait_s=wait_s) as held:
        now = lance.dataset(uri)
        for keys, values in _portions(chunks, lambda rows: _wanted(now, stage, spec, due, rows)):
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


def _wanted(
    ds: lance.LanceDataset, stage: ColumnStage, spec: JobSpec, due: pa.Table, rows: pa.Table
) -> pa.Table:
    """Leaves out rows that another identity has filled since, unless they are due.

    A chunk may have waited for long, while settings were changed and changed back: only `redo`
    replaces values that are there.
    """
    fp = stage.group.fp
    now = take_rows(ds, rows["_rowid"].combine_chunks(), [fp])
    others = now.filter(pc.not_equal(now[fp], spec.row_fp))["_rowid"]
    kept = others.filter(pc.invert(pc.is_in(others, value_set=due["_rowid"].combine_chunks())))
    return rows.filter(pc.invert(pc.is_in(rows["_rowid"], value_set=kept.combine_chunks())))


def _portions(
    chunks: ChunkStore, wanted: Callable[[pa.Table], pa.Table]
) -> Iterator[tuple[list[str], pa.Table]]:
    """Yields chunks' wanted rows joined to what one commit may hold, with the chunks it empties."""
    keys: list[str] = []
    tables: list[pa.Table] = []
    for key, table in chunks.tables():
        rows = wanted(table)
        if rows.num_rows == table.num_rows:
            keys.append(key)
        if rows.num_rows:
            tables.append(rows)
        if sum(part.nbytes for part in tables) > _COMMIT_BYTES:
            yield keys, pa.concat_tables(tables)
            keys, tables = [], []
    if tables:
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
