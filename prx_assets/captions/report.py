"""What a captioning run shows people: samples, lengths, models, gates."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Iterable

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prx_assets.captions.gates import word_count
from prx_assets.captions.spec import CaptionsSpec
from prx_resources.contract import CheckOutcome, Meta
from prx_resources.untrusted import harmless

_SAMPLES = 3
_MEASURED_ROWS = 20_000
"""The length plot is drawn from this many captions; reading all of a corpus is not worth it."""


def report(
    ds: lance.LanceDataset, spec: CaptionsSpec
) -> tuple[dict[str, Meta], tuple[CheckOutcome, ...]]:
    """Returns metadata and the checks `caption_length` and `gates` of a table's captions."""
    some = ds.to_table(
        columns=["image_id", "caption", "caption_gates"],
        filter="caption IS NOT NULL",
        limit=_MEASURED_ROWS,
    )
    lengths = [word_count(caption) for caption in some["caption"].to_pylist()]
    gates = _count(ds, "caption_gates", splitting=True)
    captioned = ds.count_rows(filter="caption IS NOT NULL")
    metadata = {
        "samples": Meta(_samples(some), "json"),
        "rows_by_model": Meta(dict(_count(ds, "caption_model")), "json"),
        "rows_by_gate": Meta(dict(gates), "json"),
    }
    if lengths:
        metadata["plot_words"] = Meta(_plot(lengths, spec), "md")
        metadata["median_words"] = Meta(float(np.median(lengths)), "float")
    return metadata, (_length_check(gates, captioned, spec), _gates_check(gates, captioned))


def _samples(some: pa.Table) -> list[dict[str, str]]:
    first = some.sort_by("image_id").slice(0, _SAMPLES)
    gated = first["caption_gates"].null_count < first.num_rows
    return [
        {
            "image_id": harmless(row["image_id"]),
            "caption": harmless(row["caption"]),
        }
        | ({"gates": row["caption_gates"]} if gated else {})
        for row in first.to_pylist()
    ]


def _count(ds: lance.LanceDataset, column: str, *, splitting: bool = False) -> Counter[str]:
    counts: Counter[str] = Counter()
    for batch in ds.to_batches(columns=[column], filter=f"{column} IS NOT NULL"):
        for item in pc.value_counts(batch.column(0)).to_pylist():
            for value in item["values"].split(",") if splitting else [item["values"]]:
                counts[value] += item["counts"]
    return counts


def _length_check(gates: Counter[str], captioned: int, spec: CaptionsSpec) -> CheckOutcome:
    outside = gates["words"]
    return CheckOutcome(
        "caption_length",
        passed=outside == 0,
        description=f"{outside:,} of {captioned:,} captions have fewer than {spec.min_words} or"
        f" more than {spec.max_words} words.",
        warn=True,
        metadata={"outside": Meta(outside, "int")},
    )


def _gates_check(gates: Counter[str], captioned: int) -> CheckOutcome:
    failed = {gate: count for gate, count in sorted(gates.items()) if gate != "words"}
    named = ", ".join(f"{gate} {count:,}" for gate, count in failed.items())
    return CheckOutcome(
        "gates",
        passed=not failed,
        description=f"Failed quality gates: {named}."
        if failed
        else f"All {captioned:,} captions pass the quality gates.",
        warn=True,
        metadata={"failed": Meta(failed, "json")},
    )


def _plot(lengths: Iterable[int], spec: CaptionsSpec) -> str:
    """Returns a small histogram as Markdown with the picture inside."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 2.2), dpi=80, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.hist(list(lengths), bins=24, color="#4c72b0")
    for bound in (spec.min_words, spec.max_words):
        axes.axvline(bound, color="#888888", linestyle="--", linewidth=1)
    axes.set_xlabel("words in a caption (dashed: the limits)")
    axes.set_ylabel("captions")
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    data = base64.b64encode(picture.getvalue()).decode()
    return f"![words in a caption](data:image/png;base64,{data})"
