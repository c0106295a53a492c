"""Pieces of Lance SQL. Column names stand bare: in double quotes Lance takes them for strings."""

from __future__ import annotations

from collections.abc import Iterable


def quote(value: str) -> str:
    """Returns `value` as an SQL string literal."""
    return "'" + value.replace("'", "''") + "'"


def is_in(column: str, values: Iterable[str]) -> str:
    """Returns the condition that `column` is one of `values`; false for none."""
    texts = ", ".join(quote(value) for value in sorted(set(values)))
    return f"{column} IN ({texts})" if texts else "false"


def all_of(*conditions: str) -> str:
    """Returns the conjunction of the conditions that aren't empty; true for none."""
    return " AND ".join(f"({text})" for text in conditions if text) or "true"
