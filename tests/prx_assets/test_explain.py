import pytest

from prx_assets import explain
from prx_assets.jobs import GLOBAL_STAGES, PER_SOURCE_STAGES
from prx_resources.contract import ALL_SOURCES
from tests.prx_assets.platform_world import World


@pytest.fixture
def world(prx_home, instance, monkeypatch):
    return World(prx_home, instance, monkeypatch)


def states(world, sources=("cats", "dogs"), off=()):
    cells = explain.matrix(world.defs, world.instance, sources, off)
    return {(cell.stage, cell.source): cell.state for cell in cells}


def everything(sources):
    return {(stage, source) for source in sources for stage in PER_SOURCE_STAGES} | {
        (stage, None) for stage in GLOBAL_STAGES
    }


def test_nothing_made(world):
    world.add_source("cats")
    world.add_source("dogs")
    found = states(world)
    assert found["raw_images", "cats"] == "missing"
    assert found["captions", "cats"] == "blocked"
    assert found["duplicates", ALL_SOURCES] == "blocked"


def test_all_made(world):
    world.add_source("cats")
    world.run(everything(["cats"]))
    assert set(states(world, ["cats"]).values()) == {"done"}


def test_a_failed_stage_blocks_what_comes_after_it_in_its_source_only(world):
    world.add_source("cats")
    world.add_source("dogs")
    world.broken.add(("captions", "cats"))
    world.run(everything(["cats", "dogs"]))
    found = states(world)
    assert found["captions", "cats"] == "failed"
    assert found["perceptual_hashes", "cats"] == "done"
    assert found["caption_labels", "cats"] == "blocked"
    assert {found[stage, "dogs"] for stage in PER_SOURCE_STAGES} == {"done"}


def test_a_stage_that_a_failed_run_never_came_to_is_not_called_failed(world):
    def interrupt():
        raise KeyboardInterrupt

    world.add_source("cats")
    world.run({("raw_images", "cats"), ("compacted_images", "cats")})
    world.meanwhile["captions"] = interrupt
    world.run({(stage, "cats") for stage in PER_SOURCE_STAGES[2:]})
    found = states(world, ["cats"])
    assert found["captions", "cats"] == "failed"
    assert found["caption_labels", "cats"] == "blocked"
    started = [spec.stage for spec in world.launched]
    others = [stage for stage in ("source_profile", "search_index") if stage not in started]
    assert {found[stage, "cats"] for stage in others} == {"missing"}


def test_a_failed_global_stage_says_so_until_it_is_made(world):
    world.add_source("cats")
    world.broken.add(("duplicates", None))
    world.run(everything(["cats"]))
    assert states(world, ["cats"])["duplicates", ALL_SOURCES] == "failed"
    world.broken.clear()
    world.run({("duplicates", None)})
    assert states(world, ["cats"])["duplicates", ALL_SOURCES] == "done"


def test_new_files_make_the_source_stale_and_no_other(world):
    world.add_source("cats")
    world.add_source("dogs")
    world.run(everything(["cats", "dogs"]))
    world.files("cats", "v2")
    found = states(world)
    assert found["raw_images", "cats"] == "stale"
    assert {found[stage, "dogs"] for stage in PER_SOURCE_STAGES} == {"done"}


def test_a_due_stage_of_a_lane_that_is_off_waits(world):
    world.add_source("cats")
    world.run({("raw_images", "cats"), ("compacted_images", "cats")})
    assert states(world, ["cats"], off=("captions",))["captions", "cats"] == "waiting"
    assert states(world, ["cats"])["captions", "cats"] == "missing"


def test_the_next_command_mends_what_failed_first(world):
    world.add_source("cats")
    world.broken.add(("captions", "cats"))
    world.run(everything(["cats"]))
    cells = explain.matrix(world.defs, world.instance, ["cats"])
    assert (
        explain.next_command(cells, ["cats"]) == "prx materialize captions --source cats --failed"
    )
    assert explain.next_command([], []) == "prx source add NAME --folder PATH"


def test_while_a_run_is_at_it(world):
    seen = {}
    world.add_source("cats")
    world.meanwhile["captions"] = lambda: seen.update(states(world, ["cats"]))
    world.run(everything(["cats"]))
    assert seen["captions", "cats"] == "running"
    assert seen["duplicates", ALL_SOURCES] != "running"
