"""A job that dies between any two steps, run again, leaves the rows of an undisturbed run."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prx_assets.raw_images import ingest
from prx_assets.raw_images.spec import ColumnMap
from prx_resources import lance_table, lease
from prx_resources.contract import JobSpec
from prx_resources.errors import ConflictError
from prx_resources.lake import Lake

from .conftest import Source, picture
from .test_job import parquet, put

MakePicture = Callable[..., bytes]
KEYED = ColumnMap(id="id", image="image", embedding="clip")
TUNING = {"files_per_task": 1, "commit_groups": 1}
STEPS = ("commit_append", "replace_rows", "commit_columns", "publish")


class Crash(BaseException):
    """Not an Exception: nothing may catch it."""


def fill(source: Source, make_picture: MakePicture) -> JobSpec:
    """Leaves a table with an older file, then new, replaced, doubled and broken rows to do."""
    put(source, "b.parquet", parquet(["k1", "k2"], [make_picture(1), make_picture(2)]))
    source.ingest(source.spec("parquet", KEYED, tuning=TUNING))
    put(source, "b.parquet", parquet(["k1", "k3"], [make_picture(1), make_picture(3)]), 5)
    put(source, "a.parquet", parquet(["k3", "k4"], [make_picture(4), make_picture(5)]))
    put(source, "c.parquet", parquet(["k4", "k5"], [make_picture(6), b"broken"]))
    put(source, "d.parquet", parquet([], []))
    return source.spec("parquet", KEYED, tuning=TUNING)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    source = Source(tmp_path_factory.mktemp("undisturbed"))
    source.ingest(fill(source, picture))
    return source.rows()


def crash_at(monkeypatch: pytest.MonkeyPatch, at: int, when: str) -> Callable[[], int]:
    """Makes the `at`-th writing step crash before or after it is done; returns a step counter."""
    steps = 0

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == at and when == "before":
                raise Crash
            value = real(*args, **kwargs)
            if steps == at:
                raise Crash
            return value

        return step

    for name in STEPS:
        monkeypatch.setattr(lance_table, name, wrap(getattr(lance_table, name)))
    monkeypatch.setattr(ingest, "note_without_rows", wrap(ingest.note_without_rows))
    return lambda: steps


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 9))
def test_any_crash_is_made_good_by_the_next_run(
    source: Source,
    make_picture: MakePicture,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: list[dict[str, Any]],
    at: int,
    when: str,
) -> None:
    spec = fill(source, make_picture)
    with monkeypatch.context() as patch:
        count = crash_at(patch, at, when)
        try:
            source.ingest(spec)
            crashed = False
        except Crash:
            crashed = True
        assert crashed == (count() >= at)
    source.ingest(spec)
    assert source.rows() == undisturbed
    again = source.ingest(spec)
    assert again.done == 0


def test_the_steps_above_cover_a_whole_run(
    source: Source, make_picture: MakePicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = fill(source, make_picture)
    count = crash_at(monkeypatch, 0, "never")
    source.ingest(spec)
    assert 5 <= count() <= 8


KILLED = """
import json, os, signal, sys
from pathlib import Path
from prx_assets.raw_images.job import work
from prx_assets.raw_images.readers import InlineReaders
from prx_assets.runtime import Job
from prx_resources import lance_table
from prx_resources.contract import JobSpec

real = lance_table.commit_append

def commit_append(*args):
    real(*args)
    os.kill(os.getpid(), signal.SIGKILL)

lance_table.commit_append = commit_append
spec = JobSpec.from_json(json.loads(sys.argv[1]))
work(Job(spec, Path(sys.argv[2])), InlineReaders())
"""


def test_kill_9_of_the_process(
    source: Source, make_picture: MakePicture, undisturbed: list[dict[str, Any]]
) -> None:
    spec = fill(source, make_picture)
    command = [sys.executable, "-c", KILLED, json.dumps(spec.to_json()), str(source.run_dir)]
    done = subprocess.run(command, check=False, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    source.ingest(spec)  # the dead holder's lease is taken over
    assert source.rows() == undisturbed


def test_two_jobs_that_read_the_same_files(source: Source, make_picture: MakePicture) -> None:
    put(source, "a.jpg", make_picture(1))

    class Slow:
        workers = 1

        def read(self, groups: Any) -> Any:
            from prx_assets.raw_images.groups import read_group

            for group in groups:
                result = read_group(group)
                source.ingest(source.spec())  # the other job is faster
                yield result

    with pytest.raises(ConflictError, match="another job has just read"):
        source.ingest(source.spec(), Slow())
    assert len(source.rows()) == 1


def test_a_job_that_read_the_files_before_this_one_began_to(
    source: Source, make_picture: MakePicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(source, "a.jpg", make_picture(1))
    source.ingest(source.spec())
    put(source, "b.jpg", make_picture(2))
    real = ingest.Ingest.prepare

    def prepare(self: ingest.Ingest, due: Any) -> int | None:
        monkeypatch.undo()
        source.ingest(source.spec())
        return real(self, due)

    monkeypatch.setattr(ingest.Ingest, "prepare", prepare)
    with pytest.raises(ConflictError, match="another job has just read"):
        source.ingest(source.spec())
    assert [row["source_file"] for row in source.rows()] == ["a.jpg", "b.jpg"]


def test_a_long_compaction_is_waited_for(
    source: Source, make_picture: MakePicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(source, "a.jpg", make_picture(1))
    store, now = Lake(str(source.lake)).store, itertools.count(0, 60)
    compaction = contextlib.ExitStack()
    compaction.enter_context(lease.lease(store, f"images/{source.name}", "compaction"))

    def sleep(_: float) -> None:
        if next(now) > 3000:
            compaction.close()

    slow = SimpleNamespace(monotonic=lambda: next(now), sleep=sleep)
    monkeypatch.setattr(lease, "time", slow)
    assert source.ingest(source.spec()).rows_in == 1


def test_a_table_whose_creation_was_cut_short_gets_its_settings(
    source: Source, make_picture: MakePicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(source, "a.jpg", make_picture(1))

    def die(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr("lance.LanceDataset.update_config", die)
        with pytest.raises(Crash):
            source.ingest(source.spec())
    source.ingest(source.spec())
    assert lance_table.chunk_rows(source.table(), "captions") == 4
    assert lance_table.target_fragment_rows(source.table()) == 100


def test_an_orphan_of_a_crash_is_in_no_version(
    source: Source, make_picture: MakePicture, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(source, "a.jpg", make_picture(1))
    with monkeypatch.context() as patch:
        crash_at(patch, 1, "before")
        with pytest.raises(Crash):
            source.ingest(source.spec())
    assert lance_table.open_latest(source.uri).count_rows() == 0
    assert list(Path(source.uri).rglob("*.lance"))
    assert source.ingest(source.spec()).rows_in == 1
