"""The code location: what it shows, how light it loads, and what each asset hands to its job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from prx_assets import stage_asset
from prx_assets.definitions import build
from prx_assets.jobs import GLOBAL_STAGES, PER_SOURCE_STAGES
from prx_assets.partitions import SOURCES
from prx_resources.catalog import Catalog, SourceManifest
from prx_resources.contract import ALL_SOURCES, JobSpec
from prx_resources.environment import child_environment
from prx_resources.lake import Lake
from prx_resources.settings import Settings

EDGES = {
    "source_files": set(),
    "raw_images": {"source_files"},
    "compacted_images": {"raw_images"},
    "source_profile": {"compacted_images"},
    "search_index": {"compacted_images"},
    "perceptual_hashes": {"compacted_images"},
    "captions": {"compacted_images"},
    "caption_labels": {"captions"},
    "mds_shards": {"captions"},
    "duplicates": {"perceptual_hashes"},
    "takedown_requests": set(),
    "skip_lists": {"caption_labels", "duplicates", "mds_shards", "takedown_requests"},
    "training_config": {"mds_shards", "skip_lists"},
}
HEAVY = {"ray", "lance", "torch", "cv2", "scipy", "pyarrow", "streaming", "matplotlib"}


@pytest.fixture
def defs(prx_home: Path) -> dg.Definitions:
    return build(prx_home, Settings.load(prx_home))


def test_assets_edges_and_partitions(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    edges = {
        node.key.to_user_string(): {key.to_user_string() for key in node.parent_keys}
        for node in graph.asset_nodes
    }
    assert edges == EDGES
    per_source = {n.key.to_user_string() for n in graph.asset_nodes if n.partitions_def == SOURCES}
    assert per_source == {"source_files", *PER_SOURCE_STAGES}


def test_every_asset_is_presented(defs: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(defs)
    for spec in defs.resolve_all_asset_specs():
        name = spec.key.to_user_string()
        assert len(spec.description or "") > 200, name
        assert spec.group_name in {"ingest", "explore", "features", "export", "training"}, name
        assert spec.owners, name
        assert spec.kinds, name
        if EDGES[name]:
            assert spec.code_version, name


def test_checks_of_a_source_have_its_partitions(defs: dg.Definitions) -> None:
    seen = 0
    for asset in defs.resolve_asset_graph().assets_defs:
        for check in asset.check_specs:
            seen += 1
            assert check.partitions_def == asset.partitions_def, check
            assert check.description
    assert seen > 20
    for stage in (*PER_SOURCE_STAGES, *GLOBAL_STAGES):
        keys = defs.resolve_asset_graph().get_check_keys_for_assets({dg.AssetKey(stage)})
        assert keys, f"{stage} has no check"


def test_jobs_select_their_stages(defs: dg.Definitions) -> None:
    def stages(job: str) -> set[str]:
        layer = defs.resolve_job_def(job).asset_layer
        return {key.to_user_string() for key in layer.selected_asset_keys}

    assert stages("refresh_source") == set(PER_SOURCE_STAGES)
    assert stages("refresh_global") == set(GLOBAL_STAGES)
    assert defs.resolve_job_def("refresh_source").partitions_def == SOURCES
    assert defs.resolve_job_def("refresh_global").partitions_def is None


def test_global_stages_run_one_at_a_time(defs: dg.Definitions) -> None:
    for stage in GLOBAL_STAGES:
        node = defs.resolve_assets_def(stage)
        assert node.op.pool == stage
    assert defs.resolve_assets_def("captions").op.pool is None


def test_the_code_location_loads_without_heavy_packages(prx_home: Path) -> None:
    code = (
        "import json, sys; import prx_assets.definitions as d;"
        " d.defs.get_repository_def(); print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=child_environment({"PRX_HOME": str(prx_home)}),
    )
    assert HEAVY.isdisjoint(json.loads(done.stdout))


def test_a_broken_settings_file_says_so_when_the_code_location_loads(prx_home: Path) -> None:
    (prx_home / "settings.yaml").write_text("captoins: {}\n")
    done = subprocess.run(
        [sys.executable, "-c", "import prx_assets.definitions"],
        capture_output=True,
        text=True,
        check=False,
        env=child_environment({"PRX_HOME": str(prx_home)}),
    )
    assert done.returncode
    assert "unknown key 'captoins'" in done.stderr
    assert "fix: did you mean 'captions'?" in done.stderr


def test_the_code_version_follows_the_identity_only(prx_home: Path) -> None:
    def versions(text: str) -> dict[str, str | None]:
        (prx_home / "settings.yaml").write_text(text)
        defs = build(prx_home, Settings.load(prx_home))
        return {
            spec.key.to_user_string(): spec.code_version for spec in defs.resolve_all_asset_specs()
        }

    before = versions("")
    assert versions("costs: {gpu_hour_usd: 3}\nmax_cost_per_run: 5\n") == before
    after = versions("captions: {prompt: Name it.}\n")
    assert {name for name in before if before[name] != after[name]} == {"captions"}


def test_steps_share_a_process_unless_settings_say_otherwise(prx_home: Path) -> None:
    (prx_home / "settings.yaml").write_text("executor: multiprocess\n")
    assert build(prx_home, Settings.load(prx_home)).executor is dg.multiprocess_executor
    (prx_home / "settings.yaml").write_text("")
    assert build(prx_home, Settings.load(prx_home)).executor is dg.in_process_executor


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[JobSpec]:
    found: list[JobSpec] = []

    def launch(context: dg.AssetExecutionContext, spec: JobSpec, _: Any) -> Any:
        found.append(spec)
        checks = [
            dg.AssetCheckResult(check_name=c.name, passed=True)
            for c in context.assets_def.check_specs
        ]
        return dg.MaterializeResult(metadata={"rows_in": 1}, check_results=checks)

    monkeypatch.setattr(stage_asset, "launch", launch)
    return found


def materialize(
    home: Path,
    instance: dg.DagsterInstance,
    stages: list[str],
    source: str | None,
    config: dict[str, Any] | None = None,
) -> dg.ExecuteInProcessResult:
    defs = build(home, Settings.load(home))
    if source:
        instance.add_dynamic_partitions("source", [source])
    return defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        partition_key=source,
        asset_selection=[dg.AssetKey(stage) for stage in stages],
        run_config={"ops": {stage: {"config": config or {}} for stage in stages}},
        raise_on_error=False,
    )


def add(home: Path, name: str = "birds", **fields: Any) -> None:
    manifest = SourceManifest(name=name, kind="folder", uri=f"/data/{name}", **fields)
    Catalog(Lake(str(home / "lake"))).add(manifest)


def test_every_stage_launches_a_job_that_fits_the_wire(
    prx_home: Path, instance: dg.DagsterInstance, launched: list[JobSpec]
) -> None:
    add(prx_home, priority=3, weight=2.0)
    assert materialize(prx_home, instance, list(PER_SOURCE_STAGES), "birds").success
    assert materialize(prx_home, instance, list(GLOBAL_STAGES), None).success
    assert {spec.stage for spec in launched} == {*PER_SOURCE_STAGES, *GLOBAL_STAGES}
    for spec in launched:
        assert spec.source == (ALL_SOURCES if spec.stage in GLOBAL_STAGES else "birds")
        assert spec.lake == str(prx_home / "lake")
        assert "code_version" in spec.ingredients
        again = JobSpec.from_json(json.loads(json.dumps(spec.to_json())))
        assert again.fingerprint == spec.fingerprint
        assert again.row_fp == spec.row_fp


def test_skip_lists_look_at_the_export_that_mds_shards_writes(
    prx_home: Path, instance: dg.DagsterInstance, launched: list[JobSpec]
) -> None:
    add(prx_home, "birds", overrides={"export": {"quality": 95}})
    add(prx_home, "cats")
    for source in ("birds", "cats"):
        materialize(prx_home, instance, ["mds_shards"], source)
    materialize(prx_home, instance, ["skip_lists"], None)
    birds, cats, lists = launched
    assert lists.params["exports"] == {"birds": birds.row_fp, "cats": cats.row_fp}
    assert birds.row_fp != cats.row_fp


def test_overrides_of_a_source_reach_its_job(
    prx_home: Path, instance: dg.DagsterInstance, launched: list[JobSpec]
) -> None:
    add(prx_home, overrides={"captions": {"prompt": "Name the bird."}})
    materialize(prx_home, instance, ["captions"], "birds")
    assert launched[0].params["prompt"] == "Name the bird."
    assert launched[0].ingredients["prompt"] == "Name the bird."


def test_the_launchpad_can_redo_and_tune_but_not_lift_the_cost_limit(
    prx_home: Path, instance: dg.DagsterInstance, launched: list[JobSpec]
) -> None:
    (prx_home / "settings.yaml").write_text(
        "captions: {engine: 'mine.engines:Captioner'}\nmax_cost_per_run: 5\n"
    )
    add(prx_home)
    config = {
        "redo": True,
        "retry_failed": ["timeout", "decode", "timeout"],
        "tuning": {"batch_size": 7, "max_cost_usd": 1e9},
    }
    assert materialize(prx_home, instance, ["captions"], "birds", config).success
    [spec] = launched
    assert spec.redo
    assert spec.retry_failed == ("decode", "timeout")
    assert spec.tuning["batch_size"] == 7
    assert spec.tuning["max_cost_usd"] == 5
    assert "batch_size" not in json.dumps(spec.ingredients)


def test_lineage_comes_with_the_materialization(
    prx_home: Path, instance: dg.DagsterInstance, launched: list[JobSpec]
) -> None:
    add(prx_home)
    result = materialize(prx_home, instance, ["caption_labels"], "birds")
    [event] = result.asset_materializations_for_node("caption_labels")
    lineage = event.metadata["dagster/column_lineage"]
    assert isinstance(lineage, dg.TableColumnLineageMetadataValue)
    [dep] = lineage.value.deps_by_column["label"]
    assert (dep.asset_key, dep.column_name) == (dg.AssetKey("captions"), "caption")
    assert event.metadata["rows_in"].value == 1


@pytest.mark.parametrize(
    ("stage", "manifest", "message"),
    [
        ("raw_images", None, "fix: the catalog is empty; add one: prx source add ghost"),
        ("captions", None, "no source 'ghost' in the catalog"),
        ("raw_images", "name: ghost\nkind: foldr\nuri: /d\n", "`kind`"),
    ],
)
def test_a_partition_without_a_good_manifest_says_what_to_do(
    prx_home: Path,
    instance: dg.DagsterInstance,
    launched: list[JobSpec],
    stage: str,
    manifest: str | None,
    message: str,
) -> None:
    if manifest:
        (prx_home / "lake/catalog").mkdir(parents=True)
        (prx_home / "lake/catalog/ghost.yaml").write_text(manifest)
    result = materialize(prx_home, instance, [stage], "ghost")
    assert not result.success
    failure = result.failure_data_for_node(stage)
    assert failure is not None
    assert failure.user_failure_data is not None
    assert message in (failure.user_failure_data.description or "")
    assert launched == []
