"""Fixtures for every test: a PRX_HOME of its own, and one real local Ray for the whole run."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prx_resources import environment, keeper

# Ray reads these at its import, and test modules may import it while they are collected.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

CHROMIUM = Path("/usr/bin/chromium")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-system",
        action="store_true",
        help="Fail tests whose Debian packages (`make test-system`) are missing.",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser") is None or CHROMIUM.exists():
        return
    missing = f"{CHROMIUM} is missing; `make test-system` installs it"
    if item.config.getoption("--require-system"):
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


@pytest.fixture
def prx_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty PRX_HOME that the environment names."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("PRX_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def local_ray_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A PRX_HOME whose keeper runs Ray; started at its first use, ended with the test run."""
    home = tmp_path_factory.mktemp("ray-home")
    before = os.environ.get("RAY_AUTH_TOKEN_PATH")
    environment.export(environment.own_ray_variables(home))
    try:
        with pytest.MonkeyPatch.context() as patch:
            # Ray's workers inherit the keeper's environment: they find the test engines.
            patch.setenv("PYTHONPATH", str(Path(__file__).parent / "support"))
            keeper.ensure(home)
        yield home
    finally:
        keeper.stop(home)
        if before is None:
            del os.environ["RAY_AUTH_TOKEN_PATH"]
        else:
            os.environ["RAY_AUTH_TOKEN_PATH"] = before


@pytest.fixture
def connecting_ray_home(local_ray_home: Path) -> Iterator[Path]:
    """`local_ray_home` for a test whose own process connects to Ray, as a job would."""
    yield local_ray_home
    import ray

    ray.shutdown()


@pytest.fixture(autouse=True)
def _shared_memory_released(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Frees Streaming's shared memory after each test.

    Streaming frees it when the interpreter exits, and every new data set opens all that is left of
    the earlier ones: a long test run would run out of file descriptors.
    """
    mine: list[Any] = []
    register = atexit.register

    def keep(call: Any, *args: Any, **kwargs: Any) -> Any:
        owner = type(getattr(call, "__self__", None))
        if owner.__module__ == "streaming.base.shared.memory":
            mine.append(call)
            return call
        return register(call, *args, **kwargs)

    monkeypatch.setattr(atexit, "register", keep)
    yield
    for cleanup in mine:
        cleanup()
