"""`prx dev` opens the UI; `prx ray stop` ends this PRX_HOME's Ray."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import click

from prx_assets.cli import output
from prx_assets.cli.workspace import Workspace
from prx_resources.environment import child_environment
from prx_resources.errors import RefusedError

FIRST_PORT, LAST_PORT = 3000, 3050


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help=f"Default: the next free port from {FIRST_PORT} on.",
)
@click.pass_context
def dev(context: click.Context, port: int | None) -> int:
    """Open the Dagster UI and daemon; Ctrl-C stops them, their jobs and the local Ray."""
    workspace: Workspace = context.obj["workspace"]
    chosen = _port(port)
    workspace.prepare()
    environment = child_environment(
        {"PRX_HOME": str(workspace.home), "DAGSTER_HOME": str(workspace.dagster_home)}
    )
    # Dagster recommends a command that can't be told its folder, at every start.
    command = [sys.executable, "-W", "ignore:Function `dev_command` is superseded"]
    command += ["-m", "dagster", "dev", "-m", "prx_assets.definitions"]
    command += ["-h", "127.0.0.1", "-p", str(chosen), "--log-level", "warning"]
    output.note(f"starting Dagster on {workspace.home}, which takes about ten seconds ...")
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # SIGINT too: whatever a shell starts in the background ignores it.
        signal.signal(kind, _interrupt)
    # PRX_HOME as working folder: Dagster puts it on the import path, where a stray module can
    # shadow one of its own. An own group, so that Ctrl-C reaches us first.
    server = subprocess.Popen(command, cwd=workspace.home, env=environment, start_new_session=True)
    try:
        if _answers(server, chosen):
            output.note(f"Dagster UI: http://127.0.0.1:{chosen}; Ctrl-C ends it, its jobs and Ray")
        return server.wait()
    except KeyboardInterrupt:
        output.note("ending Dagster, its jobs and the local Ray ...")
        _end(server)
        stopped = len(workspace.ray_jobs().stop_all())
        jobs = f"jobs stopped: {stopped}; finished chunks are kept" if stopped else "no job ran"
        output.note(f"Dagster and the local Ray have ended; {jobs}")
        return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _port(wanted: int | None) -> int:
    for port in [wanted] if wanted else range(FIRST_PORT, LAST_PORT):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RefusedError(
        f"port {wanted} is in use" if wanted else f"no free port from {FIRST_PORT} to {LAST_PORT}",
        where="127.0.0.1",
        fix="leave --port out, or end what listens there" if wanted else "give one with --port",
    )


def _answers(server: subprocess.Popen[bytes], port: int) -> bool:
    """Waits until the UI answers; returns False if the server ends before."""
    while server.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.2)
    return False


def _end(server: subprocess.Popen[bytes]) -> None:
    import os

    for kind, patience in ((signal.SIGINT, 20), (signal.SIGKILL, 10)):
        try:
            os.killpg(server.pid, kind)
            server.wait(timeout=patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return


@click.group()
def ray() -> None:
    """The local Ray of this PRX_HOME."""


@ray.command()
@click.pass_context
def stop(context: click.Context) -> None:
    """End the local Ray of this PRX_HOME; other Rays on the machine stay."""
    from prx_resources import keeper

    ended = keeper.stop(context.obj["workspace"].home)
    output.emit(
        {"stopped": ended},
        "the local Ray has ended" if ended else "no local Ray runs here",
        next_command="prx status",
    )
