from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prx_assets.mds_shards import pool
from prx_assets.mds_shards.pool import RayPool
from prx_assets.runtime import Job
from prx_resources.contract import JobSpec
from prx_resources.errors import InvariantError, StageError

pytestmark = [
    pytest.mark.ray,
    # Ray leaves sockets and processes to the interpreter's end.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def cluster(connecting_ray_home: Path) -> Callable[[], object]:
    spec = JobSpec("mds_shards", "pictures", "")
    return Job(spec, connecting_ray_home, home=connecting_ray_home).connect_ray


def contents(source: Any) -> dict[str, bytes]:
    return {name: data for name, (_, data) in source.files().items()}


def test_two_workers_write_what_one_process_writes(
    source: Any, make_row: Callable[..., dict[str, Any]], tmp_path: Any, cluster: Any
) -> None:
    source.params["shard_bytes"] = 60_000
    rows = [make_row(f"r{number}", 400 + number, 400) for number in range(5)]
    other = type(source)(tmp_path / "other", dict(source.params))
    other.root.mkdir()
    for each in (source, other):
        each.write(rows)
    assert source.export(RayPool(cluster)).done == 5
    other.export()
    assert contents(source) == contents(other)


def test_a_workers_own_error_arrives_as_it_is(
    monkeypatch: pytest.MonkeyPatch, cluster: Any
) -> None:
    def broken(task: Any) -> Any:
        raise InvariantError("a shard is wrong", where="here", fix="that")

    monkeypatch.setattr(pool, "write_slice", broken)
    with pytest.raises(InvariantError, match="a shard is wrong") as caught:
        list(RayPool(cluster).run([None]))  # type: ignore[list-item]
    assert (caught.value.where, caught.value.fix) == ("here", "that")


def test_any_other_error_is_a_stage_error_with_a_fix(
    monkeypatch: pytest.MonkeyPatch, cluster: Any
) -> None:
    def broken(task: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr(pool, "write_slice", broken)
    with pytest.raises(StageError, match="OSError: no space left") as caught:
        list(RayPool(cluster).run([None]))  # type: ignore[list-item]
    assert "finished shards are kept" in caught.value.fix


def test_a_killed_workers_slice_is_written_by_another(
    monkeypatch: pytest.MonkeyPatch, cluster: Any, tmp_path: Any
) -> None:
    mark = tmp_path / "killed"

    def dies_once(task: Any) -> Any:
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    monkeypatch.setattr(pool, "write_slice", dies_once)
    assert list(RayPool(cluster).run(["a"])) == ["a"]  # type: ignore[list-item,comparison-overlap]
    assert mark.exists()
