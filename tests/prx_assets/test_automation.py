"""What the lanes request, tick by tick, over the real definitions and conditions."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, InstigatorType
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from prx_assets.automation import CPU_LANE, PAID_LANE, cpu_stages, lanes_off, paid_stages
from prx_assets.jobs import GLOBAL_STAGES, PER_SOURCE_STAGES
from prx_assets.takedown_requests.asset import report_takedowns
from prx_resources.settings import Settings
from tests.prx_assets.platform_world import World


@pytest.fixture
def world(prx_home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(prx_home, instance, monkeypatch)


def all_stages(source: str) -> set[tuple[str, str | None]]:
    return {(stage, source) for stage in PER_SOURCE_STAGES}


def test_nothing_is_requested_while_there_is_no_source(world: World) -> None:
    assert world.tick() == set()
    assert world.tick(minutes=60) == set()


def test_a_new_source_comes_as_one_run_and_then_rests(world: World) -> None:
    world.tick()
    world.add_source("birds")
    requested = world.tick()
    assert requested >= all_stages("birds")
    [run] = [r for key, r in world.run(requested).items() if key == "birds"]
    assert run.success
    world.settle()
    assert world.tick(minutes=60) == set()


def test_two_sources_that_land_together_are_requested_once(world: World) -> None:
    world.add_source("birds")
    world.add_source("cats")
    world.broken.add(("captions", "birds"))
    requested = world.tick()
    assert {source for _, source in requested if source} == {"birds", "cats"}
    # The runs come one after the other: what the first one made isn't what was made last.
    world.run(requested)
    assert {stage for stage, _ in world.tick(minutes=10)} <= set(GLOBAL_STAGES)


def test_sources_from_before_the_first_tick_are_requested(world: World) -> None:
    world.add_source("birds")
    world.add_source("cats")
    assert world.tick() >= all_stages("birds") | all_stages("cats")


def test_one_new_file_requests_exactly_its_source(world: World) -> None:
    world.add_source("birds")
    world.add_source("cats")
    world.settle()
    assert world.files("birds", "v2")
    assert world.tick() == {("raw_images", "birds")}
    world.run({("raw_images", "birds")})
    assert world.tick() == {("compacted_images", "birds")}
    world.run({("compacted_images", "birds")})
    followers = {"source_profile", "search_index", "perceptual_hashes", "captions"}
    assert world.tick() == {(stage, "birds") for stage in followers}


def test_the_same_files_again_are_not_even_reported(world: World) -> None:
    world.add_source("birds")
    world.settle()
    assert not world.files("birds", "v1")
    assert world.tick(minutes=60) == set()


def test_an_identical_rerun_requests_nothing(world: World) -> None:
    world.add_source("birds")
    world.settle()
    world.run(all_stages("birds") | {(stage, None) for stage in GLOBAL_STAGES})
    assert world.tick(minutes=60) == set()


def test_a_compaction_requests_nothing(world: World) -> None:
    world.add_source("birds")
    world.settle()
    world.run({("compacted_images", "birds")})
    assert world.tick(minutes=60) == set()


def test_a_failed_partition_waits_for_a_person_or_another_input(world: World) -> None:
    world.add_source("birds")
    world.broken.add(("captions", "birds"))
    requested = world.tick()
    assert not world.run(requested)["birds"].success
    world.broken.clear()
    for _ in range(3):
        later = world.tick(minutes=10)
        assert not {("captions", "birds"), ("mds_shards", "birds")} & later
        world.run(later)
    world.files("birds", "v2")
    world.settle()
    assert world.tick(minutes=60) == set()
    assert {spec.stage for spec in world.launched} >= {"captions", "mds_shards", "caption_labels"}


def test_a_failed_blocking_check_holds_back_its_source_only(world: World) -> None:
    world.add_source("birds")
    world.add_source("cats")
    world.settle()
    world.bad.add(("compacted_images", "birds"))
    world.files("birds", "v2")
    world.files("cats", "v2")
    for _ in range(2):
        world.run(world.tick())
    followers = {"source_profile", "search_index", "perceptual_hashes", "captions"}
    assert world.tick() == {(stage, "cats") for stage in followers}


def test_another_sources_success_does_not_release_a_failed_check(world: World) -> None:
    world.add_source("birds")
    world.settle()
    world.bad.add(("compacted_images", "birds"))
    world.files("birds", "v2")
    for _ in range(2):
        world.run(world.tick())
    world.add_source("cats")
    world.run(world.tick())
    requested = {(stage, source) for stage, source in world.tick() if source == "birds"}
    assert requested == set()


def test_a_mended_source_is_released(world: World) -> None:
    world.add_source("birds")
    world.bad.add(("compacted_images", "birds"))
    world.run(world.tick())
    assert not {stage for stage, source in world.tick() if source == "birds"}
    world.bad.clear()
    world.files("birds", "v2")
    world.settle()
    assert "training_config" in {spec.stage for spec in world.launched}


def test_a_global_stage_runs_every_ten_minutes_however_many_sources_land(world: World) -> None:
    for number in range(20):
        world.materialized("perceptual_hashes", f"source-{number}")
        world.run(world.tick(minutes=2, stages=["duplicates"]))
    assert [spec.stage for spec in world.launched] == ["duplicates"] * 5
    world.materialized("perceptual_hashes", "the-last")
    assert world.tick(minutes=2, stages=["duplicates"]) == set()
    assert world.tick(minutes=8, stages=["duplicates"]) == {("duplicates", None)}


def test_rows_that_arrive_while_a_stage_runs_are_not_forgotten(world: World) -> None:
    world.add_source("birds")
    world.settle()
    world.files("birds", "v2")
    for _ in range(2):
        world.run(world.tick())
    assert ("captions", "birds") in world.tick()

    def more_files_arrive() -> None:
        world.files("birds", "v3")
        for stage in ("raw_images", "compacted_images"):
            assert ("captions", "birds") not in world.tick()
            world.run({(stage, "birds")})
        assert ("captions", "birds") not in world.tick()

    world.meanwhile["captions"] = more_files_arrive
    world.run({("captions", "birds")})
    assert ("captions", "birds") in world.tick()
    world.settle()
    assert world.tick(minutes=60) == set()


@pytest.mark.parametrize("ticks", [0, 1])
def test_a_source_that_lands_while_a_global_stage_runs_is_not_forgotten(
    world: World, ticks: int
) -> None:
    only = ["duplicates"]
    world.materialized("perceptual_hashes", "birds")

    def another_source_lands() -> None:
        world.materialized("perceptual_hashes", "cats")
        for _ in range(ticks):
            assert world.tick(stages=only) == set()

    world.meanwhile["duplicates"] = another_source_lands
    world.run(world.tick(stages=only))
    assert world.tick(stages=only) == set()
    assert world.tick(minutes=10, stages=only) == {("duplicates", None)}
    world.run({("duplicates", None)})
    assert world.tick(minutes=60, stages=only) == set()


def test_a_takedown_compiles_the_lists_again_and_nothing_else(world: World) -> None:
    world.add_source("birds")
    world.settle()
    assert report_takedowns(world.instance, "one request")
    assert world.tick(minutes=11) == {("skip_lists", None)}


def test_a_global_failure_is_not_asked_again_by_itself(world: World) -> None:
    world.add_source("birds")
    world.broken.add(("duplicates", None))
    for _ in range(4):
        world.run(world.tick(minutes=10))
    assert sum(spec.stage == "duplicates" for spec in world.launched) == 1


def test_paid_stages_leave_the_cpu_lane(prx_home: Path) -> None:
    (prx_home / "settings.yaml").write_text("captions: {engine: 'mine.engines:Captioner'}\n")
    settings = Settings.load(prx_home)
    assert paid_stages(settings) == ("captions",)
    assert "captions" not in cpu_stages(settings)
    assert {*cpu_stages(settings), "captions"} == {*PER_SOURCE_STAGES, *GLOBAL_STAGES}


def test_the_cpu_lane_leaves_paid_stages_and_what_follows_alone(
    prx_home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prx_home / "settings.yaml").write_text("captions: {engine: 'mine.engines:Captioner'}\n")
    world = World(prx_home, instance, monkeypatch)
    world.add_source("birds")
    stages = {stage for stage, source in world.tick() if source == "birds"}
    assert stages == set(PER_SOURCE_STAGES) - {"captions", "caption_labels", "mds_shards"}


def test_lanes_off_names_the_stages_that_wait_for_a_person(prx_home: Path) -> None:
    settings = Settings.load(prx_home)
    (prx_home / "settings.yaml").write_text("labels: {engine: 'mine.engines:Labeller'}\n")
    paid = Settings.load(prx_home)
    with dg.instance_for_test() as instance:
        assert lanes_off(instance, settings) == ()
        assert lanes_off(instance, paid) == ("caption_labels",)
        switch(instance, PAID_LANE, InstigatorStatus.RUNNING)
        assert lanes_off(instance, paid) == ()
        switch(instance, CPU_LANE, InstigatorStatus.STOPPED)
        assert set(lanes_off(instance, paid)) == set(cpu_stages(paid))


def switch(instance: dg.DagsterInstance, sensor: str, status: InstigatorStatus) -> None:
    location = InProcessCodeLocationOrigin(
        LoadableTargetOrigin(executable_path="python", module_name="prx_assets.definitions"),
        location_name="prx",
    )
    origin = RemoteInstigatorOrigin(
        repository_origin=RemoteRepositoryOrigin(location, "__repository__"),
        instigator_name=sensor,
    )
    instance.add_instigator_state(InstigatorState(origin, InstigatorType.SENSOR, status))
