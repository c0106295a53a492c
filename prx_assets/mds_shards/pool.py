"""Where slices are written: on Ray, or in this process for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from prx_assets.mds_shards.slices import Slice, Written, write_slice
from prx_resources.errors import PrxError, StageError


class Pool(Protocol):
    """Runs slices."""

    def run(self, tasks: Iterable[Slice]) -> Iterator[Written]:
        """Yields finished slices, in any order.

        Raises:
            PrxError: A slice could not be written.
        """
        ...


class InlinePool:
    """Runs slices one after the other in this process."""

    def run(self, tasks: Iterable[Slice]) -> Iterator[Written]:
        """See `Pool.run`."""
        return map(write_slice, tasks)


class RayPool:
    """Runs slices as Ray tasks, one core each.

    Args:
        connect: Connects this process to Ray; called when there is a first slice.
        workers: How many at once; None for one per core of the cluster.
    """

    def __init__(self, connect: Callable[[], object], workers: int | None = None) -> None:
        self._connect = connect
        self._workers = workers

    def run(self, tasks: Iterable[Slice]) -> Iterator[Written]:
        """See `Pool.run`."""
        import ray

        self._connect()
        remote = ray.remote(num_cpus=1, max_retries=3)(write_slice)
        at_once = self._workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting = iter(tasks)
        # One more than there are cores: no core waits for this process.
        running = [remote.remote(task) for task in islice(waiting, at_once + 1)]
        while running:
            done, running = ray.wait(running, num_returns=1)
            running += [remote.remote(task) for task in islice(waiting, len(done))]
            for reference in done:
                yield _result(reference)


def _result(reference: Any) -> Written:
    import ray

    try:
        written: Written = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise (cause if isinstance(cause, PrxError) else _failed(cause)) from None
    except ray.exceptions.RayError as error:
        raise _failed(error) from None
    return written


def _failed(error: BaseException) -> StageError:
    return StageError(
        f"a worker could not write a shard: {type(error).__name__}: {error}",
        fix="run it again; finished shards are kept",
    )
