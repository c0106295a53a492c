"""Sources that grow and change: what is done stays where it is."""

from __future__ import annotations

from pathlib import Path

from prx_resources import lance_table

from .conftest import HalfDone
from .world import GLOBAL, World, digest, files, picture, put


def test_a_new_file_alone_is_ingested_captioned_and_exported(world: World) -> None:
    old_rows, old_samples, old_files = world.rows(), world.samples(), files(world.export())
    old_version = lance_table.published_version(world.uri)
    assert len(old_samples) == 8
    asked = world.listen()
    new = {"c0": picture(20), "c1": picture(21)}
    put(world.folder / "c.parquet", new)

    ingested = world.run("raw_images")
    assert ingested.metadata["files_read_now"].value == 1
    assert ingested.done == 2
    assert world.run("captions").done == 2
    assert asked() == sorted(map(digest, new.values()))
    world.run("perceptual_hashes", "caption_labels")
    assert world.run("mds_shards").done == 2

    rows, samples = world.rows(), world.samples()
    assert {key: rows[key] for key in old_rows} == old_rows
    assert {key: samples[key] for key in old_samples} == old_samples
    added = [place for key, place in samples.items() if key not in old_samples]
    assert {shard.split("/")[0] for _, shard, _ in added} == {"p0001"}
    now = files(world.export())
    changed = {path for path, content in old_files.items() if now.get(path) != content}
    assert {Path(path).name for path in changed} == {"index.json"}
    assert {len(Path(path).parts) for path in changed} == {3}  # the leaf's, not a part's
    assert lance_table.published_version(world.uri) > old_version

    world.run(*GLOBAL)
    loaded = dict(world.loaded())
    assert loaded.keys() == rows.keys()
    assert all(digest(row["image"]) in loaded[key] for key, row in rows.items())


def test_a_replaced_file_has_only_its_changed_row_done_again(world: World) -> None:
    old_samples = world.samples()
    asked = world.listen()
    put(world.folder / "a.parquet", {"a0": picture(0), "a1": picture(30)} | same(2, 3))

    world.run("raw_images")
    assert world.run("captions").done == 1
    assert asked() == [digest(picture(30))]
    assert world.wrongly_captioned() == []
    world.run("perceptual_hashes", "caption_labels")
    exported = world.run("mds_shards")
    assert exported.done == exported.metadata["superseded_samples"].value == 1
    assert old_samples.items() <= world.samples().items()

    world.run("duplicates")
    skipped = world.run("skip_lists").set_aside
    world.run("training_config")
    loaded = world.loaded()
    assert skipped == {"superseded": 1}
    assert sorted(key for key, _ in loaded) == sorted(world.rows())
    assert digest(picture(30)) in dict(loaded)["pets/a1"]


def same(*numbers: int) -> dict[str, bytes]:
    return {f"a{n}": picture(n) for n in numbers}


def test_a_half_done_job_goes_on_after_a_compaction(half_done: HalfDone, tmp_path: Path) -> None:
    world = half_done.world.copy(tmp_path / "world")
    asked = world.listen()
    assert len(lance_table.open_published(world.uri).get_fragments()) == 12

    compacted = world.run("compacted_images")
    assert compacted.metadata["fragments"].value <= 2
    assert world.chunks("captions") == half_done.chunks
    result = world.run("captions")

    assert asked() == half_done.unfinished
    assert (result.rows_out, result.done) == (24, len(half_done.unfinished))
    assert world.wrongly_captioned() == []
    assert world.rows() == half_done.undisturbed.rows()


def test_rows_deleted_and_compacted_away_leave_their_chunks_behind(
    half_done: HalfDone, tmp_path: Path
) -> None:
    world = half_done.world.copy(tmp_path / "world")
    put(world.folder / "00.parquet", {"k0": picture(40), "k1": picture(1)})
    put(world.folder / "12.parquet", {"k24": picture(24)})

    world.run("raw_images", "compacted_images")
    assert world.run("captions").rows_out == 25
    assert world.wrongly_captioned() == []
