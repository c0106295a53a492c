"""`source_files_sensor` on real folders, the lanes' defaults, and the nightly schedule."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from prx_assets import sensors
from prx_assets.schedules import nightly_compaction
from prx_assets.sensors import lanes, source_files_sensor
from prx_assets.source_files import source_files
from prx_assets.stage_asset import Platform
from prx_resources.catalog import Catalog, SourceManifest
from prx_resources.lake import Lake
from prx_resources.settings import Settings


def add(home: Path, name: str) -> Path:
    folder = home / "data" / name
    folder.mkdir(parents=True)
    (folder / "one.jpg").write_bytes(b"one")
    Catalog(Lake(str(home / "lake"))).add(SourceManifest(name=name, kind="folder", uri=str(folder)))
    return folder


def tick(home: Path, instance: dg.DagsterInstance, cursor: str | None = None) -> tuple[str, str]:
    context = dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"platform": Platform(home=str(home))}
    )
    said = source_files_sensor(context)
    assert isinstance(said, dg.SkipReason)
    return said.skip_message or "", context.cursor or ""


def reports(instance: dg.DagsterInstance) -> list[str]:
    found = instance.fetch_materializations(source_files.key, limit=100).records
    return sorted(record.partition_key or "" for record in found)


def test_an_empty_catalog_is_fine(prx_home: Path, instance: dg.DagsterInstance) -> None:
    assert tick(prx_home, instance) == ("0 of 0 sources listed; changed: none", "")


def test_only_changed_sources_are_reported(prx_home: Path, instance: dg.DagsterInstance) -> None:
    birds = add(prx_home, "birds")
    add(prx_home, "cats")
    assert "changed: birds, cats" in tick(prx_home, instance)[0]
    assert set(instance.get_dynamic_partitions("source")) == {"birds", "cats"}
    assert "changed: none" in tick(prx_home, instance)[0]
    (birds / "two.jpg").write_bytes(b"two")
    assert "changed: birds" in tick(prx_home, instance)[0]
    assert reports(instance) == ["birds", "birds", "cats"]


def test_one_source_that_cannot_be_listed_stops_no_other(
    prx_home: Path, instance: dg.DagsterInstance
) -> None:
    gone = add(prx_home, "birds")
    add(prx_home, "cats")
    add(prx_home, "dogs")
    (gone / "one.jpg").unlink()
    gone.rmdir()
    (prx_home / "lake/catalog/cats.yaml").write_text("name: cats\nknid: folder\n")
    said, _ = tick(prx_home, instance)
    assert "changed: dogs" in said
    assert "could not be listed (see the tick's log): birds, cats" in said
    assert reports(instance) == ["dogs"]


def test_a_slow_listing_goes_on_at_the_next_tick(
    prx_home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ants", "birds", "cats"):
        add(prx_home, name)
    monkeypatch.setattr(sensors, "_BUDGET_S", -1)
    said, cursor = tick(prx_home, instance)
    assert (said, cursor) == ("1 of 3 sources listed; changed: ants", "ants")
    said, cursor = tick(prx_home, instance, cursor)
    assert "changed: birds" in said
    said, cursor = tick(prx_home, instance, cursor)
    assert "changed: cats" in said
    said, cursor = tick(prx_home, instance, cursor)
    assert (said, cursor) == ("1 of 3 sources listed; changed: none", "ants")


def test_the_paid_lane_is_off_and_says_what_it_spends(prx_home: Path) -> None:
    (prx_home / "settings.yaml").write_text(
        "captions: {engine: 'mine.engines:Captioner'}\n"
        "costs: {gpu_hour_usd: 2, captions_per_second: 20}\n"
    )
    cpu, paid = lanes(Settings.load(prx_home))
    assert (cpu.name, cpu.default_status) == ("cpu_stages", dg.DefaultSensorStatus.RUNNING)
    assert (paid.name, paid.default_status) == ("paid_stages", dg.DefaultSensorStatus.STOPPED)
    assert "captions: a million rows take 13.9 GPU-hours, $28" in (paid.description or "")
    assert "caption_labels" not in (paid.description or "")


def test_with_built_in_engines_the_paid_lane_spends_nothing(prx_home: Path) -> None:
    _, paid = lanes(Settings.load(prx_home))
    assert "Spends nothing now" in (paid.description or "")


def test_every_source_with_a_table_is_compacted_at_night() -> None:
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("source", ["birds", "cats"])
        instance.report_runless_asset_event(dg.AssetMaterialization("raw_images", partition="cats"))
        requests = list(nightly_compaction(dg.build_schedule_context(instance=instance)))
    assert [request.partition_key for request in requests] == ["cats"]
