"""The driver of every stage that fills columns of the image table, row by row.

Due rows are found once on the published version, computed in aligned ranges of row ids by actors
that never fail for a row, kept as chunks, and committed under the table's lease now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import lance
import pyarrow as pa

from prx_resources.columns import ColumnGroup
from prx_resources.contract import JobResult, JobSpec


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


class Compute(Protocol):
    """A stage's work on some rows; lives inside a worker."""

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Computes the values of some rows. Never raises for a row: its error column says why.

        Args:
            rows: `_rowid`, `image_id`, `content_sha256` and the columns the stage reads
                (`image` as bytes).

        Returns:
            One row per row given, in the same order: the group's columns except `fp` and `input`,
            which the driver fills.
        """
        ...


ComputeFactory = Callable[[], Compute]
"""Builds a Compute inside a worker. Picklable; raises EngineError if its engine can't start."""


@dataclass(frozen=True)
class ColumnStage:
    """A stage that fills a group of columns.

    Attributes:
        group: The columns it writes.
        reads: Columns handed to the compute; `image` is allowed.
        where: Lance SQL of the rows it is responsible for.
    """

    group: ColumnGroup
    reads: tuple[str, ...]
    where: str

    @property
    def name(self) -> str:
        """The stage's name: its asset, its chunks' folder, its range size in the table."""
        return self.group.stage


class Pool(Protocol):
    """Where computes run."""


class InlinePool:
    """Runs everything in this process: for tests."""


def due_rows(ds: lance.LanceDataset, stage: ColumnStage, spec: JobSpec) -> pa.Table:
    """Returns the rows to compute: `_rowid`, `content_sha256`, `input`, sorted by `_rowid`.

    Due are rows without a value of any identity and rows whose input changed; on `redo` also those
    of another identity; on `retry_failed` also those that failed for such a reason.
    """
    raise NotImplementedError


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
        seconds_per_row: One worker's estimate, for the plan line.
        identity: How to call the identity in the plan line: `engine/model@revision`.
        commit_every_s: Time between partial commits.

    Returns:
        Rows by outcome, with the checks `rows_accounted`, `one_identity` and `failed_rows`.

    Raises:
        EngineError: An engine can't start, or its worker died again and again.
        InvariantError: The commit wouldn't hold what was computed.
    """
    raise NotImplementedError
