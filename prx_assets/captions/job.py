"""A caption for every usable image, all written by one engine so that the corpus has one style.

The built-in engine measures: its captions name colours, light, layout and lines of text, and say in
`caption_model` that no vision-language model wrote them. A team's own model plugs in as
`package.module:Class`. Images are decoded and made smaller before the engine sees them; one that
can't be captioned is a row with a reason, never a failed run. Quality gates mark captions that
loop, refuse, break off, copy the prompt or hold markup.

Only rows without a caption are computed. Finished work survives a crash: the next run goes on
where this one stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from prx_assets.captions.compute import CaptionCompute
from prx_assets.captions.report import report
from prx_assets.captions.spec import STAGE, CaptionsSpec
from prx_assets.image.eligibility import ELIGIBLE
from prx_assets.runtime import Job, run_job
from prx_resources import lance_table
from prx_resources.column_stage import ColumnStage, Pool, run
from prx_resources.columns import CAPTIONS
from prx_resources.contract import JobResult, Json
from prx_resources.cost import check_cost
from prx_resources.lake import Lake

CAPTIONED = ColumnStage(group=CAPTIONS, reads=("image",), where=ELIGIBLE)
"""Eligible images are captioned, from their pixels alone."""

SECONDS_PER_ROW = {"measured": 0.12}
"""One core's time for a 2 MP JPEG, by built-in engine; for the estimate only."""

DEFAULT_BATCH = 16


def work(job: Job, *, pool: Pool | None = None) -> JobResult:
    """Captions the source's eligible images that have no caption yet.

    Args:
        job: Its `tuning` may hold `batch_size` (images the engine gets at once) and `workers`.
        pool: Where computes run; None for Ray.
    """
    spec = CaptionsSpec(**job.spec.params)
    tuning = job.spec.tuning
    cost = check_cost(job, CAPTIONED)
    result = run(
        job,
        CAPTIONED,
        partial(CaptionCompute, spec, int(tuning.get("batch_size") or DEFAULT_BATCH)),
        workers=tuning.get("workers"),
        pool=pool,
        seconds_per_row=_seconds_per_row(spec.engine, tuning),
        identity=identity(spec) + cost,
    )
    table = lance_table.open_published(Lake(job.spec.lake).images_uri(job.spec.source))
    metadata, checks = report(table, spec)
    return replace(
        result, metadata={**result.metadata, **metadata}, checks=(*result.checks, *checks)
    )


def _seconds_per_row(engine: str, tuning: Mapping[str, Json]) -> float | None:
    if tuning.get("rows_per_second"):
        return 1 / float(tuning["rows_per_second"])
    one_core = SECONDS_PER_ROW.get(engine)
    return None if one_core is None else one_core / (tuning.get("workers") or 1)


def identity(spec: CaptionsSpec) -> str:
    """Returns how people call the engine: `engine`, or `engine/model@revision`."""
    name = f"{spec.engine}/{spec.model}" if spec.model else spec.engine
    return f"{name}@{spec.revision}" if spec.revision else name


if __name__ == "__main__":
    run_job(STAGE, work)
