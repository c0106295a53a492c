from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prx_assets.skip_lists import job as job_module
from prx_assets.skip_lists.compile import Decisions
from prx_assets.skip_lists.publish import current, read_list, read_reasons
from prx_resources import takedowns
from prx_resources.errors import ConflictError, InvariantError, ManifestError
from prx_resources.object_store import latest_pointer
from prx_resources.takedowns import Takedown
from tests.prx_assets.trainable import TinyLake, picture

NAMES = [f"a/{number}" for number in range(30)]


@pytest.fixture
def tiny(tmp_path: Path) -> TinyLake:
    made = TinyLake(tmp_path)
    made.put(*map(picture, [*NAMES, "b/x"]), groups=[["a/7", "b/x"]])
    made.export(NAMES)
    made.export(["b/x"])
    return made


def why(tiny: TinyLake, profile: str = "default") -> dict[str, str]:
    rows: list[dict[str, Any]] = read_reasons(tiny.lake, profile).to_pylist()
    return {row["image_id"]: row["reasons"] for row in rows}


def test_leaves_a_list_bound_to_every_live_shard(tiny: TinyLake) -> None:
    result = tiny.compile_lists()
    assert (result.rows_in, result.rows_out, result.set_aside) == (31, 30, {"duplicate": 1})
    assert all(check.passed for check in result.checks if check.name != "keeps_samples")
    made = read_list(tiny.lake, current(tiny.lake, "default")["list"])
    assert sum(shard.samples for shard in made.shards) == 31
    assert len(made.shards) > 2
    assert why(tiny) == {"b/x": "duplicate"}


def test_says_which_source_keeps_nothing(tiny: TinyLake) -> None:
    (check,) = (c for c in tiny.compile_lists().checks if c.name == "keeps_samples")
    assert (check.passed, check.warn) == (False, True)
    assert "b (default)" in check.description


def test_a_second_run_writes_nothing(tiny: TinyLake) -> None:
    first = tiny.compile_lists()
    before = tiny.files()
    again = tiny.compile_lists()
    assert again.data_version == first.data_version
    assert (first.done, again.done) == (31, 0)
    assert tiny.files() == before


def test_a_new_part_makes_a_new_list_and_leaves_the_old_one(tiny: TinyLake) -> None:
    first = tiny.compile_lists()
    old = current(tiny.lake, "default")["list"]
    tiny.put(*map(picture, [*NAMES, "b/x", "a/new"]))
    tiny.export(["a/new"])
    assert tiny.compile_lists().data_version != first.data_version
    known = {shard.basename for shard in read_list(tiny.lake, old).shards}
    now = read_list(tiny.lake, current(tiny.lake, "default")["list"])
    assert {shard.basename for shard in now.shards} - known == {"p0001/shard.00000.mds"}


def test_only_a_new_reason_moves_the_pointer_but_not_the_list(tiny: TinyLake) -> None:
    first = tiny.compile_lists()
    tiny.put(*map(picture, NAMES), picture("b/x", label="text"))
    second = tiny.compile_lists()
    assert second.data_version == first.data_version
    assert why(tiny) == {"b/x": "text"}


def test_every_profile_gets_its_list(tiny: TinyLake) -> None:
    profiles = {"default": {}, "all-copies": {"allow": ["duplicate"]}}
    tiny.compile_lists(profiles=profiles)
    assert why(tiny, "all-copies") == {}
    assert why(tiny) == {"b/x": "duplicate"}


def test_a_profile_that_allows_takedowns_is_refused(tiny: TinyLake) -> None:
    with pytest.raises(ManifestError, match="can't allow takedown"):
        tiny.compile_lists(profiles={"default": {"allow": ["takedown"]}})
    assert tiny.files() == {}


def test_a_takedown_survives_the_removal_of_its_source(tiny: TinyLake) -> None:
    row = picture("b/x")
    request = Takedown("b/x", "b", row["content_sha256"], row["phash"], row["signature"])
    takedowns.put(tiny.lake.takedowns_uri, [request])
    tiny.compile_lists()
    assert why(tiny) == {"a/7": "takedown-twin", "b/x": "takedown"}
    # Without b, nothing but the request's own hash still leads to its twin.
    tiny.put(
        *(picture(name, **({"phash": row["phash"]} if name == "a/7" else {})) for name in NAMES)
    )
    tiny.compile_lists(sources=["a"])
    assert why(tiny) == {"a/7": "takedown-twin"}


def test_without_duplicates_or_tables_everything_is_skipped(tmp_path: Path) -> None:
    tiny = TinyLake(tmp_path)
    tiny.export(["a/0", "a/1"])
    result = tiny.compile_lists()
    assert (result.rows_in, result.set_aside) == (2, {"vanished": 2})


def test_nothing_exported_gives_an_empty_list(tmp_path: Path) -> None:
    result = TinyLake(tmp_path).compile_lists()
    assert (result.rows_in, result.rows_out, result.set_aside) == (0, 0, {})


def test_rows_that_arent_eligible_any_more_vanish(tiny: TinyLake) -> None:
    rows = [picture(name) for name in [*NAMES, "b/x"]]
    rows[3]["set_aside"] = "decode"
    rows[4]["pixels"] = 1000
    tiny.put(*rows)
    tiny.compile_lists()
    assert why(tiny) == {"a/3": "vanished", "a/4": "vanished"}


def test_people_skip_with_text_files(tiny: TinyLake) -> None:
    june = b"# watermark of a competitor\na/2  # this one\n\na/5\n"
    july = "a/6\r\na/8\r\n".encode("utf-8-sig")  # from a Windows editor
    for name, text in (("june", june), ("july", july)):
        tiny.lake.store.put_if_absent(f"{tiny.lake.manual_skips_prefix}/{name}.txt", text)
    tiny.compile_lists()
    manual = dict.fromkeys(["a/2", "a/5", "a/6", "a/8"], "manual")
    assert why(tiny) == {**manual, "b/x": "duplicate"}


def test_a_list_that_would_keep_an_undecided_sample_isnt_published(
    tiny: TinyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.put(*map(picture, NAMES), picture("b/x", label=None))
    right = Decisions.masks
    monkeypatch.setattr(job_module.Decisions, "masks", lambda self, policy: right(self, policy) * 0)
    with pytest.raises(InvariantError, match="would keep"):
        tiny.compile_lists()
    assert tiny.files() == {}


def test_a_job_that_lost_its_lease_points_to_no_list(
    tiny: TinyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.compile_lists()
    before = current(tiny.lake, "default")
    tiny.put(*map(picture, NAMES), picture("b/x", label="text"))
    real = job_module.bind

    def late(*arguments: Any) -> Any:
        # Whatever held the job up for so long, another has compiled a newer list.
        latest = latest_pointer(tiny.lake.store, "leases/skip_lists")
        assert latest is not None
        tiny.lake.store.put_if_absent(f"leases/skip_lists/{latest[0] + 1:06d}.json", latest[1])
        return real(*arguments)

    monkeypatch.setattr(job_module, "bind", late)
    with pytest.raises(ConflictError, match="was lost"):
        tiny.compile_lists()
    assert current(tiny.lake, "default") == before
