"""PRX_HOME: one platform's state on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from prx_resources.errors import RefusedError

_TEMPLATE = Path(__file__).resolve().parents[1] / "deploy" / "dagster" / "local.yaml"


def dagster_home(home: Path) -> Path:
    """Returns DAGSTER_HOME of a PRX_HOME."""
    return home / "dagster"


def prepare_home(home: Path) -> None:
    """Makes the folder and writes Dagster's configuration into it; safe to repeat.

    Raises:
        RefusedError: The project isn't installed from its repository.
    """
    try:
        text = _TEMPLATE.read_bytes()
    except FileNotFoundError:
        raise RefusedError(
            "Dagster's local configuration isn't part of an installed package",
            where=str(_TEMPLATE),
            fix="run from a checkout of the repository: pip install -e '.[dev]'",
        ) from None
    target = dagster_home(home) / "dagster.yaml"
    if target.is_file() and target.read_bytes() == text:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_bytes(text)
    temporary.replace(target)
