"""Which fragments to rewrite, and rewriting them.

Every byte that compaction moves is a byte of images, so it is lazy: fragments over half the target
stay as they are unless many of their rows are deleted, and small ones wait until they add up to
half of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import lance
import pyarrow.compute as pc
from lance.optimize import Compaction, CompactionTask, RewriteResult

from prx_resources.errors import ConflictError, InvariantError
from prx_resources.lance_table import target_fragment_rows
from prx_resources.lease import Lease

_BATCH_BYTES = 64 << 20
_BATCH_ROWS = 8192

Execute = Callable[[lance.LanceDataset, Sequence[CompactionTask]], list[RewriteResult]]
"""Runs rewriting tasks somewhere and returns their results."""


@dataclass(frozen=True)
class Fragment:
    """One fragment's size.

    Attributes:
        id: Lance's number.
        rows: Rows in its files, deleted ones too.
        deleted: Deleted rows among them.
    """

    id: int
    rows: int
    deleted: int

    @property
    def live(self) -> int:
        """Rows that readers see."""
        return self.rows - self.deleted


def sizes(ds: lance.LanceDataset) -> list[Fragment]:
    """Returns the size of every fragment."""
    return [
        Fragment(part.fragment_id, part.physical_rows, part.num_deletions)
        for part in ds.get_fragments()
    ]


def choose(fragments: Sequence[Fragment], target_rows: int, max_deleted: float) -> set[int]:
    """Returns the ids of the fragments to rewrite.

    Args:
        fragments: All fragments.
        target_rows: Rows of a full fragment.
        max_deleted: Share of deleted rows above which any fragment is rewritten.
    """
    holed = {part.id for part in fragments if part.deleted > max_deleted * part.rows}
    small = [part for part in fragments if 2 * part.live < target_rows]
    ripe = len(small) > 1 and 2 * sum(part.live for part in small) >= target_rows
    return holed | ({part.id for part in small} if ripe else set())


def plan(ds: lance.LanceDataset, max_deleted: float) -> list[CompactionTask]:
    """Returns the rewriting that is worth its bytes; empty if none is."""
    fragments, target = {part.id: part for part in sizes(ds)}, target_fragment_rows(ds)
    chosen = choose(list(fragments.values()), target, max_deleted)
    if not chosen:
        return []
    options = {
        "target_rows_per_fragment": target,
        "materialize_deletions_threshold": max_deleted,
        "excluded_fragment_ids": [number for number in fragments if number not in chosen],
        "batch_size": _batch_rows(ds),
    }

    # Lance joins neighbours only, and only if the same indexes cover them; what is left of a ripe
    # set may be too little to be worth it.
    def worth(task: CompactionTask) -> bool:
        parts = [fragments[part.id] for part in task.fragments]
        return bool(choose(parts, target, max_deleted))

    return [task for task in Compaction.plan(ds, options).tasks if worth(task)]


def compact(
    ds: lance.LanceDataset, tasks: Sequence[CompactionTask], execute: Execute, lease: Lease
) -> int:
    """Rewrites fragments, commits, and returns the number of rows rewritten.

    Raises:
        InvariantError: A rewritten fragment lost or gained rows; nothing was committed.
        ConflictError: Somebody wrote without the lease.
    """
    results = execute(ds, tasks)
    live = {part.id: part.live for part in sizes(ds)}
    before = sum(live[part.id] for result in results for part in result.original_fragments)
    after: int = sum(part.num_rows for result in results for part in result.new_fragments)
    if before != after:
        raise InvariantError(
            f"compaction turned {before} rows into {after}; nothing was committed",
            where=f"{ds.uri} version {ds.version}",
            fix="report this: the table is as it was",
        )
    lease.check()
    try:
        Compaction.commit(ds, results)
    except OSError as error:
        if "conflict" not in str(error):
            raise
        raise ConflictError(
            "another writer changed the table during compaction",
            where=str(ds.uri),
            fix="run it again",
        ) from error
    return after


def inline(ds: lance.LanceDataset, tasks: Sequence[CompactionTask]) -> list[RewriteResult]:
    """Runs tasks in this process, one after the other."""
    return [task.execute(ds) for task in tasks]


def on_ray(ds: lance.LanceDataset, tasks: Sequence[CompactionTask]) -> list[RewriteResult]:
    """Runs tasks on the cluster; Ray must be connected."""
    import ray

    run = ray.remote(num_cpus=1, max_retries=3)(_execute)
    return list(ray.get([run.remote(ds.uri, ds.version, task) for task in tasks]))


def _execute(uri: str, version: int, task: CompactionTask) -> RewriteResult:
    return task.execute(lance.dataset(uri, version=version))


def _batch_rows(ds: lance.LanceDataset) -> int:
    # A fixed number of rows would put thousands of large images into memory at once.
    mean = pc.mean(ds.to_table(columns=["bytes"])["bytes"]).as_py() or 1
    return int(max(1, min(_BATCH_ROWS, _BATCH_BYTES // mean)))
