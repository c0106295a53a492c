from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx_resources.errors import BusyError, ConflictError
from prx_resources.lease import Lease, lease
from prx_resources.object_store import LocalStore


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def as_if_elsewhere(store: LocalStore, name: str) -> None:
    """Makes the holder one of another machine, whose process can't be looked up."""
    for key in store.list(f"leases/{name}"):
        epoch = {**json.loads(store.get(key)), "machine": "elsewhere"}
        store.replace(key, json.dumps(epoch).encode())


def test_the_second_is_told_who_holds_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with lease(store, "t", "first") as held:
        with (
            pytest.raises(BusyError, match="first is writing t"),
            lease(store, "t", "second", wait_s=0),
        ):
            pass
        held.check()
    with lease(store, "t", "second", wait_s=0) as held:
        held.check()


def test_names_are_apart(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with lease(store, "images/a", "x"), lease(store, "images/ab", "y", wait_s=0) as held:
        held.check()


def test_an_expired_lease_is_taken_over_and_its_holder_told(tmp_path: Path) -> None:
    store, clock = LocalStore(tmp_path), Clock()
    with lease(store, "t", "slow", ttl_s=60, clock=clock) as slow:
        as_if_elsewhere(store, "t")
        clock.now += 61
        with lease(store, "t", "next", wait_s=0, clock=clock) as held:
            with pytest.raises(ConflictError, match="was lost"):
                slow.check()
            held.check()
        with pytest.raises(ConflictError, match="was lost"):
            slow.check()


def test_a_late_holder_is_told_even_if_nobody_took_it(tmp_path: Path) -> None:
    clock = Clock()
    with lease(LocalStore(tmp_path), "t", "slow", ttl_s=60, clock=clock) as slow:
        clock.now += 60
        with pytest.raises(ConflictError):
            slow.check()


def test_check_renews(tmp_path: Path) -> None:
    store, clock = LocalStore(tmp_path), Clock()
    with lease(store, "t", "steady", ttl_s=60, clock=clock) as held:
        for _ in range(5):
            clock.now += 50
            held.check()
        as_if_elsewhere(store, "t")
        with pytest.raises(BusyError), lease(store, "t", "next", wait_s=0, clock=clock):
            pass


def test_a_killed_holder_of_this_machine_needs_no_expiry(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from prx_resources.lease import lease\n"
        "from prx_resources.object_store import LocalStore\n"
        "with lease(LocalStore(sys.argv[1]), 't', 'killed', ttl_s=3600):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    with lease(LocalStore(tmp_path), "t", "next", wait_s=0) as held:
        held.check()


def test_an_exception_gives_it_back(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(ZeroDivisionError), lease(store, "t", "a"):
        raise ZeroDivisionError
    with lease(store, "t", "b", wait_s=0):
        pass


def test_threads_take_turns(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        for _ in range(3):
            with lease(store, "t", f"w{number}", wait_s=60) as held:
                inside.append(number)
                most.append(len(inside))
                held.check()
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 12


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(0, 2)),
            st.tuples(st.just("give"), st.integers(0, 2)),
            st.tuples(st.just("check"), st.integers(0, 2)),
            st.tuples(st.just("wait"), st.integers(1, 90)),
        ),
        max_size=12,
    )
)
def test_at_most_one_holder_passes_the_check(steps: list[tuple[str, int]]) -> None:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ends:
        store = LocalStore(folder)
        held: dict[int, tuple[ExitStack, Lease]] = {}
        for what, who in steps:
            if what == "wait":
                clock.now += who
            elif what == "take" and who not in held:
                stack = ends.enter_context(ExitStack())
                try:
                    entered = stack.enter_context(
                        lease(store, "t", f"{who}", ttl_s=60, wait_s=0, clock=clock)
                    )
                except BusyError:
                    continue
                held[who] = (stack, entered)
            elif what == "give" and who in held:
                held.pop(who)[0].close()
            elif what == "check" and who in held:
                valid = [number for number, (_, entry) in held.items() if passes(entry)]
                assert len(valid) <= 1


def passes(held: Lease) -> bool:
    try:
        held.check()
    except ConflictError:
        return False
    return True


def test_old_numbers_are_tidied_away(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for _ in range(5):
        with lease(store, "t", f"{os.getpid()}"):
            pass
    assert store.list("leases") == ["leases/t/000005.json"]
