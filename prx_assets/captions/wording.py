"""Numbers as words, and lists as English."""

from __future__ import annotations

from collections.abc import Sequence

_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def joined(items: Sequence[str]) -> str:
    """Returns `a`, `a and b` or `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def percent(share: float) -> str:
    """Returns a share (0 to 1) as people say it: `37 percent`, `almost all`."""
    whole = round(share * 100)
    if whole < 1:
        return "less than 1 percent"
    return f"{whole} percent" if whole < 98 else "almost all"


def amount(count: int) -> str:
    """Returns a count: as a word up to ten."""
    return _SMALL[count] if count < len(_SMALL) else str(count)


def one_of(value: float, *steps: tuple[float, str]) -> str:
    """Returns the words of the first step whose limit `value` is below, else the last one's."""
    return next((words for limit, words in steps if value < limit), steps[-1][1])
