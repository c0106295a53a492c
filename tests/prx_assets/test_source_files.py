"""Reporting a source's files, and forgetting a source with all its marks."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from prx_assets.partitions import SOURCES_NAME
from prx_assets.source_files import forget_source, report_source_files, source_files
from prx_resources.errors import BusyError
from tests.prx_assets.platform_world import World


def reported(instance: dg.DagsterInstance, source: str) -> list[str]:
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=source_files.key, asset_partitions=[source]), limit=10
    ).records
    found = [record.asset_materialization for record in records]
    return [(one.tags or {})["dagster/data_version"] for one in found if one is not None]


def test_only_a_change_is_reported(instance: dg.DagsterInstance) -> None:
    assert report_source_files(instance, "birds", "a", 1)
    assert not report_source_files(instance, "birds", "a", 1)
    assert report_source_files(instance, "cats", "a", 1)
    assert report_source_files(instance, "birds", "b", 2)
    assert report_source_files(instance, "birds", "a", 1)
    assert reported(instance, "birds") == ["a", "b", "a"]
    assert reported(instance, "cats") == ["a"]
    assert set(instance.get_dynamic_partitions(SOURCES_NAME)) == {"birds", "cats"}


def test_a_forgotten_source_starts_anew_and_others_stay(
    prx_home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(prx_home, instance, monkeypatch)
    world.add_source("birds")
    world.add_source("cats")
    world.bad.add(("captions", "birds"))
    world.settle()
    world.bad.clear()

    world.catalog.remove("birds")
    assert forget_source(instance, "birds") == 1
    assert instance.get_dynamic_partitions(SOURCES_NAME) == ["cats"]
    made = instance.get_materialized_partitions(dg.AssetKey("raw_images"))
    assert made == {"cats"}
    assert world.tick(minutes=60) == set()

    world.add_source("birds")
    requested = world.tick()
    assert {source for _, source in requested} == {"birds"}
    assert ("raw_images", "birds") in requested
    world.run(requested)
    world.settle()
    assert "birds" in instance.get_materialized_partitions(dg.AssetKey("mds_shards"))


def test_a_source_at_work_is_not_forgotten(instance: dg.DagsterInstance) -> None:
    report_source_files(instance, "birds", "a", 1)
    instance.create_run_for_job(
        dg.GraphDefinition(name="work", node_defs=[]).to_job(),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": "birds"},
    )
    with pytest.raises(BusyError, match="isn't finished"):
        forget_source(instance, "birds")
    assert instance.get_dynamic_partitions(SOURCES_NAME) == ["birds"]
