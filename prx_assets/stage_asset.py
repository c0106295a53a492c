"""What the stages' assets share: the launchpad, the resource with settings, `dg.asset` arguments.

An asset does one thing: it makes its stage's spec from settings and manifest, and launches the
job.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from prx_assets.automation import GLOBAL, PER_SOURCE
from prx_assets.column_docs import column_lineage, column_schema
from prx_assets.launch import launch
from prx_assets.partitions import SOURCES
from prx_resources.catalog import Catalog, SourceManifest
from prx_resources.contract import ALL_SOURCES, JobSpec, Json
from prx_resources.lake import Lake
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import CaptionSettings, LabelSettings, Settings


class StageConfig(dg.Config):
    """The launchpad of every stage. What identifies a value is set in files, not here."""

    redo: bool = Field(
        default=False,
        description="Also compute again the rows that were made under other settings. Without it a"
        " changed model or prompt only fills rows that have no value.",
    )
    retry_failed: list[str] = Field(
        default=[],
        description="Reasons (as in the stage's error column) whose rows are tried again.",
    )
    tuning: dict[str, Any] = Field(
        default={},
        description="Batch sizes, replicas, flush times: speed only, never a value.",
    )


class Platform(dg.ConfigurableResource[None]):
    """Settings and catalog of one PRX_HOME, read anew by every step.

    Attributes:
        home: PRX_HOME, absolute.
    """

    home: str

    def settings(self) -> Settings:
        """Returns `settings.yaml`."""
        return Settings.load(Path(self.home))

    def catalog(self) -> Catalog:
        """Returns the lake's catalog."""
        return Catalog(Lake(self.settings().lake))

    def source(self, name: str) -> tuple[Settings, SourceManifest]:
        """Returns a source's settings, its overrides applied, and its manifest."""
        manifest = self.catalog().load(name)
        return self.settings().for_source(manifest), manifest

    def sources(self) -> list[SourceManifest]:
        """Returns all manifests, sorted by name."""
        catalog = self.catalog()
        return [catalog.load(name) for name in catalog.names()]


@dataclass(frozen=True)
class Stage:
    """What Dagster shows and does about one stage.

    Attributes:
        name: Asset's name and the package of its job.
        doc: The asset module's docstring, the description in the UI.
        deps: Names of the assets it reads.
        group: Group in the UI.
        kinds: Up to three badges.
        checks: (name, blocking, description) of its checks.
    """

    name: str
    doc: str | None
    deps: Sequence[str]
    group: str
    kinds: frozenset[str]
    checks: Sequence[tuple[str, bool, str]] = ()

    def per_source(self) -> dict[str, Any]:
        """Returns the arguments of `dg.asset` for a stage that is partitioned by source."""
        return {
            **self._common(SOURCES),
            "partitions_def": SOURCES,
            "automation_condition": PER_SOURCE,
        }

    def over_all_sources(self) -> dict[str, Any]:
        """Returns the arguments of `dg.asset` for a global stage: no partition, one at a time."""
        return {**self._common(None), "automation_condition": GLOBAL, "pool": self.name}

    def _common(self, partitions: dg.PartitionsDefinition[str] | None) -> dict[str, Any]:
        schema = column_schema(self.name)
        return {
            "name": self.name,
            "description": self.doc,
            "deps": list(self.deps),
            "group_name": self.group,
            "kinds": set(self.kinds),
            "owners": ["team:data-platform"],
            "metadata": {} if schema is None else {"dagster/column_schema": schema},
            "check_specs": _check_specs(self.name, self.checks, partitions),
        }


def _check_specs(
    asset: str,
    checks: Iterable[tuple[str, bool, str]],
    partitions: dg.PartitionsDefinition[str] | None,
) -> list[dg.AssetCheckSpec]:
    with warnings.catch_warnings():
        # Without its own partitions a check has one status for all sources: one source's failure
        # would block every other, and another's success would release it.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return [
            dg.AssetCheckSpec(
                name,
                asset=asset,
                blocking=blocking,
                description=description,
                partitions_def=partitions,
            )
            for name, blocking, description in checks
        ]


def run_stage(
    context: dg.AssetExecutionContext,
    ray_jobs: RayJobs,
    config: StageConfig,
    settings: Settings,
    *,
    stage: str,
    source: str = ALL_SOURCES,
    params: Mapping[str, Json],
    ingredients: Mapping[str, Json],
    tuning: Mapping[str, Json] | None = None,
) -> dg.MaterializeResult[Any]:
    """Launches a stage's job, waits for it and returns what it reported.

    Args:
        context: The step.
        ray_jobs: Where the job runs.
        config: What the launchpad says; its tuning wins over `tuning`.
        settings: Settings of the source.
        stage: Stage's name.
        source: Source's name; a global stage keeps the default.
        params: The stage's spec as a dict.
        ingredients: What its row fingerprint is made of.
        tuning: Defaults that aren't part of a fingerprint.
    """
    spec = JobSpec(
        stage=stage,
        source=source,
        lake=settings.lake,
        ingredients=dict(ingredients),
        params=dict(params),
        tuning={**(tuning or {}), **config.tuning},
        redo=config.redo,
        retry_failed=tuple(sorted(set(config.retry_failed))),
    )
    result = launch(context, spec, ray_jobs)
    lineage = column_lineage(stage)
    if lineage is None:
        return result
    metadata = {**(result.metadata or {}), "dagster/column_lineage": lineage}
    return result._replace(metadata=metadata)


def engine_tuning(
    settings: Settings, engine: CaptionSettings | LabelSettings, rows_per_second: float
) -> dict[str, Json]:
    """Returns what an engine's job needs beside its identity: interpreter, rates, cost limit.

    Prices are left out for a built-in engine, which costs nothing.
    """
    found: dict[str, Json] = {"python": engine.python} if engine.python else {}
    if engine.lane == "paid":
        found["rows_per_second"] = rows_per_second
        found["gpu_hour_usd"] = settings.costs.gpu_hour_usd
        found["max_cost_usd"] = settings.max_cost_per_run
    return found
