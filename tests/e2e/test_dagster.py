"""Stages in real Dagster runs: partitions, checks, and failures that leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml

from prx_assets.definitions import build
from prx_resources import lance_table
from prx_resources.lake import Lake
from prx_resources.settings import Settings

from .world import ENGINE, files, picture, put

SOURCES = ("cats", "dogs")


class Platform:
    """Two sources in a PRX_HOME with a Dagster instance on disk."""

    def __init__(self, home: Path, instance: dg.DagsterInstance) -> None:
        self.home = home
        self.instance = instance
        self.lake = Lake(str(home / "lake"))

    def materialize(self, source: str, *stages: str) -> dg.ExecuteInProcessResult:
        """Runs stages for a source as `prx materialize` does."""
        defs = build(self.home, Settings.load(self.home))
        return defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            partition_key=source,
            asset_selection=[dg.AssetKey(stage) for stage in stages],
            raise_on_error=False,
        )

    def made(self, stage: str) -> set[str]:
        """Returns the partitions that the stage was materialized for."""
        return self.instance.get_materialized_partitions(dg.AssetKey(stage))

    def published(self, source: str) -> int | None:
        return lance_table.published_version(self.lake.images_uri(source))

    def checks(self, stage: str, name: str) -> dict[str | None, bool]:
        """Returns whether each partition's latest evaluation of a check passed."""
        records = self.instance.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(dg.AssetKey(stage), name), limit=100
        )
        found: dict[str | None, bool] = {}
        for record in records:  # newest first; a failed step leaves a planned one
            if record.status.value in ("SUCCEEDED", "FAILED"):
                found.setdefault(record.partition, record.status.value == "SUCCEEDED")
        return found


@pytest.fixture
def platform(home: Path, prx: Callable[..., int], tmp_path: Path) -> Iterator[Platform]:
    engine = tmp_path / "engine"
    engine.mkdir()
    settings = {"captions": {"engine": ENGINE, "model": str(engine)}, "labels": {"engine": "rules"}}
    (home / "settings.yaml").write_text(yaml.safe_dump(settings))
    for number, source in enumerate(SOURCES):
        put(tmp_path / source / "a.parquet", {f"{source}-a": picture(number)})
        assert prx("source", "add", source, "--parquet", str(tmp_path / source), "--id", "id") == 0
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        yield Platform(home, instance)


def test_results_land_on_their_partition_and_failures_leave_nothing_behind(
    platform: Platform, tmp_path: Path
) -> None:
    cats = platform.materialize("cats", "raw_images", "compacted_images", "captions", "mds_shards")
    assert cats.success
    assert platform.materialize("dogs", "raw_images").success
    [made] = cats.asset_materializations_for_node("raw_images")
    assert made.partition == "cats"
    assert platform.made("raw_images") == set(SOURCES)
    assert platform.made("captions") == {"cats"}
    assert platform.checks("raw_images", "files_accounted") == dict.fromkeys(SOURCES, True)
    assert platform.checks("captions", "rows_accounted") == {"cats": True}

    # A job that raises: its engine isn't there.
    published, before = platform.published("dogs"), files(platform.home / "lake" / "images")
    settings = yaml.safe_load((platform.home / "settings.yaml").read_text())
    settings["captions"]["engine"] = "no_such_module:Engine"
    (platform.home / "settings.yaml").write_text(yaml.safe_dump(settings))
    failed = platform.materialize("dogs", "captions")
    assert not failed.success
    [event] = [one for one in failed.all_events if one.is_step_failure]
    assert "no_such_module" in str(event.step_failure_data.user_failure_data.description)
    assert platform.published("dogs") == published
    assert files(platform.home / "lake" / "images") == before
    assert platform.made("captions") == {"cats"}
    assert platform.checks("captions", "rows_accounted") == {"cats": True}

    # A blocking check that fails, of one source.
    [shard] = (platform.home / "lake" / "mds" / "cats").rglob("*.mds")
    shard.write_bytes(shard.read_bytes()[:-1])
    assert not platform.materialize("cats", "mds_shards").success
    assert platform.materialize("dogs", "mds_shards").success
    assert platform.checks("mds_shards", "shards_verified") == {"cats": False, "dogs": True}
