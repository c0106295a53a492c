"""Text from images, models and sources, made safe to show: in a table, a log line, a terminal."""

from __future__ import annotations

import html
import unicodedata


def harmless(text: str, length: int = 160) -> str:
    """Returns one short line that can neither mark up a page nor move a terminal's cursor.

    Args:
        text: Anything.
        length: Characters to keep before escaping; what is cut off shows as an ellipsis.
    """
    line = " ".join(text.split())
    if len(line) > length:
        line = line[: length - 1].rstrip() + "\u2026"
    # Categories C*: control, direction-changing, unassigned and surrogate characters.
    visible = "".join(
        f"\\u{ord(mark):04x}" if unicodedata.category(mark).startswith("C") else mark
        for mark in line
    )
    return html.escape(visible, quote=False)
