"""Kill -9 at work: the next run leaves what an undisturbed one would have."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from counting_captions import workers

from prx_resources import lance_table
from prx_resources.jobs import JobState
from prx_resources.lease import lease

from .conftest import HalfDone
from .world import World, files, finish, picture, put, wait_for


def test_captions_go_on_where_a_killed_job_stopped(half_done: HalfDone, tmp_path: Path) -> None:
    world = half_done.world.copy(tmp_path / "world")
    assert world.chunks("captions") == half_done.chunks
    asked = world.listen()
    everything = world.rows("image").keys()
    with lease(world.lake.store, f"images/{world.source}", "test"):
        # While we hold the table's lease, the job can finish its chunks but not commit them.
        job = world.start("captions")
        wait_for(lambda: world.in_chunks() == everything or job.state() is not JobState.RUNNING)
        assert half_done.chunks.items() <= world.chunks("captions").items()
    result = finish(job)

    assert asked() == half_done.unfinished
    assert result.done == len(half_done.unfinished)
    assert world.rows() == half_done.undisturbed.rows()
    assert world.wrongly_captioned() == []
    assert world.chunks("captions") == {}
    assert lance_table.holds(world.uri) == {}


def test_captions_survive_the_death_of_a_worker(
    ingested: World, undisturbed: World, tmp_path: Path
) -> None:
    world = ingested.copy(tmp_path / "world")
    before, asked = len(workers(world.engine)), world.listen()
    with world.slowed():
        job = world.start("captions", batch_size=1, workers=2)
        wait_for(lambda: len(asked()) >= 2)
        os.kill(workers(world.engine)[before], signal.SIGKILL)
        result = finish(job)

    assert len(workers(world.engine)) == before + 3
    assert result.rows_out == result.done == 24
    assert world.rows() == undisturbed.rows()


def test_ingest_goes_on_where_a_killed_job_stopped(local_ray_home: Path, tmp_path: Path) -> None:
    world = World.make(tmp_path / "world", local_ray_home)
    for n in range(20):
        put(world.folder / f"{n:02}.parquet", {f"k{n}": picture(n, (32, 32))})
    # Long enough at work for the kill to come before it is committed.
    many = {f"m{n}": picture(99, (32, 32)) for n in range(1500)}
    put(world.folder / "99.parquet", many)
    undisturbed = world.copy(tmp_path / "undisturbed")

    def committed() -> int:
        uri = world.uri
        return lance_table.open_latest(uri).count_rows() if lance_table.exists(uri) else 0

    one_by_one = {"files_per_task": 1, "commit_groups": 1}
    job = world.start("raw_images", **one_by_one)
    wait_for(committed)
    os.kill(json.loads((job.folder / "job.json").read_text())["pid"], signal.SIGKILL)
    wait_for(lambda: job.state() is not JobState.RUNNING)
    assert job.state() is JobState.LOST
    done = committed()
    assert 0 < done <= 20
    assert lance_table.published_version(world.uri) is None
    fragments = lance_table.open_latest(world.uri).get_fragments()
    names = {file.path for fragment in fragments for file in fragment.data_files()}
    data = Path(world.uri) / "data"
    kept = {path: content for path, content in files(data).items() if path in names}
    assert kept.keys() == names

    result = finish(world.start("raw_images", **one_by_one))

    assert result.metadata["files_read_now"].value == 21 - done
    assert kept.items() <= files(data).items()
    undisturbed.run("raw_images")
    assert len(world.rows("width")) == 1520
    assert world.rows() == undisturbed.rows()
