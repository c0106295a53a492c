"""The keeper: one process per PRX_HOME that runs this home's own Ray on 127.0.0.1."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cluster:
    """Where a running Ray is.

    Attributes:
        address: `127.0.0.1:PORT` of its GCS.
        pid: Process id of the keeper.
        started: Start time of that process, so that a reused id is noticed.
        token_path: File with the token that Ray asks for.
    """

    address: str
    pid: int
    started: str
    token_path: Path


def ensure(home: Path) -> Cluster:
    """Returns this home's running Ray, started if there is none."""
    raise NotImplementedError
