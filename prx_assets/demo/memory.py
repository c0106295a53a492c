"""Peak memory of the demo: the sum of PSS over everything it runs (Linux; elsewhere unknown)."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_PROC = Path("/proc")
_EVERY_S = 1.0


class PeakMemory:
    """Samples the memory of this process, some others, and all their descendants.

    PSS counts a page shared by n processes as 1/n in each, so the sum counts it once.

    Args:
        roots: Returns the process ids to follow besides our own (the keeper's, the jobs').
    """

    def __init__(self, roots: Callable[[], Iterable[int]]) -> None:
        self._roots = roots
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        if (_PROC / "self/smaps_rollup").exists():
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_S):
            family = _family({os.getpid(), *self._roots()})
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss, family)))


def _family(roots: set[int]) -> set[int]:
    children = defaultdict(list)
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            children[_parent(folder)].append(int(folder.name))
    found, queue = set(), list(roots)
    while queue:
        pid = queue.pop()
        if pid not in found:
            found.add(pid)
            queue += children[pid]
    return found


def _parent(folder: Path) -> int:
    try:
        # The command's name, in parentheses, may hold anything; what follows is numbers.
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _pss(pid: int) -> int:
    try:
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0
