"""`prx dev` opens the UI; `prx ray stop` ends this PRX_HOME's Ray."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import click

from prx_assets.cli import output
from prx_assets.cli.workspace import Workspace
from prx_resources.environment import child_environment
from prx_resources.errors import RefusedError

FIRST_PORT, LAST_PORT = 3000, 3050


@click.command()
@click.option("--port", type=int, help=f"Default: the next free port from {FIRST_PORT} on.")
@click.pass_context
def dev(context: click.Context, port: int | None) -> int:
    """Open the Dagster UI and daemon; Ctrl-C stops them, their jobs and the local Ray."""
    workspace: Workspace = context.obj["workspace"]
    chosen = _port(port)
    workspace.prepare()
    environment = child_environment(
        {"PRX_HOME": str(workspace.home), "DAGSTER_HOME": str(workspace.dagster_home)}
    )
    command = [sys.executable, "-m", "dagster", "dev", "-m", "prx_assets.definitions"]
    command += ["-h", "127.0.0.1", "-p", str(chosen)]
    output.note(
        f"Dagster UI: http://127.0.0.1:{chosen} (PRX_HOME {workspace.home}); Ctrl-C ends it"
    )
    # PRX_HOME as working folder: Dagster puts it on the import path, where a stray module can
    # shadow one of its own. An own group, so that Ctrl-C reaches us first.
    server = subprocess.Popen(command, cwd=workspace.home, env=environment, start_new_session=True)
    try:
        return server.wait()
    except KeyboardInterrupt:
        _end(server)
        stopped = len(workspace.ray_jobs().stop_all())
        output.note(f"stopped {stopped} jobs and the local Ray; finished chunks are kept")
        return 0


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
        {"stopped": ended}, "the local Ray has ended" if ended else "no local Ray runs here"
    )
