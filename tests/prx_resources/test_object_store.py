from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from prx_resources.errors import ConflictError, StoreRefused
from prx_resources.object_store import LocalStore, latest_pointer, next_pointer, probe


def test_only_the_first_of_many_writers_creates(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    start = threading.Barrier(16)
    created: list[int] = []

    def put(number: int) -> None:
        start.wait()
        if store.put_if_absent("a/b", f"{number}".encode() * 10_000):
            created.append(number)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(created) == 1
    assert store.get("a/b") == f"{created[0]}".encode() * 10_000
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["b"]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreRefused, match="the disk is full"):
        store.put_if_absent("a/b", b"data")
    with pytest.raises(StoreRefused, match="the disk is full"):
        store.replace("a/b", b"data")
    monkeypatch.undo()
    assert store.list("") == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert store.put_if_absent("a/b", b"data")


def test_a_left_over_temporary_file_is_no_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("a/b", b"data")
    (tmp_path / "a" / ".tmp-killed").write_bytes(b"half")
    assert store.list("a") == ["a/b"]


@pytest.mark.parametrize("key", ["../x", "a/../x", "/etc/x", "", "a//b", "a/./b", "a/", "a\0b"])
def test_keys_stay_inside(tmp_path: Path, key: str) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(StoreRefused, match="no key"):
        store.put_if_absent(key, b"")
    with pytest.raises(StoreRefused, match="no key"):
        store.get(key)


def test_objects_come_and_go(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(KeyError):
        store.get("a")
    assert not store.exists("a")
    assert store.list("a") == []
    store.replace("a/2", b"two")
    store.replace("a/1", b"one")
    store.replace("a/1", b"eins")
    store.replace("ab/1", b"else")
    assert store.list("a") == ["a/1", "a/2"]
    assert store.get("a/1") == b"eins"
    assert not store.exists("a")
    store.delete("a/1")
    store.delete("a/1")
    assert not store.exists("a/1")


def test_the_highest_pointer_wins(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert latest_pointer(store, "p") is None
    numbers = [next_pointer(store, "p", f"{number}".encode()) for number in range(11)]
    assert numbers == list(range(1, 12))
    store.put_if_absent("p/notes.txt", b"no pointer")
    store.put_if_absent("p/deeper/000099.json", b"another's pointer")
    assert latest_pointer(store, "p") == (11, b"10")


def test_a_store_without_conditional_writes_is_refused(tmp_path: Path) -> None:
    class Careless(LocalStore):
        def put_if_absent(self, key: str, data: bytes) -> bool:
            self.replace(key, data)
            return True

    probe(LocalStore(tmp_path))
    with pytest.raises(StoreRefused, match="conditional"):
        probe(Careless(tmp_path))
    assert LocalStore(tmp_path).list("") == []


def test_a_folder_that_cant_be_listed_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    next_pointer(store, "p", b"one")

    def broken(_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(StoreRefused, match="Input/output error"):
        latest_pointer(store, "p")


def test_a_pointer_that_builds_on_another_never_passes_a_third(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert next_pointer(store, "p", b"first", after=0) == 1
    with pytest.raises(ConflictError):
        next_pointer(store, "p", b"made from none", after=0)
    assert next_pointer(store, "p", b"second", after=1) == 2
    assert latest_pointer(store, "p") == (2, b"second")
