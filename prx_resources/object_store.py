"""The object store: small immutable objects by key, written put-if-absent.

Everything that must be decided once (a chunk, a lease's epoch, a pointer, a manifest) is an object
that only the first writer creates. Nothing is read, changed and written back.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from prx_resources.errors import ConflictError, StoreRefused

_POINTER = re.compile(r"(\d+)\.json")
_TEMPORARY = ".tmp-"


class ObjectStore(Protocol):
    """What the platform needs of a store. Keys are relative paths with `/`."""

    def get(self, key: str) -> bytes:
        """Returns an object's bytes.

        Raises:
            KeyError: There is no such object.
        """
        ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Creates an object whole, or leaves the existing one alone.

        Returns:
            Whether this call created it. Among concurrent calls exactly one returns True.
        """
        ...

    def replace(self, key: str, data: bytes) -> None:
        """Writes an object over any existing one; readers see the old or the new, never a mix.

        Only for a leaf's merged `index.json` and for lease heartbeats.
        """
        ...

    def exists(self, key: str) -> bool:
        """Tells whether there is such an object."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Returns the sorted keys of all objects below the folder `prefix`."""
        ...

    def delete(self, key: str) -> None:
        """Removes an object; a missing one is fine."""
        ...


class LocalStore:
    """Objects as files below a folder of the local disk.

    Args:
        root: The folder; created when first written to.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def get(self, key: str) -> bytes:
        """See `ObjectStore.get`."""
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise KeyError(key) from None

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `ObjectStore.put_if_absent`."""
        path = self._path(key)
        if path.exists():
            return False

        def link(temporary: Path) -> bool:
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            return True

        return self._write(path, data, link)

    def replace(self, key: str, data: bytes) -> None:
        """See `ObjectStore.replace`."""
        path = self._path(key)

        def rename(temporary: Path) -> bool:
            temporary.replace(path)
            return True

        self._write(path, data, rename)

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        return self._path(key).is_file()

    def list(self, prefix: str) -> list[str]:
        """See `ObjectStore.list`."""
        top = self._path(prefix) if prefix else self.root
        keys = []
        for folder, _, names in os.walk(top, onerror=_unlistable):
            base = Path(folder).relative_to(self.root).as_posix()
            stem = "" if base == "." else f"{base}/"
            keys += [f"{stem}{name}" for name in names if not name.startswith(_TEMPORARY)]
        return sorted(keys)

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not key or "\0" in key or any(part in ("", ".", "..") for part in parts):
            raise StoreRefused(
                f"{key!r} is no key of an object",
                where=str(self.root),
                fix="use a relative path without empty parts, '.' or '..'",
            )
        return self.root.joinpath(*parts)

    def _write(self, path: Path, data: bytes, publish: Callable[[Path], bool]) -> bool:
        temporary = path.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                created = publish(temporary)
            finally:
                temporary.unlink(missing_ok=True)
            _sync_folder(path.parent)
        except OSError as error:
            raise _refusal(error, path) from error
        return created


def _unlistable(error: OSError) -> None:
    # Without this a folder that can't be read looks empty: no pointer, no lease, no skipped sample.
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise _refusal(error, Path(error.filename or "")) from error


def _sync_folder(folder: Path) -> None:
    # Without this a power cut may lose the name although the bytes were synced.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refusal(error: OSError, path: Path) -> StoreRefused:
    where = str(path)
    if disk_full(error):
        return StoreRefused(
            "the disk is full; nothing was half-written",
            where=where,
            fix="free some space or move the lake (settings.yaml: lake), then run it again",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreRefused(
            f"the store can't be used: {error.strerror}",
            where=where,
            fix="give this user write access (hard links included) or move the lake",
        )
    return StoreRefused(
        f"the store failed: {error.strerror or error}", where=where, fix="check the disk"
    )


def disk_full(error: BaseException) -> bool:
    """Tells whether an error means that the disk is full. Lance says so in its text only."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    said = str(error)
    return any(os.strerror(code) in said for code in (errno.ENOSPC, errno.EDQUOT))


def probe(store: ObjectStore) -> None:
    """Checks that put-if-absent really refuses a second object under one key.

    Raises:
        StoreRefused: It doesn't: two writers could both believe that they were first.
    """
    key = f"probe/{uuid.uuid4().hex}"
    try:
        first = store.put_if_absent(key, b"first")
        second = store.put_if_absent(key, b"second")
        kept = store.get(key)
    finally:
        store.delete(key)
    if not first or second or kept != b"first":
        raise StoreRefused(
            "the store ignores conditional writes, so concurrent writers would lose data",
            where=key,
            fix="use a store that honours If-None-Match (S3, GCS, MinIO) or a local disk",
        )


def latest_pointer(store: ObjectStore, prefix: str) -> tuple[int, bytes] | None:
    """Returns number and data of the highest numbered object below `prefix`, or None."""
    while True:
        number = _highest(store, prefix)
        if number == 0:
            return None
        try:
            return number, store.get(_pointer_key(prefix, number))
        except KeyError:
            # Removed between list and get: whoever removes a pointer wrote a higher one first.
            continue


def next_pointer(store: ObjectStore, prefix: str, data: bytes, *, after: int | None = None) -> int:
    """Adds the next numbered object below `prefix` and returns its number.

    Concurrent callers all get a number of their own; the highest one wins.

    Args:
        store: The store.
        prefix: The folder of pointers.
        data: What the pointer says.
        after: The number that `data` was made from; None if it doesn't build on one.

    Raises:
        ConflictError: Others kept moving the pointer; or it moved since `after`.
    """
    number = _highest(store, prefix) if after is None else after
    for _ in range(1000 if after is None else 1):
        number += 1
        if store.put_if_absent(_pointer_key(prefix, number), data):
            return number
    raise ConflictError("other writers kept moving a pointer", where=prefix, fix="run it again")


def _pointer_key(prefix: str, number: int) -> str:
    return f"{prefix}/{number:06d}.json"


def _highest(store: ObjectStore, prefix: str) -> int:
    names = (key.removeprefix(f"{prefix}/") for key in store.list(prefix))
    return max(
        (int(match.group(1)) for name in names if (match := _POINTER.fullmatch(name))), default=0
    )
