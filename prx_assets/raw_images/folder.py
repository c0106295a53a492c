"""Image files with captions beside them: `photo.jpg`, `photo.txt`, `photo.json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prx_assets.raw_images.source_row import MAX_TEXT_BYTES, SourceRow, parse_object, text_of


def read(path: Path, max_image_bytes: int) -> Iterator[SourceRow]:
    """Yields the file's one row; `.txt` is the caption, `.json` the metadata.

    Args:
        path: The image file.
        max_image_bytes: A larger file is set aside unread.

    Raises:
        OSError: The file can't be read.
    """
    caption, notes = None, list[str]()
    metadata: dict[str, Any] = {}
    for suffix in (".json", ".txt"):
        place = path.with_suffix(suffix)
        if not place.is_file():
            continue
        if place.stat().st_size > MAX_TEXT_BYTES:
            notes.append(f"the {suffix} file is too large")
        elif suffix == ".json":
            metadata, more = parse_object(place.read_bytes())
            notes += more
            caption = text_of(metadata.get("caption"))
        else:
            caption = text_of(place.read_bytes()) or caption
    said: dict[str, Any] = {"caption": caption, "metadata": metadata, "notes": tuple(notes)}
    size = path.stat().st_size
    if size > max_image_bytes:
        yield SourceRow(0, None, "decode", too_large(size, max_image_bytes), **said)
    else:
        yield SourceRow(0, path.read_bytes(), **said)


def too_large(size: int, limit: int) -> str:
    """Returns the reason for an image whose encoded bytes are over the limit."""
    return f"too_large: the file has {size:,} bytes, the limit is {limit:,}"
