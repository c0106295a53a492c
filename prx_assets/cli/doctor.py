"""`prx doctor`: can this machine do the work, one line each with the fix."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from prx_assets.cli import output
from prx_assets.cli.workspace import Workspace
from prx_resources.errors import PrxError
from prx_resources.object_store import probe
from prx_resources.settings import RaySettings

GIB = 1024**3
_NEEDED = {
    "dagster": "orchestrator",
    "ray": "ray",
    "pylance": "ray",
    "mosaicml-streaming": "trainer",
    "onnxruntime": "local",
}


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        what: What was looked at.
        ok: Whether it will do.
        says: What was found.
        fix: What to do if it won't do.
    """

    what: str
    ok: bool
    says: str
    fix: str = ""


@click.command()
@click.pass_context
def doctor(context: click.Context) -> int:
    """Check Python, disk, memory, ports, Ray, GPU, the lake's store and versions."""
    findings = list(examine(context.obj["workspace"]))
    lines = [
        f"{'ok  ' if one.ok else 'FAIL'}  {one.what:<8}  {one.says}"
        + ("" if one.ok else f"\n      fix: {one.fix}")
        for one in findings
    ]
    healthy = all(one.ok for one in findings)
    output.emit(
        [asdict(one) for one in findings],
        "\n".join(lines),
        next_command="prx source add NAME --folder PATH" if healthy else "",
    )
    return 0 if healthy else 1


def examine(workspace: Workspace) -> Iterator[Finding]:
    """Looks at everything in turn; a look that itself fails is a finding too."""
    looks: tuple[tuple[str, Callable[[Workspace], Finding]], ...] = (
        ("python", _python),
        ("disk", _disk),
        ("memory", _memory),
        ("port", _port),
        ("gpu", _gpu),
        ("settings", _settings),
        ("engines", _engines),
        ("store", _store),
        ("versions", _versions),
        ("ray", _ray),
    )
    for what, look in looks:
        try:
            yield look(workspace)
        except PrxError as error:
            yield Finding(what, False, error.what, error.fix)
        except OSError as error:
            yield Finding(what, False, str(error), "check that path and its permissions")


def _python(_: Workspace) -> Finding:
    version = platform.python_version()
    return Finding(
        "python", sys.version_info[:2] in ((3, 11), (3, 12)), version, "use Python 3.11 or 3.12"
    )


def _disk(workspace: Workspace) -> Finding:
    place = next(folder for folder in (workspace.home, *workspace.home.parents) if folder.exists())
    free = shutil.disk_usage(place).free / GIB
    return Finding(
        "disk", free > 5, f"{free:.0f} GiB free at {place}", "free 5 GiB or set PRX_HOME elsewhere"
    )


def _memory(_: Workspace) -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    return Finding("memory", total >= 6, f"{total:.0f} GiB", "local Ray and a job want about 6 GiB")


def _port(_: Workspace) -> Finding:
    with socket.socket() as listener:
        free = listener.connect_ex(("127.0.0.1", 3000)) != 0
    says = "3000 is free" if free else "3000 is taken; prx dev takes the next free one"
    return Finding("port", True, says)


def _gpu(_: Workspace) -> Finding:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding("gpu", True, "none; the built-in captioner and labeller run on the CPU")
    query = [tool, "--query-gpu=name", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20)
    names = ", ".join(found.stdout.split("\n")).strip(", ")
    return Finding("gpu", found.returncode == 0, names or "driver error", "run nvidia-smi")


def _settings(workspace: Workspace) -> Finding:
    settings = workspace.settings
    return Finding("settings", True, f"lake {settings.lake}, Ray {settings.ray.backend}")


def _engines(workspace: Workspace) -> Finding:
    from prx_assets.caption_labels import engine as labels
    from prx_assets.captions import engine as captions
    from prx_resources.plugins import load_engine_class

    settings = workspace.settings
    load_engine_class(settings.captions.engine, captions.BUILTIN, kind="caption engine")
    load_engine_class(settings.labels.engine, labels.BUILTIN, kind="label engine")
    names = f"captions by {settings.captions.engine}, labels by {settings.labels.engine}"
    return Finding("engines", True, names)


def _store(workspace: Workspace) -> Finding:
    Path(workspace.settings.lake).mkdir(parents=True, exist_ok=True)
    probe(workspace.lake.store)
    return Finding("store", True, "conditional put works")


def _versions(_: Workspace) -> Finding:
    found, missing = [], []
    for name, extra in _NEEDED.items():
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(f"{name} (extra {extra})")
    says = ", ".join([*found, *(f"missing {name}" for name in missing)])
    return Finding("versions", not missing, says, "make install")


def _ray(workspace: Workspace) -> Finding:
    from prx_resources import keeper

    ray = workspace.settings.ray
    if ray.backend == "submission":
        return _job_server(ray)
    cluster = keeper.running(workspace.home)
    says = f"local Ray at {cluster.address}" if cluster else "local; starts with the first job"
    return Finding("ray", True, says)


def _job_server(ray: RaySettings) -> Finding:
    from prx_resources.ray_rest import JobServer

    token = Path(ray.token_path).read_text().strip() if ray.token_path else None
    jobs = JobServer(ray.address, token).call("GET", "/api/jobs/")
    return Finding("ray", True, f"job server at {ray.address} knows {len(jobs)} jobs")
