"""The files of a source with their fingerprints. Stdlib only: the sensor lists too."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from prx_resources.errors import ManifestError, SourceReadError

IMAGE_SUFFIXES = frozenset(
    f".{kind}"
    for kind in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "webp", "gif", "bmp", "tif", "tiff"),
        *("avif", "jp2", "ppm", "pgm"),
    )
)
SIDECARS = (".txt", ".json")
_UNDECODABLE = re.compile(r"\\udc([89a-f][0-9a-f])")


@dataclass(frozen=True, order=True)
class SourceFile:
    """One file of a source.

    Attributes:
        path: Path below the source's folder, with `/`; printable even if the name isn't UTF-8.
        source_fp: Changes with the file, and with the captions beside an image of a folder.
        bytes: Size.
    """

    path: str
    source_fp: str
    bytes: int


def list_files(kind: str, uri: str, glob: str, *, allow_empty: bool = False) -> list[SourceFile]:
    """Returns the source's files, sorted by path. Hidden files and folders don't count.

    Args:
        kind: folder, parquet or webdataset. A folder's files are those with an image's suffix,
            unless `glob` itself names a suffix.
        uri: Absolute path of the folder; a single file is fine too.
        glob: Pattern of paths below it: `*`, `?`, `[...]` within a name, `**` for any folders.
        allow_empty: Return an empty list instead of refusing a source without files.

    Raises:
        SourceReadError: The folder isn't there, can't be read or holds no such file.
        ManifestError: The pattern leaves the folder.
    """
    root = Path(uri)
    if not root.exists():
        raise SourceReadError(
            "the source's folder doesn't exist",
            where=uri,
            fix="mount or restore it, or correct `uri` in the source's manifest",
        )
    try:
        found = _search(kind, root, glob)
    except OSError as error:
        raise SourceReadError(
            f"the source can't be listed: {error.strerror}",
            where=str(error.filename or uri),
            fix="give this user the right to read it",
        ) from error
    if not found and not allow_empty:
        raise SourceReadError(
            f"the source has no file that matches {glob!r}"
            + (" and has an image's suffix" if kind == "folder" else ""),
            where=uri,
            fix="put files there, or correct `uri`, `kind` or `glob` in the source's manifest",
        )
    return sorted(found)


def _search(kind: str, root: Path, glob: str) -> list[SourceFile]:
    matches = _pattern(glob)
    any_suffix = kind != "folder" or PurePosixPath(glob).suffix != ""
    single = root.is_file()
    found: list[SourceFile] = []
    for folder, prefix in _folders(root):
        names = {entry.name: entry for entry in folder}
        for name, entry in names.items():
            suffix = PurePosixPath(name).suffix.lower()
            if single and name != root.name:
                continue
            if not matches.fullmatch(prefix + name) or (kind == "folder" and suffix in SIDECARS):
                continue
            if any_suffix or suffix in IMAGE_SUFFIXES:
                sidecars = _sidecars(name, names) if kind == "folder" else []
                found += _file(prefix + name, [entry, *sidecars])
    return found


def digest(files: Iterable[SourceFile]) -> str:
    """Returns the data version of a listing: 16 hex digits over paths and fingerprints."""
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file.path}\0{file.source_fp}\n".encode())
    return total.hexdigest()[:16]


def local_path(uri: str, path: str) -> Path:
    """Returns where a listed file lies."""
    name = _UNDECODABLE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), path)
    root = Path(uri)
    return root if root.is_file() else root / name


def current_fp(kind: str, uri: str, path: str) -> str | None:
    """Returns a file's fingerprint as of now, None if it is gone."""
    place = local_path(uri, path)
    places = [place]
    if kind == "folder":
        # As in a listing, a folder called `photo.txt` is no caption.
        beside = (place.with_suffix(suffix) for suffix in SIDECARS)
        places += [path for path in beside if path.is_file()]
    parts = [(p, _stat(p)) for p in places]
    return None if parts[0][1] is None else _fingerprint(parts)


def _folders(root: Path) -> Iterator[tuple[list[os.DirEntry[str]], str]]:
    """Yields each folder's files and path; links to folders aren't followed."""
    if root.is_file():
        with os.scandir(root.parent) as entries:
            beside = {root.name, *(root.with_suffix(suffix).name for suffix in SIDECARS)}
            yield [entry for entry in entries if entry.name in beside and entry.is_file()], ""
        return
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(root / prefix) as entries:
            seen = [entry for entry in entries if not entry.name.startswith((".", "__MACOSX"))]
        yield [entry for entry in seen if entry.is_file()], prefix
        waiting += [f"{prefix}{e.name}/" for e in seen if e.is_dir(follow_symlinks=False)]


def _sidecars(name: str, names: dict[str, os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    stem = PurePosixPath(name).stem
    return [names[stem + suffix] for suffix in SIDECARS if stem + suffix in names]


def _file(path: str, entries: list[os.DirEntry[str]]) -> list[SourceFile]:
    parts = [(Path(entry.name), _stat(Path(entry.path))) for entry in entries]
    own = parts[0][1]
    if own is None:  # gone since the folder was read
        return []
    printable = path.encode("utf-8", "backslashreplace").decode()
    return [SourceFile(printable, _fingerprint(parts), own.st_size)]


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _fingerprint(parts: list[tuple[Path, os.stat_result | None]]) -> str:
    texts = [
        f"{path.suffix if number else ''}{stat.st_size}-{stat.st_mtime_ns}"
        for number, (path, stat) in enumerate(parts)
        if stat is not None
    ]
    return "+".join(texts)


def _pattern(glob: str) -> re.Pattern[str]:
    parts = PurePosixPath(glob).parts
    if not parts or glob.startswith("/") or ".." in parts:
        raise ManifestError(
            f"the glob {glob!r} doesn't stay below the source's folder",
            fix="write a relative pattern such as **/*.parquet",
        )
    text = ""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            text += ".*" if last else "(?:[^/]+/)*"
        else:
            text += _component(part) + ("" if last else "/")
    return re.compile(text, re.DOTALL)


def _component(part: str) -> str:
    text = ""
    for piece in re.findall(r"\[!?[^\]]+\]|.", part, re.DOTALL):
        if piece in "*?":
            text += "[^/]*" if piece == "*" else "[^/]"
        elif len(piece) > 1:
            text += piece.replace("[!", "[^", 1).replace("\\", "\\\\")
        else:
            text += re.escape(piece)
    return text
