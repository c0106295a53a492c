import pytest

from prx_assets.demo.plant import PHOTOS
from prx_assets.jobs import GLOBAL_STAGES, PER_SOURCE_STAGES
from tests.prx_assets.platform_world import World


@pytest.fixture
def world(prx, monkeypatch):
    """Two catalogued sources, and jobs that only compute a data version."""
    world = World(prx.home, None, monkeypatch)
    for name in ("cats", "dogs"):
        assert prx("source", "add", name, "--folder", PHOTOS).code == 0
        world._digests[name] = name
    return world


def launched(world):
    found = {(spec.stage, spec.source) for spec in world.launched}
    world.launched.clear()
    return found


def test_everything_runs_per_source_and_then_the_global_stages(prx, world):
    answer = prx("materialize", "--json")
    assert answer.code == 0
    stages = [spec.stage for spec in world.launched]
    assert stages[-len(GLOBAL_STAGES) :] == list(GLOBAL_STAGES)
    assert launched(world) == {
        *((stage, source) for stage in PER_SOURCE_STAGES for source in ("cats", "dogs")),
        *((stage, "all") for stage in GLOBAL_STAGES),
    }
    assert {line["stage"] for line in answer.json} == {*PER_SOURCE_STAGES, *GLOBAL_STAGES}


def test_one_source_leaves_the_others_and_the_global_stages_alone(prx, world):
    assert prx("materialize", "-s", "cats").code == 0
    assert launched(world) == {(stage, "cats") for stage in PER_SOURCE_STAGES}


def test_named_assets_and_the_launchpads_config(prx, world):
    prx("materialize", "raw_images", "compacted_images", "-s", "cats")
    launched(world)
    prx("materialize", "captions", "-s", "cats", "--redo", "--retry-failed", "decode")
    [spec] = world.launched
    assert (spec.stage, spec.redo, spec.retry_failed) == ("captions", True, ("decode",))


def test_missing_stale_and_failed_choose_what_runs(prx, world):
    prx("materialize", "-s", "cats")
    launched(world)
    prx("materialize", "--missing")
    assert launched(world) == {
        *((stage, "dogs") for stage in PER_SOURCE_STAGES),
        *((stage, "all") for stage in GLOBAL_STAGES),
    }
    assert prx("materialize", "--missing", "--stale").code == 2
    assert prx("materialize", "--stale", "--json").json == []
    assert launched(world) == set()


def test_a_failure_is_two_lines_and_other_sources_still_run(prx, world):
    world.broken.add(("captions", "cats"))
    answer = prx("materialize")
    answer.refused(1, "broken by the test (captions of cats, run ", "prx materialize captions")
    done = launched(world)
    assert ("mds_shards", "dogs") in done
    assert ("caption_labels", "cats") not in done
    assert ("skip_lists", "all") in done
    world.broken.clear()
    assert prx("materialize", "--failed").code == 0
    assert ("captions", "cats") in launched(world)
    assert prx("materialize", "--failed", "--json").json == []


def test_every_source_that_failed_is_named(prx, world):
    world.broken |= {("captions", "cats"), ("raw_images", "dogs")}
    answer = prx("materialize", *PER_SOURCE_STAGES)
    assert answer.code == 1
    *more, what, fix = answer.err.strip().splitlines()
    assert what.startswith("error: ")
    assert "(captions of cats, run " in what
    assert fix.endswith("prx materialize captions --source cats")
    also = more.index(next(line for line in more if line.startswith("also failed: ")))
    assert "(raw_images of dogs, run " in more[also]
    assert more[also + 1].endswith("prx materialize raw_images --source dogs")


def test_new_files_are_noticed_without_a_sensor(prx, world, tmp_path):
    place = tmp_path / "birds"
    place.mkdir()
    (place / "a.jpg").write_bytes((PHOTOS / "bark.jpg").read_bytes())
    prx("source", "add", "birds", "--folder", place)
    world._digests["birds"] = "v1"
    prx("materialize", "-s", "birds")
    launched(world)
    (place / "b.jpg").write_bytes((PHOTOS / "dragonfly.jpg").read_bytes())
    world._digests["birds"] = "v2"
    prx("materialize", "-s", "birds", "--stale")
    assert ("raw_images", "birds") in launched(world)


@pytest.mark.parametrize(
    "chosen",
    [
        ("captions", "raw_images"),
        ("mds_shards", "raw_images"),
        ("caption_labels", "compacted_images", "raw_images"),
        ("training_config", "duplicates", "raw_images"),
    ],
)
def test_stages_run_upstream_first_also_with_a_gap_between_them(prx, world, chosen):
    prx("materialize")
    launched(world)
    assert prx("materialize", *chosen, "-s", "cats").code == 0
    order = [*PER_SOURCE_STAGES, *GLOBAL_STAGES]
    assert [spec.stage for spec in world.launched] == sorted(chosen, key=order.index)


def test_a_refusal_of_ours_comes_without_its_class(prx, world, tmp_path):
    (prx.home / "lake" / "catalog" / "cats.yaml").write_text("name: cats\nkind: folder\n")
    answer = prx("materialize", "raw_images", "-s", "dogs")
    assert answer.code == 0
    (prx.home / "lake" / "catalog" / "dogs.yaml").write_text("name: dogs\nkind: foldr\nuri: /x\n")
    answer = prx("materialize", "raw_images", "-s", "dogs")
    assert answer.err.startswith("error: `kind`")
