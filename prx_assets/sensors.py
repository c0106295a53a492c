"""What watches: the sources' files, and the two automation lanes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

import dagster as dg

from prx_assets.automation import CPU_LANE, LANE_TAG, PAID_LANE, paid_stages
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
        "Lists the files of every catalogued source and reports source_files of those whose list"
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
        if listed and time.monotonic() - started > _BUDGET_S:
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
    with warnings.catch_warnings():
        # `use_user_code_server`: our own condition can be evaluated nowhere else.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return _lanes(settings)


def _lanes(settings: Settings) -> list[dg.AutomationConditionSensorDefinition]:
    return [
        dg.AutomationConditionSensorDefinition(
            CPU_LANE,
            target=dg.AssetSelection.tag(LANE_TAG, CPU_LANE),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=30,
            emit_backfills=False,
            use_user_code_server=True,
            description=(
                "Requests the stages that run on CPUs, for each source in a run of its own, when"
                " they are missing or an input's data version changed."
            ),
        ),
        dg.AutomationConditionSensorDefinition(
            PAID_LANE,
            target=dg.AssetSelection.tag(LANE_TAG, PAID_LANE),
            default_status=dg.DefaultSensorStatus.STOPPED,
            minimum_interval_seconds=30,
            emit_backfills=False,
            use_user_code_server=True,
            description=(
                f"Requests the stages whose engine costs money. {_spends(settings)} Off until a"
                " person switches it on. A changed model or prompt never re-does rows by itself."
            ),
        ),
    ]


def _spends(settings: Settings) -> str:
    costs = settings.costs
    rates = {"captions": costs.captions_per_second, "caption_labels": costs.labels_per_second}
    parts = []
    for stage in paid_stages(settings):
        hours = 1e6 / rates[stage] / 3600
        usd = hours * costs.gpu_hour_usd
        parts.append(f"{stage}: a million rows take {hours:.1f} GPU-hours, ${usd:,.0f}.")
    if parts:
        return " ".join(parts)
    return f"Spends nothing now: the configured engines are built in and run in {CPU_LANE}."
