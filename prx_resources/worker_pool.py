"""Where a column stage's work runs: actors on Ray, or this process for tests.

A task is one aligned range of row ids. It reads its rows, computes them and keeps them as a chunk,
so a task that is run twice, by a retry or a second job, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import lance
import pyarrow as pa
import pyarrow.compute as pc

from prx_resources.chunks import ChunkStore
from prx_resources.columns import ColumnGroup
from prx_resources.errors import EngineError, InvariantError, PrxError
from prx_resources.lance_table import read_images, take_rows
from prx_resources.late_binding import digests

_RETRIES = 3


class Compute(Protocol):
    """A stage's work on some rows; lives inside a worker."""

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Computes the values of some rows. Never raises for a row: its error column says why.

        Args:
            rows: `_rowid`, `image_id`, `content_sha256` and the columns the stage reads
                (`image` as bytes). Never empty.

        Returns:
            One row per row given, in the same order: the group's columns except `fp` and `input`,
            which the driver fills.
        """
        ...


ComputeFactory = Callable[[], Compute]
"""Builds a Compute inside a worker. Picklable; raises EngineError if its engine can't start."""


@dataclass(frozen=True)
class RangeTask:
    """The rows to compute within one aligned range.

    Attributes:
        start: First row id of the range.
        row_ids: Those that are due, ascending.
    """

    start: int
    row_ids: pa.UInt64Array


@dataclass(frozen=True)
class RangeWork:
    """What is the same for every task of a job.

    Attributes:
        uri: The image table.
        version: The version that is read.
        group: The columns to fill.
        reads: Columns handed to the compute.
        chunks: Where finished ranges go.
        row_fp: Identity of the values.
    """

    uri: str
    version: int
    group: ColumnGroup
    reads: tuple[str, ...]
    chunks: ChunkStore
    row_fp: str

    def run(self, ds: lance.LanceDataset, compute: Compute, task: RangeTask) -> int:
        """Computes one range, keeps it as a chunk and returns how many rows it has."""
        parts = [self._compute(compute, rows) for rows in self._read(ds, task)]
        self.chunks.write(task.start, pa.concat_tables(parts))
        return len(task.row_ids)

    def open(self) -> lance.LanceDataset:
        """Opens the version that is read."""
        return lance.dataset(self.uri, version=self.version)

    def _read(self, ds: lance.LanceDataset, task: RangeTask) -> Iterator[pa.Table]:
        columns = list(dict.fromkeys(("image_id", "content_sha256", *self.reads)))
        if "image" in columns:
            for batch in read_images(ds, task.row_ids, columns):
                yield pa.Table.from_batches([batch])
        else:
            yield take_rows(ds, task.row_ids, columns)

    def _compute(self, compute: Compute, rows: pa.Table) -> pa.Table:
        values = compute(rows)
        group = self.group
        wanted = [name for name in group.names if name not in (group.fp, group.input)]
        if values.num_rows != rows.num_rows or not set(wanted) <= set(values.schema.names):
            raise InvariantError(
                f"{group.stage} answered {values.num_rows} rows of {values.schema.names} for "
                f"{rows.num_rows} rows, which asked for {wanted}",
                fix="return one row per row given, with all of these columns",
            )
        inputs = rows["content_sha256"] if group.input_of is None else digests(rows[group.input_of])
        chunk = rows.select(["_rowid", "image_id", "content_sha256"]).append_column("input", inputs)
        for field in group.fields:
            if field.name == group.fp:
                column = pa.repeat(pa.scalar(self.row_fp), rows.num_rows)
            else:
                column = inputs if field.name == group.input else values[field.name]
            chunk = chunk.append_column(field, pc.cast(column, field.type))
        return chunk


class Pool(Protocol):
    """Where computes run."""

    def map(
        self, factory: ComputeFactory, work: RangeWork, tasks: Sequence[RangeTask]
    ) -> Iterator[int]:
        """Runs all tasks, in any order, and yields each one's number of rows as it ends."""
        ...


class InlinePool:
    """Runs everything in this process: for tests."""

    def map(
        self, factory: ComputeFactory, work: RangeWork, tasks: Sequence[RangeTask]
    ) -> Iterator[int]:
        """See `Pool.map`."""
        compute, ds = _start(factory), work.open()
        for task in tasks:
            yield work.run(ds, compute, task)


class RayPool:
    """One actor per worker, each holding an engine; a worker that dies is started again.

    Ray must be connected when `map` is first advanced.

    Args:
        workers: How many actors; None for one per CPU of the cluster.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers

    def map(
        self, factory: ComputeFactory, work: RangeWork, tasks: Sequence[RangeTask]
    ) -> Iterator[int]:
        """See `Pool.map`.

        Raises:
            EngineError: An engine can't start, or its worker died again and again.
        """
        import ray

        kind = ray.remote(num_cpus=1, max_restarts=_RETRIES, max_task_retries=_RETRIES)(_Worker)
        count = self._workers or int(ray.cluster_resources().get("CPU", 1))
        actors = [kind.remote(factory, work) for _ in range(max(1, min(count, len(tasks))))]
        # Work starts with the first worker that is up: the cluster may have no room for all.
        running = {actor.ready.remote(): actor for actor in actors}
        todo, left = list(reversed(tasks)), len(tasks)
        try:
            while left:
                (done,), _ = ray.wait(list(running), num_returns=1)
                actor = running.pop(done)
                rows = _outcome(ray, done)
                if rows is not None:
                    left -= 1
                    yield rows
                if todo:
                    running[actor.run.remote(todo.pop())] = actor
        finally:
            for actor in actors:
                ray.kill(actor)


class _Worker:
    """Holds one engine. A failed start is kept as a value: Ray would wrap and retry it."""

    def __init__(self, factory: ComputeFactory, work: RangeWork) -> None:
        self._work = work
        self._failure: PrxError | None = None
        try:
            self._compute = _start(factory)
            self._ds = self._work.open()
        except PrxError as error:
            self._failure = error

    def ready(self) -> PrxError | None:
        return self._failure

    def run(self, task: RangeTask) -> int | PrxError:
        return self._failure or self._work.run(self._ds, self._compute, task)


def _start(factory: ComputeFactory) -> Compute:
    try:
        return factory()
    except PrxError:
        raise
    except Exception as error:
        raise EngineError(
            f"the engine can't start: {type(error).__name__}: {error}",
            fix="see the job's log; `prx doctor` checks what engines need",
        ) from error


def _outcome(ray: Any, reference: Any) -> int | None:
    try:
        outcome = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause or error) from None
    except ray.exceptions.RayActorError as error:
        raise EngineError(
            f"a worker died {_RETRIES + 1} times: {str(error).splitlines()[0]}",
            fix="look for out-of-memory kills; use fewer workers or smaller images",
        ) from None
    if isinstance(outcome, PrxError):
        raise outcome
    return None if outcome is None else int(outcome)
