"""What every reader yields: one image of a source with what the source says about it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_TEXT_BYTES = 4 << 20
"""Caption and JSON members above this are left out, with a note."""
NOTE = "prx_note"
"""Key in `metadata` that says what of the source's row could not be kept."""


@dataclass(frozen=True)
class SourceRow:
    """One image of a source.

    Attributes:
        row: Its number within the file.
        data: Encoded bytes; None if there are none, and then `set_aside` says why.
        set_aside: Why the image can't be used, found before looking at its bytes.
        detail: The same for people: `<code>: <sentence>`.
        key: The source's own key.
        caption: The source's own caption.
        embedding: The source's own vector.
        metadata: Whatever else the source says.
        notes: What of the row could not be kept, for people.
    """

    row: int
    data: bytes | None
    set_aside: str | None = None
    detail: str | None = None
    key: str | None = None
    caption: str | None = None
    embedding: Sequence[float] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def text_of(value: object) -> str | None:
    """Returns a caption or key as clean text; None for nothing, blanks or NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8-sig", "replace")
    if isinstance(value, list):
        value = value[0] if value else ""
    text = str(value).replace("\0", "").strip()
    # Lone surrogates, from JSON escapes, can't be stored.
    return text.encode("utf-8", "replace").decode() or None


def parse_object(data: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns a JSON member's fields, and notes if it isn't a JSON object."""
    try:
        value = json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return {}, ("the JSON beside the image can't be parsed",)
    if not isinstance(value, dict):
        return {"json": value}, ()
    return value, ()


def json_text(value: Mapping[str, Any]) -> str | None:
    """Returns metadata as JSON text without NaN; None if there is none."""
    try:
        return json.dumps(_plain(value), sort_keys=True) if value else None
    except RecursionError:
        return json.dumps({NOTE: ["the metadata is nested too deeply"]})


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)
