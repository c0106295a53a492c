"""`prx demo`, the installed command: what it says, checks, and leaves alone the second time."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
import yaml

from prx_assets.cli import main
from prx_assets.demo import check, plant
from prx_assets.jobs import GLOBAL_STAGES, PER_SOURCE_STAGES
from prx_resources import lance_table
from prx_resources.lake import Lake
from prx_resources.skip_dataset import SkipDataset, load_training_config, streams

from .conftest import Demo, installed_prx

# A whole demo, on a busy machine.
pytestmark = pytest.mark.timeout(900)

SOURCES = ("snapshots", "archive", "crawl")


def test_it_tells_a_person_what_there_is_and_how_to_go_on(demo: Demo) -> None:
    said = demo.said
    for source in SOURCES:
        for stage in PER_SOURCE_STAGES:
            assert any(line.split()[:2] == [source, stage] for line in said.splitlines())
    for text in (
        *("set aside", "1 decode", "1 duplicate_key", "9 visual", "bucket", "1024/1.286"),
        *("skipped: 4 duplicate, 2 text", "samples in", "batches", "peak memory"),
        *("The captions are measured descriptions", "captions: {engine:", "settings.yaml"),
        *("every image of the demo met its planted fate", "next: prx dev"),
    ):
        assert text in said


def test_a_second_run_says_unchanged_at_every_stage(again: Demo) -> None:
    stages = json.loads(again.said)["stages"]
    done = {(line["source"], line["stage"]): line["done"] for line in stages}
    assert done == {
        **{(source, stage): 0 for source in SOURCES for stage in PER_SOURCE_STAGES},
        **{("all", stage): 0 for stage in GLOBAL_STAGES},
    }


def test_a_second_run_leaves_every_file_of_the_lake_as_it_was(demo: Demo, again: Demo) -> None:
    def lasting(lake: dict[str, Any]) -> dict[str, Any]:
        # Who wrote last is another; what was written isn't.
        return {path: content for path, content in lake.items() if not path.startswith("leases/")}

    before, after = lasting(demo.lake), lasting(again.lake)
    assert before.keys() == after.keys()
    assert [path for path in before if before[path] != after[path]] == []
    kinds = Counter(Path(path).suffix for path in after if path.startswith("mds/"))
    assert kinds[".mds"] == kinds[".parquet"] > 10


def test_nothing_unfinished_is_left(demo: Demo) -> None:
    lake = Lake(str(demo.home / "lake"))
    assert lake.store.list("chunks") == []
    for source in SOURCES:
        assert list(lance.dataset(lake.images_uri(source)).tags.list()) == ["published"]
        assert lance_table.holds(lake.images_uri(source)) == {}


def test_the_loader_sees_what_the_configuration_keeps(again: Demo) -> None:
    lake = Lake(str(again.home / "lake"))
    loaded = json.loads(again.said)["loaded"]
    config = load_training_config(lake.uri(lake.training_config_pointer("default")))
    lock = json.loads(Path(lake.uri(f"training_configs/{config.lock}/lock.json")).read_text())
    too_few = {(leaf.split("/")[0], leaf.split("/", 2)[2]) for leaf in lock["left_out"]}
    kept = {
        image_id
        for image_id, source, fate in planted_fates()
        if fate["fate"] == "train" and (source, fate["leaf"]) not in too_few
    }
    dataset = SkipDataset(streams=streams(config), **config.dataset_arguments)
    held = [dataset[number]["id"] for number in range(dataset.num_samples)]
    assert sorted(held) == sorted(kept)

    ids = loaded["ids"]
    assert len(set(ids)) == len(ids) == loaded["samples"]
    assert set(ids) <= kept
    # Streaming draws whole batches of each stream.
    size = config.batch_size
    assert loaded["batches"] == sum(one.samples // size for one in config.streams)
    assert loaded["samples"] == loaded["batches"] * size


def planted_fates() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yields image id, source and planted fate of each picture that has an id of its own."""
    planted = yaml.safe_load(check.PLANTED.read_text())
    for source, pictures in plant.pictures().items():
        for one in pictures:
            by_content = hashlib.sha256(one.data).hexdigest()[:24]
            key = one.name if source == "archive" else by_content
            yield f"{source}/{key}", source, planted[source][one.name]


def test_check_agrees_with_the_planted_fates(demo: Demo) -> None:
    answer = installed_prx(demo.home, "demo", "--check")
    assert answer.returncode == 0
    assert "every image of the demo met its planted fate" in answer.stdout


def test_check_names_the_image_that_met_another_fate(
    demo: Demo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    planted = tmp_path / "planted.yaml"
    text = check.PLANTED.read_text()
    right = "wall-clock: {fate: train, leaf: 1024/1.286"
    assert right in text
    planted.write_text(text.replace(right, "wall-clock: {fate: train, leaf: 512/1.286"))
    monkeypatch.setattr(check, "PLANTED", planted)
    for name in ("PRX_HOME", "DAGSTER_HOME"):
        monkeypatch.setenv(name, str(demo.home))

    assert main.run(["--home", str(demo.home), "demo", "--check"]) == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        "snapshots/wall-clock",
        "  planted: fate train, label visual, leaf 512/1.286",
        "  found:   fate train, label visual, leaf 1024/1.286",
    ]
