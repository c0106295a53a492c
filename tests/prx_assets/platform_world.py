"""The real definitions over faked jobs, with a clock of its own: what automation would request."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from prx_assets import stage_asset
from prx_assets.automation import cpu_stages
from prx_assets.definitions import build
from prx_assets.source_files import report_source_files
from prx_resources.catalog import Catalog, SourceManifest
from prx_resources.contract import ALL_SOURCES, JobSpec
from prx_resources.lake import Lake
from prx_resources.settings import Settings

Requests = set[tuple[str, str | None]]
START = dt.datetime(2030, 1, 1, 12, 1, tzinfo=dt.UTC)


class World:
    """Sources, jobs that only compute a data version, and ticks of the CPU lane.

    A stage's data version is a digest of its inputs' data versions, so it changes exactly when
    they do. `broken` jobs fail, `bad` ones report a failed blocking check. What
    stands in `meanwhile` happens once, while the stage's job runs, after it has read its inputs.
    """

    def __init__(
        self, home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stage_asset, "launch", self._launch)
        self.home = home
        self.instance = instance
        self.settings = Settings.load(home)
        self.defs = build(home, self.settings)
        self.catalog = Catalog(Lake(self.settings.lake))
        self.launched: list[JobSpec] = []
        self.broken: Requests = set()
        self.bad: Requests = set()
        self.meanwhile: dict[str, Callable[[], object]] = {}
        self._digests: dict[str, str] = {}
        self._versions: dict[tuple[str, str], str] = {}
        self._cursor: Any = None
        self._now = START

    def add_source(self, name: str, digest: str = "v1") -> None:
        self.catalog.add(SourceManifest(name=name, kind="folder", uri=f"/data/{name}"))
        self.files(name, digest)

    def files(self, name: str, digest: str) -> bool:
        self._digests[name] = digest
        return report_source_files(self.instance, name, digest, 1)

    def materialized(self, stage: str, source: str) -> None:
        """A stage's materialization from elsewhere, without the cost of a run."""
        self.instance.add_dynamic_partitions("source", [source])
        self.instance.report_runless_asset_event(
            dg.AssetMaterialization(stage, partition=source, tags={"dagster/data_version": source})
        )

    def tick(self, *, minutes: float = 0.5, stages: Iterable[str] | None = None) -> Requests:
        """Evaluates the lane's conditions once, `minutes` after the last time."""
        self._now += dt.timedelta(minutes=minutes)
        selection = dg.AssetSelection.assets(*(stages or cpu_stages(self.settings)))
        result = dg.evaluate_automation_conditions(
            self.defs,
            self.instance,
            asset_selection=selection,
            evaluation_time=self._now,
            cursor=self._cursor,
        )
        self._cursor = result.cursor
        keys = [spec.key for spec in self.defs.resolve_all_asset_specs()]
        return {
            (key.to_user_string(), partition)
            for key in keys
            for partition in result.get_requested_partitions(key)
        }

    def run(self, requests: Requests) -> dict[str, dg.ExecuteInProcessResult]:
        """Does what was requested: one run per source, one for the global stages."""
        grouped = defaultdict(list)
        for stage, partition in requests:
            grouped[partition].append(dg.AssetKey(stage))
        job = self.defs.resolve_implicit_global_asset_job_def()
        return {
            partition or ALL_SOURCES: job.execute_in_process(
                instance=self.instance,
                partition_key=partition,
                asset_selection=keys,
                raise_on_error=False,
            )
            for partition, keys in sorted(grouped.items(), key=lambda item: item[0] or "~")
        }

    def settle(self) -> None:
        """Ticks and runs, every ten minutes, until nothing is requested."""
        for _ in range(12):
            requests = self.tick(minutes=10)
            if not requests:
                return
            self.run(requests)
        raise AssertionError("the lane never comes to rest")

    def _launch(self, context: dg.AssetExecutionContext, spec: JobSpec, _: Any) -> Any:
        self.launched.append(spec)
        where = (spec.stage, None if spec.source == ALL_SOURCES else spec.source)
        version = self._digest(spec.stage, spec.source)
        self.meanwhile.pop(spec.stage, lambda: None)()
        if where in self.broken:
            raise dg.Failure("broken by the test")
        self._versions[spec.stage, spec.source] = version
        checks = [
            dg.AssetCheckResult(
                check_name=check.name, passed=where not in self.bad or not check.blocking
            )
            for check in context.assets_def.check_specs
        ]
        return dg.MaterializeResult(data_version=dg.DataVersion(version), check_results=checks)

    def _digest(self, stage: str, source: str) -> str:
        if stage == "compacted_images":  # passes its input's version on
            return self._versions["raw_images", source]
        parents = self.defs.resolve_asset_graph().get(dg.AssetKey(stage)).parent_keys
        names = {key.to_user_string() for key in parents}
        inputs = sorted(
            f"{name} {where} {version}"
            for (name, where), version in self._versions.items()
            if name in names and source in (ALL_SOURCES, where)
        )
        if stage == "raw_images":
            inputs.append(self._digests[source])
        return hashlib.sha256("\n".join([stage, *inputs]).encode()).hexdigest()[:16]
