"""Tars in WebDataset's manner: `0001.jpg` with `0001.txt`, `0001.json`, `0001.cls` beside it.

Nothing is extracted: a first pass notes where the members lie, a second reads them in place. So
members of a sample may stand anywhere in the tar, and memory holds one image at a time.
"""

from __future__ import annotations

import re
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from prx_assets.raw_images.folder import too_large
from prx_assets.raw_images.source_row import MAX_TEXT_BYTES, SourceRow, parse_object, text_of
from prx_assets.raw_images.spec import ColumnMap
from prx_resources.errors import SourceReadError

IMAGES = frozenset({"jpg", "jpeg", "png", "webp"})
SIDECARS = frozenset({"json", "txt", "cls"})
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True)
class _Member:
    stem: str
    suffix: str
    offset: int
    size: int
    refused: str = ""


@dataclass
class _Index:
    images: list[_Member] = field(default_factory=list)
    # stem -> suffix -> members in order; a tar that was appended to can have a name twice.
    sidecars: dict[str, dict[str, list[_Member]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )


def read(path: Path, columns: ColumnMap, max_image_bytes: int) -> Iterator[SourceRow]:
    """Yields one row for every image in the tar, in their order.

    Args:
        path: An uncompressed tar.
        columns: Fields of the JSON member that hold id, caption, embedding and metadata.
        max_image_bytes: Larger images are set aside unread.

    Raises:
        SourceReadError: The tar is damaged, cut off or compressed.
        OSError: The file can't be read.
    """
    with path.open("rb") as file:
        index = _index(file, path)
        seen: dict[tuple[str, str], int] = defaultdict(int)
        for number, member in enumerate(index.images):
            nth = seen[member.stem, member.suffix]
            seen[member.stem, member.suffix] += 1
            if member.refused:
                yield SourceRow(number, None, "refused", member.refused)
                continue
            said = _said(file, _sidecars_of(index, member.stem, nth), columns)
            if member.size > max_image_bytes:
                detail = too_large(member.size, max_image_bytes)
                yield SourceRow(number, None, "decode", detail, **said)
            else:
                yield SourceRow(number, _bytes(file, member), **said)


def _index(file: BinaryIO, path: Path) -> _Index:
    index = _Index()
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            while (info := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # tarfile keeps every header otherwise
                _note(index, info)
            end = tar.offset
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise _damaged(path, str(error)) from error
    # tarfile takes garbage for the end; the true end is a block of zeros or nothing.
    file.seek(end)
    if any(file.read(tarfile.BLOCKSIZE)):
        raise _damaged(path, f"no valid header at byte {end:,}")
    return index


def _note(index: _Index, info: tarfile.TarInfo) -> None:
    name = info.name.replace("\\", "/")
    pure = PurePosixPath(name)
    suffix = pure.suffix[1:].lower()
    if info.isdir() or suffix not in IMAGES | SIDECARS:
        return
    refused = _refusal(info, name)
    stem = name[: -len(suffix) - 1]
    member = _Member(stem, suffix, info.offset_data, info.size, refused)
    if suffix in IMAGES:
        index.images.append(member)
    elif not refused:
        index.sidecars[stem][suffix].append(member)


def _refusal(info: tarfile.TarInfo, name: str) -> str:
    shown = text_of(name) or "?"
    if name.startswith("/") or _DRIVE.match(name):
        return f"unsafe_path: {shown!r} is an absolute path"
    if ".." in PurePosixPath(name).parts:
        return f"unsafe_path: {shown!r} leaves its folder"
    if not info.isreg() or info.issparse():
        kinds = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link"}
        return f"not_a_file: {shown!r} is {kinds.get(info.type, 'a special file')}"
    return ""


def _sidecars_of(index: _Index, stem: str, nth: int) -> dict[str, _Member]:
    """Returns the members beside an image; `photo.v2.jpg` may also belong to `photo.json`."""
    folder, _, base = stem.rpartition("/")
    short = f"{folder}/{base.partition('.')[0]}" if folder else base.partition(".")[0]
    found: dict[str, _Member] = {}
    for key in (short, stem):
        for suffix, members in index.sidecars.get(key, {}).items():
            found[suffix] = members[min(nth, len(members) - 1)]
    return found


def _said(file: BinaryIO, members: dict[str, _Member], columns: ColumnMap) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    notes: list[str] = []
    texts: dict[str, str | None] = {}
    for suffix, member in members.items():
        if member.size > MAX_TEXT_BYTES:
            notes.append(f"the .{suffix} member is too large")
        elif suffix == "json":
            fields, more = parse_object(_bytes(file, member))
            notes += more
        else:
            texts[suffix] = text_of(_bytes(file, member))
    if columns.caption is not None:
        caption = text_of(fields.get(columns.caption)) or texts.get("txt")
    else:
        caption = texts.get("txt") or text_of(fields.get("caption"))
    wanted = columns.metadata or [key for key in fields if key != columns.embedding]
    metadata = {name: fields.get(name) for name in wanted}
    if texts.get("cls"):
        metadata["cls"] = texts["cls"]
    return {
        "key": text_of(fields.get(columns.id)) if columns.id else None,
        "caption": caption,
        "embedding": fields.get(columns.embedding) if columns.embedding else None,
        "metadata": metadata,
        "notes": tuple(notes),
    }


def _bytes(file: BinaryIO, member: _Member) -> bytes:
    file.seek(member.offset)
    return file.read(member.size)


def embedding_length(path: Path, column: str) -> int | None:
    """Returns the length of the tar's vectors, None if it has none."""
    for row in read(path, ColumnMap(embedding=column), max_image_bytes=0):
        if isinstance(row.embedding, list) and row.embedding:
            return len(row.embedding)
    return None


def _damaged(path: Path, why: str) -> SourceReadError:
    return SourceReadError(
        f"the tar can't be read: {why}",
        where=str(path),
        fix="copy it again from where it came from (a .tar.gz must be unpacked to .tar), or remove"
        " it from the source",
    )
