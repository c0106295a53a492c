"""Dagster's own loaders accept what is deployed, and build what it means."""

from __future__ import annotations

import shutil
from pathlib import Path

import dagster as dg
import dagster_k8s.launcher
import pytest
import yaml
from dagster._config import process_config, resolve_to_config_type
from dagster._core.instance.config import PoolGranularity
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.dagster_run import DagsterRun
from dagster._core.workspace.autodiscovery import loadable_targets_from_python_module
from dagster._core.workspace.config_schema import process_workspace_config
from dagster._core.workspace.load import location_origins_from_config
from dagster_k8s import K8sRunLauncher
from dagster_postgres import DagsterPostgresStorage
from dagster_postgres.utils import pg_url_from_config

ROOT = Path(__file__).parents[2]
DEPLOYED = {
    "DAGSTER_PG_HOST": "db.example",
    "DAGSTER_PG_USERNAME": "dagster",
    "DAGSTER_PG_PASSWORD": "p@ssword",
    "DAGSTER_PG_DB": "dagster",
    "DAGSTER_K8S_NAMESPACE": "prx",
    "DAGSTER_K8S_SERVICE_ACCOUNT": "dagster",
    "DAGSTER_K8S_IMAGE": "registry.example/prx-data:0.1.0",
    "PRX_HOME": "/opt/prx",
}


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstanceRef:
    for name, value in DEPLOYED.items():
        monkeypatch.setenv(name, value)
    shutil.copy(ROOT / "deploy/dagster/dagster.yaml", tmp_path / "dagster.yaml")
    return InstanceRef.from_dir(str(tmp_path))


def test_local_configuration_makes_a_working_instance(tmp_path: Path) -> None:
    shutil.copy(ROOT / "deploy/dagster/local.yaml", tmp_path / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
        pools = instance.get_concurrency_config().pool_config
        assert pools.default_pool_limit == 1
        assert pools.pool_granularity is PoolGranularity.OP
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        assert queue.max_concurrent_runs == 4
        instance.add_dynamic_partitions("source", ["birds"])
    assert list(tmp_path.rglob("*.db")), "state lies in DAGSTER_HOME"
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.get_dynamic_partitions("source") == ["birds"]


def test_a_local_pool_admits_one_step_at_a_time(tmp_path: Path) -> None:
    shutil.copy(ROOT / "deploy/dagster/local.yaml", tmp_path / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        storage = instance.event_log_storage
        storage.initialize_concurrency_limit_to_default("skip_lists")
        first = storage.claim_concurrency_slot("skip_lists", "run-1", "skip_lists")
        second = storage.claim_concurrency_slot("skip_lists", "run-2", "skip_lists")
    assert first.is_claimed
    assert not second.is_claimed


def test_deployed_storage_is_postgres(deployed: InstanceRef) -> None:
    data = deployed.storage_data
    assert data is not None
    assert (data.module_name, data.class_name) == ("dagster_postgres", "DagsterPostgresStorage")
    config_type = resolve_to_config_type(DagsterPostgresStorage.config_type())
    result = process_config(config_type, data.config_dict)
    assert result.success, result.errors
    url = pg_url_from_config(result.value)
    assert url == "postgresql://dagster:p%40ssword@db.example:5432/dagster"


def test_deployed_runs_are_pods(deployed: InstanceRef, monkeypatch: pytest.MonkeyPatch) -> None:
    # A cluster's credentials are the one thing that is missing here.
    monkeypatch.setattr(dagster_k8s.launcher, "load_kubernetes_config", lambda **_: None)
    data = deployed.run_launcher_data
    assert data is not None
    launcher = data.rehydrate(as_type=K8sRunLauncher)
    assert launcher.supports_check_run_worker_health
    assert launcher.job_image == "registry.example/prx-data:0.1.0"
    run = DagsterRun(job_name="refresh_source", run_id="0" * 32)
    context = launcher.get_container_context_for_run(run)
    assert context.namespace == "prx"
    config = context.run_k8s_config
    assert config.pod_spec_config["service_account_name"] == "dagster"
    assert config.container_config["resources"]["limits"] == {"memory": "1Gi"}
    passed_on = {variable["name"] for variable in config.container_config["env"]}
    assert passed_on >= {"DAGSTER_PG_HOST", "DAGSTER_PG_USERNAME", "DAGSTER_PG_DB", "PRX_HOME"}


def test_deployed_queue_and_pools(deployed: InstanceRef) -> None:
    pools = deployed.settings["concurrency"]["pools"]
    assert pools == {"granularity": "op", "default_limit": 1}
    assert deployed.settings["run_monitoring"]["enabled"]


def test_no_secret_is_written_down() -> None:
    text = (ROOT / "deploy/dagster/dagster.yaml").read_text()
    assert yaml.safe_load(text)["storage"]["postgres"]["postgres_db"]["password"] == {
        "env": "DAGSTER_PG_PASSWORD"
    }


def test_dagster_cloud_names_a_module_that_holds_the_definitions(prx_home: Path) -> None:
    [location] = yaml.safe_load((ROOT / "dagster_cloud.yaml").read_text())["locations"]
    assert set(location) == {"location_name", "code_source", "build"}
    assert (ROOT / location["build"]["directory"] / "pyproject.toml").is_file()
    workspace = {"load_from": [{"python_module": location["code_source"]}]}
    assert process_workspace_config(workspace).success
    [origin] = location_origins_from_config(workspace, str(ROOT)).values()
    target = origin.loadable_target_origin
    [found] = loadable_targets_from_python_module(target.module_name, None)
    assert isinstance(found.target_definition, dg.Definitions)
