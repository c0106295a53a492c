"""What isn't decided, or was taken down, never reaches the loader."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prx_resources import lance_table
from prx_resources.catalog import Catalog
from prx_resources.lake import Lake
from prx_resources.settings import Settings

from .conftest import Demo
from .world import BEFORE_EXPORT, GLOBAL, World, picture, put


def test_a_row_without_label_or_hash_never_reaches_the_loader(world: World) -> None:
    old = {key for key, _ in world.loaded()}
    assert len(old) == 8
    put(world.folder / "c.parquet", {"c0": picture(20)})
    world.run("raw_images", "captions", "mds_shards")

    world.run(*GLOBAL)
    assert {key for key, _ in world.loaded()} == old
    world.run("caption_labels", *GLOBAL)
    assert {key for key, _ in world.loaded()} == old
    world.run("perceptual_hashes", "skip_lists", "training_config")
    assert {key for key, _ in world.loaded()} == old  # hashed, but compared with nothing yet
    world.run(*GLOBAL)
    assert {key for key, _ in world.loaded()} == {*old, "pets/c0"}


def test_a_hash_without_a_label_is_not_enough(world: World) -> None:
    put(world.folder / "c.parquet", {"c0": picture(20)})
    world.run("raw_images", "captions", "perceptual_hashes", "mds_shards", *GLOBAL)
    assert "pets/c0" not in {key for key, _ in world.loaded()}


@pytest.mark.timeout(900)  # it may be the first to want the demo
def test_a_taken_down_picture_and_its_twins_stay_away_for_good(
    demo: Demo, home: Path, prx: Callable[..., int], local_ray_home: Path
) -> None:
    shutil.copytree(demo.home / "lake", home / "lake")
    (home / "settings.yaml").write_text("training: {batch_size: 1}\n")
    settings = Settings.load(home)
    catalog = Catalog(Lake(settings.lake))
    world = World(local_ray_home, settings, [catalog.load(name) for name in catalog.names()])
    world.run("training_config")  # for batches of one, which leave no picture out
    before = {key for key, _ in world.loaded()}
    kept, copy_of_it = "archive/dandelion-portrait", lying_dandelion(world)
    assert kept in before
    assert copy_of_it not in before

    # The worse copy: what the loader knows is the better one, in another source.
    assert prx("takedown", copy_of_it) == 0
    assert prx("materialize", *GLOBAL) == 0
    assert {key for key, _ in world.loaded()} == before - {kept}

    shutil.rmtree(world.lake.images_uri("snapshots"))
    world.run(*BEFORE_EXPORT, "mds_shards", source="snapshots")
    world.run(*GLOBAL)
    assert {key for key, _ in world.loaded()} == before - {kept}


def lying_dandelion(world: World) -> str:
    """Returns the id of the demo's rotated, smaller copy of `archive/dandelion-portrait`."""
    [row] = (
        lance_table.open_published(world.lake.images_uri("snapshots"))
        .to_table(
            columns=["image_id"], filter=lance_table.is_in("source_file", ["exif-rotated.jpg"])
        )
        .to_pylist()
    )
    return str(row["image_id"])
