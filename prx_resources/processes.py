"""Processes that we started and may not be the parent of any more. Stdlib only."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_children: list[subprocess.Popen[bytes]] = []
"""Kept so that they are reaped, and not warned about, when their handle is gone."""


@dataclass(frozen=True)
class Process:
    """A process by id and start time, so that a reused id is never taken for it.

    Attributes:
        pid: Process id; also its process group's where we started it.
        started: Start time as the system tells it; compared only.
    """

    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        _children[:] = [child for child in _children if child.poll() is None]
        return start_time(self.pid) == self.started

    def end(self, wait_s: float) -> None:
        """Asks the process to end; kills its group if it is still there after `wait_s`."""
        if not self.alive:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + wait_s
        while self.alive:
            if time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                deadline += wait_s
            time.sleep(0.1)


def spawn(command: Sequence[str], log: Path, variables: Mapping[str, str], cwd: Path) -> Process:
    """Starts a process in a session of its own, so that our end or Ctrl-C isn't its end.

    Args:
        command: Program and arguments.
        log: File that gets stdout and stderr.
        variables: Its whole environment.
        cwd: Its working folder.
    """
    with log.open("ab") as out:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(variables),
            cwd=cwd,
            start_new_session=True,
        )
    _children.append(child)
    # A child that isn't reaped yet has a start time even if it has ended already.
    return Process(child.pid, start_time(child.pid) or "ended")


def this_process() -> Process:
    """Returns the process that runs this code."""
    return Process(os.getpid(), start_time(os.getpid()) or "")


def start_time(pid: int) -> str | None:
    """Returns when process `pid` started, None if there is none or it is a zombie."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        except OSError:
            return None
        # The second field, the program's name, may hold spaces and brackets.
        fields = stat[stat.rfind(")") + 2 :].split()
        return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    found = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = found.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Holds an exclusive lock that the system releases when this process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
