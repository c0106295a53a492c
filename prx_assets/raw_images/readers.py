"""Where groups of files are read: on Ray, or in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from prx_assets.raw_images.groups import Group, GroupResult, read_group

_WAITING_PER_WORKER = 2


class Readers(Protocol):
    """Workers that read groups."""

    @property
    def workers(self) -> int:
        """How many groups are read at a time."""
        ...

    def read(self, groups: Iterable[Group]) -> Iterator[GroupResult]:
        """Yields results as they are finished, in any order."""
        ...


class InlineReaders:
    """Reads in this process, one group after the other."""

    workers = 1

    def read(self, groups: Iterable[Group]) -> Iterator[GroupResult]:
        """See `Readers.read`."""
        yield from map(read_group, groups)


class RayReaders:
    """Reads in Ray tasks, one CPU each. Ray must be connected.

    A task whose worker dies is tried again; what a dead one wrote is in no version of the table.
    """

    def __init__(self) -> None:
        import ray

        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def read(self, groups: Iterable[Group]) -> Iterator[GroupResult]:
        """See `Readers.read`."""
        import ray

        task = ray.remote(read_group).options(num_cpus=1, max_retries=5, name="read source files")
        running: list[ray.ObjectRef[GroupResult]] = []
        for group in groups:
            running.append(task.remote(group))
            if len(running) >= self.workers * _WAITING_PER_WORKER:
                finished, running = ray.wait(running, num_returns=1)
                yield ray.get(finished[0])
        while running:
            finished, running = ray.wait(running, num_returns=1)
            yield ray.get(finished[0])
