"""What the stages' assets share: the launchpad, the resource with settings, `dg.asset` arguments.

An asset does one thing: it makes its stage's spec from settings and manifest, and launches the
job.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import dagster as dg
from pydantic import Field

from prx_assets.automation import GLOBAL, PER_SOURCE
from prx_assets.column_docs import column_lineage, column_schema
from prx_assets.launch import launch
from prx_assets.partitions import SOURCES
from prx_resources.catalog import Catalog, SourceManifest
from prx_resources.contract import ALL_SOURCES, JobSpec, Json
from prx_resources.errors import PrxError
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


class StageSpec(Protocol):
    """What every stage's spec offers."""

    @property
    def params(self) -> dict[str, Json]:
        """The spec as plain data."""

    def ingredients(self) -> dict[str, Json]:
        """What changes a value."""


class Platform(dg.ConfigurableResource[Any]):
    """Settings and catalog of one PRX_HOME, read anew by every step.

    Attributes:
        home: PRX_HOME, absolute.
    """

    home: str

    @property
    def home_path(self) -> Path:
        """PRX_HOME."""
        return Path(self.home)

    def source(self, name: str) -> tuple[Settings, SourceManifest]:
        """Returns a source's settings, its overrides applied, and its manifest.

        Raises:
            dg.Failure: The catalog has no such source, or a file is wrong; says what to do.
        """
        with _told_to_people():
            settings = Settings.load(self.home_path)
            manifest = Catalog(settings.open_lake()).load(name)
            return settings.for_source(manifest), manifest

    def sources(self) -> tuple[Settings, list[SourceManifest]]:
        """Returns the settings and all manifests, sorted by name.

        Raises:
            dg.Failure: A file is wrong; says what to do.
        """
        with _told_to_people():
            settings = Settings.load(self.home_path)
            catalog = Catalog(settings.open_lake())
            return settings, [catalog.load(name) for name in catalog.names()]


@contextmanager
def _told_to_people() -> Iterator[None]:
    """Turns a refusal into a failure without a traceback and without retries."""
    try:
        yield
    except PrxError as error:
        raise dg.Failure(f"{type(error).__name__}: {error}", allow_retries=False) from None


if TYPE_CHECKING:
    StageResult = dg.MaterializeResult[Any]
else:
    # Dagster wants the bare class as an asset's return annotation.
    StageResult = dg.MaterializeResult

Decorator = Callable[[Callable[..., StageResult]], dg.AssetsDefinition]


@dataclass(frozen=True)
class Stage:
    """What Dagster shows and does about one stage.

    Attributes:
        name: Asset's name and the package of its job.
        doc: The asset module's docstring, the description in the UI.
        code_version: Bumped by hand when the same input gives other values.
        deps: Names of the assets it reads.
        group: Group in the UI.
        kinds: Up to three badges.
        checks: (name, blocking, description) of its checks.
    """

    name: str
    doc: str | None
    code_version: int
    deps: Sequence[str]
    group: str
    kinds: frozenset[str]
    checks: Sequence[tuple[str, bool, str]] = ()

    def per_source(self) -> Decorator:
        """Returns the decorator of a stage that is partitioned by source."""
        return self._asset(SOURCES, partitions_def=SOURCES, automation_condition=PER_SOURCE)

    def over_all_sources(self) -> Decorator:
        """Returns the decorator of a global stage: no partition, one run at a time."""
        return self._asset(None, automation_condition=GLOBAL, pool=self.name)

    def _asset(
        self, partitions: dg.PartitionsDefinition[str] | None, **arguments: Any
    ) -> Decorator:
        schema = column_schema(self.name)
        return cast(
            Decorator,
            dg.asset(
                name=self.name,
                description=self.doc,
                code_version=str(self.code_version),
                deps=list(self.deps),
                group_name=self.group,
                kinds=set(self.kinds),
                owners=["team:data-platform"],
                metadata={} if schema is None else {"dagster/column_schema": schema},
                check_specs=_check_specs(self.name, self.checks, partitions),
                **arguments,
            ),
        )


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
    config: StageConfig,
    ray_jobs: RayJobs,
    settings: Settings,
    stage: str,
    spec: StageSpec,
    *,
    source: str = ALL_SOURCES,
    tuning: Mapping[str, Json] | None = None,
) -> StageResult:
    """Launches a stage's job, waits for it and returns what it reported.

    Args:
        context: The step.
        config: What the launchpad says.
        ray_jobs: Where the job runs.
        settings: Settings of the source.
        stage: Stage's name.
        spec: What the job must know.
        source: Source's name; a global stage keeps the default.
        tuning: What the settings say beside identity; the launchpad can't lift a cost limit.
    """
    job = JobSpec(
        stage=stage,
        source=source,
        lake=settings.lake,
        ingredients=spec.ingredients(),
        params=spec.params,
        tuning={**config.tuning, **(tuning or {})},
        redo=config.redo,
        retry_failed=tuple(sorted(set(config.retry_failed))),
    )
    result = launch(context, job, ray_jobs)
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
