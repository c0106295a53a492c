"""The only reader of the process environment: where PRX_HOME is and what a job was told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_NOT_INHERITED = ("RAY_ADDRESS", "RAY_NAMESPACE", "DAGSTER_PIPES_CONTEXT", "DAGSTER_PIPES_MESSAGES")


def prx_home() -> Path:
    """Returns the folder of this platform's state: `PRX_HOME`, or `.prx` where one stands."""
    return Path(os.environ.get("PRX_HOME") or ".prx").absolute()


def variable(name: str) -> str | None:
    """Returns an environment variable that a settings file refers to by name."""
    return os.environ.get(name)


@dataclass(frozen=True)
class JobEnvironment:
    """What a job's process is told by whoever started it, besides its spec.

    Attributes:
        job_id: Submission id; also the holder's name in leases.
        run_dir: The run folder; for a job on a cluster a folder of the driver's own.
        home: PRX_HOME whose keeper runs the Ray to use; None inside a Ray cluster.
    """

    job_id: str
    run_dir: Path
    home: Path | None

    def variables(self) -> dict[str, str]:
        """Returns the environment variables that carry this to the job."""
        found = {"PRX_JOB_ID": self.job_id, "PRX_RUN_DIR": str(self.run_dir)}
        # Lance warns at each commit of a column that the operation is young; a canary test watches.
        found["LANCE_LOG"] = os.environ.get("LANCE_LOG") or "error"
        if self.home is not None:
            # Ray looks at these once, when it is imported: too early for the job.
            found |= {"PRX_HOME": str(self.home), **own_ray_variables(self.home)}
        return {**found, "PRX_RAY": "cluster" if self.home is None else "keeper"}


def job_environment() -> JobEnvironment | None:
    """Returns what this process was told, or None if it wasn't started as a job."""
    job_id = os.environ.get("PRX_JOB_ID")
    if not job_id:
        return None
    in_cluster = os.environ.get("PRX_RAY") == "cluster"
    return JobEnvironment(
        job_id=job_id,
        run_dir=Path(os.environ.get("PRX_RUN_DIR") or Path.cwd()),
        home=None if in_cluster else prx_home(),
    )


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment for a process we start: ours without other Rays, and `extra`."""
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**kept, **extra}


def token_path(home: Path) -> Path:
    """Returns the file with the token of a home's own Ray."""
    return home / "ray" / "token"


def own_ray_variables(home: Path) -> dict[str, str]:
    """Returns what Ray's processes and drivers need to use a home's own Ray."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_path(home)),
        # The one way to keep Ray on 127.0.0.1: it takes the network's address even where it is
        # asked for the loopback, except on systems where it has no clusters.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }


def export(variables: Mapping[str, str]) -> None:
    """Sets variables for this process; Ray reads its authentication from nowhere else."""
    os.environ.update(variables)
