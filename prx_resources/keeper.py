"""The keeper: one process per PRX_HOME that runs this home's own Ray on 127.0.0.1.

`python -m prx_resources.keeper HOME` is it; everybody else calls `ensure` and `stop`. It ends ten
minutes after the last job.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from prx_resources.environment import (
    child_environment,
    export,
    own_ray_variables,
    token_path,
)
from prx_resources.errors import ClusterUnreachable
from prx_resources.local_jobs import LocalJobs
from prx_resources.outcome import read_json, write_json
from prx_resources.processes import Process, file_lock, spawn, this_process

OBJECT_STORE_BYTES = 512 * 2**20
IDLE_S = 600.0
_START_WAIT_S = 180.0
_STOP_WAIT_S = 30.0
_LOOK_EVERY_S = 10.0
_LONGEST_TEMP = 40
"""Ray puts sockets at `<temp>/session_<42 characters>/sockets/plasma_store`; AF_UNIX takes 107."""


@dataclass(frozen=True)
class Cluster:
    """Where a running Ray is.

    Attributes:
        address: `127.0.0.1:PORT` of its GCS.
        pid: Process id of the keeper.
        started: Start time of that process, so that a reused id is noticed.
        token: File with the token that Ray asks for.
    """

    address: str
    pid: int
    started: str
    token: str

    @property
    def process(self) -> Process:
        """The keeper's process."""
        return Process(self.pid, self.started)


def running(home: Path) -> Cluster | None:
    """Returns this home's Ray if it runs."""
    data = read_json(home / "ray" / "address.json")
    cluster = Cluster(**data) if data else None
    return cluster if cluster and cluster.process.alive else None


def ensure(home: Path) -> Cluster:
    """Returns this home's running Ray, started if there is none.

    Raises:
        ClusterUnreachable: It doesn't come up; the message ends with what Ray said.
    """
    folder = home / "ray"
    with file_lock(folder / "start.lock"):
        (folder / "used").touch()
        cluster = running(home)
        return cluster or _start(home)


def stop(home: Path) -> bool:
    """Ends this home's Ray, and nobody else's; returns whether one was running."""
    with file_lock(home / "ray" / "start.lock"):
        cluster = running(home)
        if cluster is not None:
            cluster.process.end(_STOP_WAIT_S)
            (home / "ray" / "address.json").unlink(missing_ok=True)
    return cluster is not None


def _start(home: Path) -> Cluster:
    folder = home / "ray"
    log = folder / "keeper.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-u", "-m", "prx_resources.keeper", str(home)]
    process = spawn(command, log, child_environment({"PRX_HOME": str(home)}), folder)
    deadline = time.monotonic() + _START_WAIT_S
    while process.alive and time.monotonic() < deadline:
        cluster = running(home)
        if cluster is not None:
            return cluster
        time.sleep(0.1)
    process.end(_STOP_WAIT_S)
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    raise ClusterUnreachable(
        f"this home's Ray didn't start: {said[-1] if said else 'it said nothing'}",
        where=str(log),
        fix="run `prx doctor`; free memory or disk if it says so",
    )


def temp_dir(home: Path) -> Path:
    """Returns Ray's folder for sessions: inside the home unless its sockets' paths get too long."""
    inside = home / "ray" / "tmp"
    if len(os.fsencode(inside)) <= _LONGEST_TEMP:
        return inside
    name = f"prx-{os.getuid()}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:10]}"
    short = Path(tempfile.gettempdir()) / name
    return short if len(os.fsencode(short)) <= _LONGEST_TEMP else Path("/tmp") / name  # noqa: S108


def _prepare(home: Path) -> Path:
    """Makes the token and an empty session folder that only this user can write to."""
    token = token_path(home)
    if not token.exists():
        with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    temp = temp_dir(home)
    temp.mkdir(mode=0o700, parents=True, exist_ok=True)
    if temp.is_symlink() or temp.stat().st_uid != os.getuid():
        raise ClusterUnreachable(
            "Ray's session folder belongs to somebody else", where=str(temp), fix="remove it"
        )
    for old in temp.glob("session_*"):
        if old.is_symlink():
            old.unlink()
        else:
            shutil.rmtree(old, ignore_errors=True)
    return temp


def _keep(home: Path) -> None:
    """Runs Ray until it is idle or told to end."""
    folder = home / "ray"
    temp = _prepare(home)
    export(
        {
            **own_ray_variables(home),
            "RAY_raylet_start_wait_time_s": "150",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
    )
    import ray

    context = ray.init(
        address="local",
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        num_cpus=max(2, os.cpu_count() or 2),
        log_to_driver=False,
        _temp_dir=str(temp),
        _node_ip_address="127.0.0.1",
    )
    told = threading.Event()
    # After ray.init, which puts its own handlers in place.
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    me = this_process()
    cluster = Cluster(
        context.address_info["gcs_address"], me.pid, me.started, str(token_path(home))
    )
    write_json(folder / "address.json", asdict(cluster))
    try:
        while not told.wait(_LOOK_EVERY_S) and not is_idle(home):
            pass
    finally:
        (folder / "address.json").unlink(missing_ok=True)
        ray.shutdown()
        if folder not in temp.parents:
            # Nobody who removes the home would find it.
            shutil.rmtree(temp, ignore_errors=True)


def is_idle(home: Path) -> bool:
    """Returns whether nobody has used this home's Ray for ten minutes."""
    used = home / "ray" / "used"
    if LocalJobs(home).live():
        used.touch()
        return False
    return time.time() - used.stat().st_mtime > IDLE_S


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
