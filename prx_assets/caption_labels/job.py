"""Each caption's class: visual, text (screenshots, slides, documents) or nsfw.

Only visual images are trained on; skip-lists leave out the others, and an image without a label is
never trained on. The built-in labeller compares a caption with a few sentences for each class by
a packaged sentence model, offline and on the CPU. A label knows the caption it was made from: a
new caption makes its label due again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import lance
import pyarrow.compute as pc

from prx_assets.caption_labels.compute import LabelCompute
from prx_assets.caption_labels.spec import LABELS, STAGE, CaptionLabelsSpec
from prx_assets.runtime import Job, run_job
from prx_resources import lance_table
from prx_resources.column_stage import ColumnStage, Pool, run
from prx_resources.columns import CAPTION_LABELS
from prx_resources.contract import JobResult, Json, Meta
from prx_resources.cost import check_cost
from prx_resources.lake import Lake
from prx_resources.untrusted import harmless

LABELLED = ColumnStage(
    group=CAPTION_LABELS, reads=("caption",), where="set_aside IS NULL AND caption IS NOT NULL"
)
"""Rows that have a caption and are still in use."""

SECONDS_PER_ROW = {"minilm": 0.06}
"""One core's time for a caption of 150 words, by built-in engine; for the estimate only."""

DEFAULT_BATCH = 256
_SAMPLES = 3


def work(job: Job, *, pool: Pool | None = None) -> JobResult:
    """Labels the source's captions that have no label, or a label of another caption.

    Args:
        job: Its `tuning` may hold `batch_size` (captions the engine gets at once) and `workers`.
        pool: Where computes run; None for Ray.
    """
    spec = CaptionLabelsSpec(**job.spec.params)
    tuning = job.spec.tuning
    engine = f"{spec.engine}/{spec.model}@{spec.revision}" if spec.model else spec.engine
    cost = check_cost(job, LABELLED)
    result = run(
        job,
        LABELLED,
        partial(LabelCompute, spec, int(tuning.get("batch_size") or DEFAULT_BATCH)),
        workers=tuning.get("workers"),
        pool=pool,
        seconds_per_row=_seconds_per_row(spec.engine, tuning),
        identity=engine + cost,
    )
    table = lance_table.open_published(Lake(job.spec.lake).images_uri(job.spec.source))
    return replace(result, metadata={**result.metadata, **report(table)})


def _seconds_per_row(engine: str, tuning: Mapping[str, Json]) -> float | None:
    if tuning.get("rows_per_second"):
        return 1 / float(tuning["rows_per_second"])
    one_core = SECONDS_PER_ROW.get(engine)
    return None if one_core is None else one_core / (tuning.get("workers") or 1)


def report(ds: lance.LanceDataset) -> dict[str, Meta]:
    """Returns rows by label and by model, and a few samples of each label."""
    return {
        "rows_by_label": Meta({**dict.fromkeys(LABELS, 0), **_count(ds, "label")}, "json"),
        "rows_by_model": Meta(dict(_count(ds, "label_model")), "json"),
        "samples": Meta([row for label in LABELS for row in _samples(ds, label)], "json"),
    }


def _count(ds: lance.LanceDataset, column: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for batch in ds.to_batches(columns=[column], filter=f"{column} IS NOT NULL"):
        for item in pc.value_counts(batch.column(0)).to_pylist():
            counts[item["values"]] += item["counts"]
    return counts


def _samples(ds: lance.LanceDataset, label: str) -> list[dict[str, str | float]]:
    rows = ds.to_table(
        columns=["image_id", "caption", "label_confidence"],
        filter=f"label = {lance_table.quote(label)} AND caption IS NOT NULL",
        limit=_SAMPLES,
    )
    return [
        {
            "label": label,
            "confidence": round(row["label_confidence"] or 0.0, 2),
            "image_id": harmless(row["image_id"]),
            "caption": harmless(row["caption"]),
        }
        for row in rows.to_pylist()
    ]


if __name__ == "__main__":
    run_job(STAGE, work)
