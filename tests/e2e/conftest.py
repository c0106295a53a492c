"""What the end-to-end tests share: one demo, one world with an export, one half-done job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from counting_captions import workers

from prx_assets.cli import main
from prx_resources.jobs import JobState

from .world import BEFORE_EXPORT, GLOBAL, WIDE, Files, World, digest, files, picture, put, runs
from .world import wait_for as wait_until

Prx = Callable[..., subprocess.CompletedProcess[str]]


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ray)


def installed_prx(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed command in a process of its own."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("prx")), *arguments],
        env={**os.environ, "PRX_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass(frozen=True)
class Demo:
    """A run of `prx demo` and what it left.

    Attributes:
        home: PRX_HOME.
        said: What it printed.
        lake: Every file of the lake after it.
    """

    home: Path
    said: str
    lake: Files


def run_demo(home: Path, *options: str) -> Demo:
    answer = installed_prx(home, "demo", *options)
    assert answer.returncode == 0, answer.stderr
    return Demo(home, answer.stdout, files(home / "lake"))


@pytest.fixture(scope="session")
def demo(local_ray_home: Path) -> Demo:
    return run_demo(local_ray_home)


@pytest.fixture(scope="session")
def again(demo: Demo) -> Demo:
    """The second demo, which prints JSON."""
    return run_demo(demo.home, "--json")


@pytest.fixture
def home(tmp_path: Path, local_ray_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PRX_HOME of the test's own that uses the test run's Ray."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "ray").symlink_to(local_ray_home / "ray")
    for name in ("PRX_HOME", "DAGSTER_HOME"):
        monkeypatch.setenv(name, str(home))
    return home


@pytest.fixture
def prx(home: Path) -> Callable[..., int]:
    """Runs a `prx` command line on `home`, in this process."""

    def call(*arguments: str) -> int:
        return main.run(main.options_first(["--home", str(home), *arguments]))

    return call


@pytest.fixture(scope="session")
def _exported(tmp_path_factory: pytest.TempPathFactory, local_ray_home: Path) -> World:
    world = World.make(tmp_path_factory.mktemp("exported"), local_ray_home)
    put(world.folder / "a.parquet", {f"a{n}": picture(n) for n in range(4)})
    wide = {f"b{n}": picture(10 + n, WIDE) for n in range(3)}
    put(world.folder / "b.parquet", wide | {"b3": picture(13)})
    world.run(*BEFORE_EXPORT, "mds_shards", *GLOBAL)
    return world


@pytest.fixture
def world(_exported: World, tmp_path: Path) -> World:
    """Eight pictures in two files and two buckets, through every stage."""
    return _exported.copy(tmp_path / "world")


@dataclass(frozen=True)
class HalfDone:
    """A captioning job that was killed in its middle.

    Attributes:
        world: Where it worked.
        undisturbed: The same lake, captioned without a kill.
        chunks: What it left.
        unfinished: Digests of the pictures that are in no chunk, sorted.
    """

    world: World
    undisturbed: World
    chunks: Files
    unfinished: list[str]


@pytest.fixture(scope="session")
def ingested(tmp_path_factory: pytest.TempPathFactory, local_ray_home: Path) -> World:
    """24 pictures in 12 files, a fragment each, ingested; copy it."""
    world = World.make(tmp_path_factory.mktemp("ingested"), local_ray_home, fragment_rows=16)
    for n in range(12):
        put(world.folder / f"{n:02}.parquet", {f"k{2 * n + m}": picture(2 * n + m) for m in (0, 1)})
    world.run("raw_images", files_per_task=1)
    return world


@pytest.fixture(scope="session")
def undisturbed(ingested: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = ingested.copy(tmp_path_factory.mktemp("undisturbed"))
    world.run("captions")
    return world


@pytest.fixture(scope="session")
def half_done(
    ingested: World, undisturbed: World, tmp_path_factory: pytest.TempPathFactory
) -> HalfDone:
    world = ingested.copy(tmp_path_factory.mktemp("half-done"))
    before = len(workers(world.engine))
    with world.slowed():
        job = world.start("captions", batch_size=1, workers=2)
        wait_until(lambda: len(world.chunks("captions")) >= 2)
        os.kill(json.loads((job.folder / "job.json").read_text())["pid"], signal.SIGKILL)
        # Ray ends a dead driver's workers; until then they may finish another chunk.
        wait_until(lambda: not any(map(runs, workers(world.engine)[before:])))
    assert job.state() is JobState.LOST
    chunks = world.chunks("captions")
    finished = world.in_chunks()
    pictures = world.rows("image")
    assert 8 <= len(finished) < len(pictures)
    unfinished = sorted(digest(pictures[key]["image"]) for key in pictures.keys() - finished)
    return HalfDone(world, undisturbed, chunks, unfinished)
