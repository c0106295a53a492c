"""The demo: three small sources through every stage, then through a trainer's data loader."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prx_assets.cli.runs import StageLine, run_stages
from prx_assets.cli.selection import Request
from prx_assets.cli.sources import add_source
from prx_assets.cli.workspace import Workspace
from prx_resources.catalog import SourceManifest
from prx_resources.errors import StageError
from prx_resources.settings import SETTINGS_FILE

SETTINGS = """\
# Written by `prx demo`; yours to edit. Everything not named here has its default.
version: 1
training:
  batch_size: 2  # the demo has few images per bucket; a leaf under one batch can't be streamed
"""
_CHUNKS = {"perceptual_hashes": 4, "captions": 4, "caption_labels": 4}
"""So small that even the demo has several units of finished work per stage."""


@dataclass(frozen=True)
class DemoRun:
    """What a run of the demo did.

    Attributes:
        lines: One per stage and source.
        loaded: What the data loader saw: samples, batches, shapes, ids.
        seconds: From the first stage to the last batch.
    """

    lines: list[StageLine]
    loaded: dict[str, Any]
    seconds: float


def run_demo(workspace: Workspace, say: Callable[[str], None]) -> DemoRun:
    """Plants, registers, materializes and loads the demo; safe to repeat.

    Args:
        workspace: Where; sources of the demo's names that aren't the demo's are refused.
        say: Called with each line for people.
    """
    from prx_assets.demo.plant import plant

    started = time.monotonic()
    workspace.home.mkdir(parents=True, exist_ok=True)
    settings = workspace.home / SETTINGS_FILE
    if not settings.exists():
        settings.write_text(SETTINGS, encoding="utf-8")
    places = plant(workspace.home / "demo")
    for name, place in places.items():
        files = add_source(workspace, manifest(name, place))
        say(f"source {name}: {files} files in {place}")
    request = Request((), tuple(places))
    lines = run_stages(workspace, request, lambda line: say(str(line)))
    loaded = load(workspace)
    return DemoRun(lines, loaded, time.monotonic() - started)


def manifest(name: str, place: Path) -> SourceManifest:
    """Returns the manifest of one of the demo's sources."""
    shapes: dict[str, dict[str, Any]] = {
        "snapshots": {"kind": "folder"},
        "archive": {
            "kind": "parquet",
            "columns": {
                "id": "id",
                "image": "image",
                "caption": "caption",
                "embedding": "embedding",
                "metadata": ["camera"],
            },
        },
        "crawl": {"kind": "webdataset"},
    }
    return SourceManifest.model_validate(
        {
            "name": name,
            "uri": str(place),
            "notes": "Made by prx demo from its own photographs",
            "overrides": {"chunk_rows": _CHUNKS},
            **shapes[name],
        }
    )


def load(workspace: Workspace, profile: str = "default") -> dict[str, Any]:
    """Iterates the compiled configuration with a data loader, in a process of its own.

    Raises:
        StageError: The loader failed; its last lines say why.
    """
    config = workspace.lake.uri(workspace.lake.training_config_pointer(profile))
    found = subprocess.run(
        [sys.executable, "-m", "prx_assets.demo.load", config],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        raise StageError(
            "the data loader failed: " + " ".join(found.stderr.strip().splitlines()[-1:]),
            where=config,
            fix=f"{sys.executable} -m prx_assets.demo.load {config}",
        )
    result: dict[str, Any] = json.loads(found.stdout)
    return result
