"""Leases: at most one writer of a table or leaf, wherever its process runs.

A lease is a row of numbered objects `leases/<name>/000001.json`. Whoever creates the next number
holds the lease; a number may be created only when the one before was given back, has expired or
belongs to a process of this machine that is gone. A heartbeat moves the expiry while it is held.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prx_resources.errors import BusyError, ConflictError
from prx_resources.object_store import ObjectStore, latest_pointer
from prx_resources.processes import start_time

Clock = Callable[[], float]


@dataclass(frozen=True)
class Epoch:
    """What one numbered object says.

    Attributes:
        holder: Who holds it: a submission id.
        machine: The kernel and process namespace in which `pid` means something.
        pid: The holder's process.
        expires_at: Unix time after which anybody may take over.
        released: Whether the holder gave it back.
    """

    holder: str
    machine: str
    pid: int
    expires_at: float
    released: bool = False

    def free(self, now: float) -> bool:
        """Tells whether the next number may be created."""
        if self.released or now > self.expires_at:
            return True
        # A killed job's successor on the same machine needn't wait for the expiry.
        return self.machine == _machine() and start_time(self.pid) is None

    def to_bytes(self) -> bytes:
        """Returns the object's data."""
        return json.dumps(vars(self)).encode()


class Lease:
    """A lease that is held; made by `lease`."""

    def __init__(
        self, store: ObjectStore, name: str, holder: str, ttl_s: float, clock: Clock
    ) -> None:
        self.name = name
        self.holder = holder
        self.number = 0
        self._store = store
        self._ttl_s = ttl_s
        self._clock = clock
        self._expires_at = 0.0
        self._lost = False
        self._mutex = threading.Lock()

    def check(self) -> None:
        """Renews the lease, so that a whole `ttl_s` is left. Call it right before each commit.

        Raises:
            ConflictError: The lease expired or somebody else took it; nothing may be committed.
        """
        with self._mutex:
            if self._clock() >= self._expires_at:
                # Late: another may be taking it over at this very moment.
                self._lost = True
            if not self._lost:
                self._write()
                self._lost = self._highest() != self.number
            if self._lost:
                raise ConflictError(
                    f"the lease {self.name!r} was lost, so nothing was committed",
                    where=self.holder,
                    fix="run it again; finished work is kept",
                )

    def _try_acquire(self) -> Epoch | None:
        """Returns None if the lease is held now, else the epoch that is in the way."""
        latest = latest_pointer(self._store, self._prefix)
        number, epoch = (0, None) if latest is None else (latest[0], _parse(latest[1]))
        if epoch is not None and not epoch.free(self._clock()):
            return epoch
        self.number = number + 1
        mine = self._epoch()
        if not self._store.put_if_absent(self._key(self.number), mine.to_bytes()):
            return self._current() or mine
        self._expires_at = mine.expires_at
        if self._highest() != self.number:
            # Others took and gave back this number while we looked, and it was tidied away.
            self._store.delete(self._key(self.number))
            return self._current() or mine
        for key in self._store.list(self._prefix):
            if key < self._key(self.number):
                self._store.delete(key)
        return None

    def _release(self) -> None:
        with self._mutex:
            if not self._lost and self._highest() == self.number:
                self._store.replace(self._key(self.number), self._epoch(released=True).to_bytes())
            self._lost = True

    def _write(self) -> None:
        epoch = self._epoch()
        self._store.replace(self._key(self.number), epoch.to_bytes())
        self._expires_at = epoch.expires_at

    def _epoch(self, released: bool = False) -> Epoch:
        expires_at = self._clock() + self._ttl_s
        return Epoch(self.holder, _machine(), os.getpid(), expires_at, released)

    def _current(self) -> Epoch | None:
        latest = latest_pointer(self._store, self._prefix)
        return None if latest is None else _parse(latest[1])

    def _highest(self) -> int:
        latest = latest_pointer(self._store, self._prefix)
        return 0 if latest is None else latest[0]

    @property
    def _prefix(self) -> str:
        return f"leases/{self.name}"

    def _key(self, number: int) -> str:
        return f"{self._prefix}/{number:06d}.json"


@contextlib.contextmanager
def lease(
    store: ObjectStore,
    name: str,
    holder: str,
    ttl_s: float = 60,
    wait_s: float = 120,
    *,
    clock: Clock = time.time,
) -> Iterator[Lease]:
    """Holds the lease `name` within a `with` block.

    Args:
        store: Where the lease's objects lie.
        name: What is locked: `images/<source>`, `mds/<leaf>`, ...
        holder: Who asks: the submission id.
        ttl_s: How long the lease outlives a holder that died without giving it back.
        wait_s: How long to wait for another holder.
        clock: Unix time.

    Raises:
        BusyError: Somebody else still holds it after `wait_s`.
    """
    held = Lease(store, name, holder, ttl_s, clock)
    deadline = time.monotonic() + wait_s
    while (other := held._try_acquire()) is not None:
        if time.monotonic() >= deadline:
            raise BusyError(
                f"{other.holder} is writing {name}",
                where=f"leases/{name}",
                fix=f"wait until it ends, or stop it (a dead one expires after {ttl_s:.0f} s)",
            )
        time.sleep(min(0.2, max(0.01, wait_s / 10)))
    stop = threading.Event()
    thread = threading.Thread(target=_beat, args=(held, stop), name=f"lease {name}", daemon=True)
    thread.start()
    try:
        yield held
    finally:
        stop.set()
        thread.join()
        held._release()


def _beat(held: Lease, stop: threading.Event) -> None:
    while not stop.wait(held._ttl_s / 3):
        try:
            held.check()
        except ConflictError:
            return
        except Exception:  # noqa: S112  A store that fails for a moment: the next beat may succeed.
            continue


def _parse(data: bytes) -> Epoch:
    return Epoch(**json.loads(data))


def _machine() -> str:
    # Host names repeat between containers; the boot id and the process namespace together don't.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return f"unknown/{os.getpid()}"
