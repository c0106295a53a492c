"""How commands speak: tables for people, JSON for programs, refusals in two lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from prx_resources.errors import PrxError


def emit(data: Any, text: str, *, next_command: str = "") -> None:
    """Prints a command's answer.

    Args:
        data: What `--json` prints.
        text: What people read.
        next_command: The next sensible command, for people.
    """
    if wants_json():
        click.echo(json.dumps(data, indent=2, default=str))
        return
    if text:
        click.echo(printable(text))
    if next_command:
        click.echo(f"next: {next_command}")


def wants_json() -> bool:
    """Returns whether the command at hand was given `--json`."""
    context = click.get_current_context(silent=True)
    return bool(context and context.find_root().obj and context.find_root().obj.get("json"))


def note(text: str) -> None:
    """Prints a remark to stderr, so that `--json` output stays whole."""
    click.echo(printable(text), err=True)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns left-aligned columns, two spaces apart; numbers are right-aligned."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if cell.replace(",", "").isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def printable(text: str) -> str:
    """Returns `text` without control characters, so that a caption can't steer a terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def refuse(error: PrxError) -> int:
    """Prints an error's two lines to stderr and returns its exit code."""
    place = f" ({error.where})" if error.where else ""
    click.echo(printable(f"error: {error.what}{place}"), err=True)
    click.echo(
        printable(f"  fix: {error.fix or 'run again with --debug for the traceback'}"), err=True
    )
    sys.stderr.flush()
    return error.exit_code
