"""What watches: the sources' files, and the two automation lanes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import dagster as dg

from prx_assets.automation import CPU_LANE, PAID_LANE, cpu_stages, paid_stages
from prx_assets.raw_images.listing import digest, list_files
from prx_assets.source_files import report_source_files
from prx_assets.stage_asset import Platform
from prx_resources.catalog import Catalog
from prx_resources.errors import PrxError
from prx_resources.settings import Settings

_BUDGET_S = 40.0
"""Listing stops after this long, well under the minute after which Dagster gives a tick up."""


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Lists the files of every catalogued source and reports `source_files` of those whose list"
        " changed. Reads names, sizes and times only. Where listing takes long it goes on with the"
        " next source at the next tick."
    ),
)
def source_files_sensor(context: dg.SensorEvaluationContext, platform: Platform) -> dg.SkipReason:
    """Reports changed file lists; requests nothing itself, the lanes do."""
    catalog = Catalog(Settings.load(platform.home_path).open_lake())
    names = _after(catalog.names(), context.cursor)
    started = time.monotonic()
    changed, failed, listed = [], [], 0
    for name in names:
        if time.monotonic() - started > _BUDGET_S:
            break
        listed += 1
        context.update_cursor(name)
        try:
            manifest = catalog.load(name)
            files = list_files(manifest.kind, manifest.uri, manifest.files)
        except PrxError as error:
            context.log.warning(f"{name}: {error}")
            failed.append(name)
            continue
        if report_source_files(context.instance, name, digest(files), len(files)):
            changed.append(name)
    parts = [f"{listed} of {len(names)} sources listed", f"changed: {', '.join(changed) or 'none'}"]
    if failed:
        parts.append(f"could not be listed (see the tick's log): {', '.join(failed)}")
    return dg.SkipReason("; ".join(parts))


def _after(names: Sequence[str], cursor: str | None) -> list[str]:
    """Returns the names in order, beginning behind the one that was listed last."""
    return [*(n for n in names if n > (cursor or "")), *(n for n in names if n <= (cursor or ""))]


def lanes(settings: Settings) -> list[dg.AutomationConditionSensorDefinition]:
    """Returns the two automation sensors; a stage's lane follows its configured engine."""
    paid = paid_stages(settings)
    costs = settings.costs
    if paid:
        spends = (
            f"Spends money on {' and '.join(paid)}: at {costs.captions_per_second:g} captions and"
            f" {costs.labels_per_second:g} labels a second and GPU, a million images take"
            f" {1e6 / costs.captions_per_second / 3600:.1f} and"
            f" {1e6 / costs.labels_per_second / 3600:.1f} GPU-hours, at"
            f" {costs.gpu_hour_usd:g} US dollars each."
        )
    else:
        spends = "Spends nothing now: the configured engines are built in, so their stages are in"
        spends += f" `{CPU_LANE}`."
    return [
        dg.AutomationConditionSensorDefinition(
            CPU_LANE,
            target=dg.AssetSelection.assets(*cpu_stages(settings)),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=30,
            emit_backfills=False,
            description=(
                "Requests the stages that run on CPUs, for each source in a run of its own, when"
                " they are missing or an input's data version changed."
            ),
        ),
        dg.AutomationConditionSensorDefinition(
            PAID_LANE,
            target=dg.AssetSelection.assets(*paid),
            default_status=dg.DefaultSensorStatus.STOPPED,
            minimum_interval_seconds=30,
            emit_backfills=False,
            description=(
                f"Requests the stages whose engine costs money. {spends} Off until a person"
                " switches it on. A changed model or prompt never re-does rows by itself."
            ),
        ),
    ]
