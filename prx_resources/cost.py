"""What a paid engine's work will cost, and the limit that a run may not pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prx_resources.column_stage import ColumnStage, Job, due_rows
from prx_resources.contract import Json
from prx_resources.errors import CostRefused
from prx_resources.lake import Lake
from prx_resources.lance_table import open_published


@dataclass(frozen=True)
class Estimate:
    """What some rows take on GPUs.

    Attributes:
        rows: How many.
        gpu_hours: One GPU's time for all of them.
        usd: Its price.
    """

    rows: int
    gpu_hours: float
    usd: float

    def __str__(self) -> str:
        return f"{self.rows:,} rows, about {self.gpu_hours:,.1f} GPU-hours and ${self.usd:,.2f}"


def estimate(rows: int, tuning: Mapping[str, Json]) -> Estimate | None:
    """Returns what `rows` cost, None if the engine costs nothing.

    Args:
        rows: How many rows are to be computed.
        tuning: A job's; `rows_per_second` and `gpu_hour_usd` are there for paid engines only.
    """
    rate, price = tuning.get("rows_per_second"), tuning.get("gpu_hour_usd")
    if not rate or price is None:
        return None
    hours = rows / rate / 3600
    return Estimate(rows, hours, hours * price)


def check_cost(job: Job, stage: ColumnStage) -> str:
    """Returns what a paid run will cost, for the run's first line; refuses one above the limit.

    Rows that wait in chunks of an earlier run count too: the estimate is rather too high.

    Raises:
        CostRefused: It is above the tuning's `max_cost_usd`.
    """
    tuning = job.spec.tuning
    if estimate(0, tuning) is None:
        return ""
    ds = open_published(Lake(job.spec.lake).images_uri(job.spec.source))
    expected = estimate(due_rows(ds, stage, job.spec).num_rows, tuning)
    limit = tuning.get("max_cost_usd")
    if expected is None or not expected.rows:
        return ""
    if limit is not None and expected.usd > limit:
        raise CostRefused(
            f"this run would cost too much: {expected}, the limit is ${limit:,.2f}",
            where=f"{stage.name} of {job.spec.source}",
            fix="raise max_cost_per_run in settings.yaml, or choose a cheaper engine",
        )
    return f", expected cost: {expected}"
