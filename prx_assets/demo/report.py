"""The demo's closing tables: what is in the lake now, for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from prx_assets.image.eligibility import ELIGIBLE
from prx_assets.skip_lists.gather import read_duplicates
from prx_assets.skip_lists.publish import current, read_list, read_reasons
from prx_resources import lance_table
from prx_resources.lake import Lake


@dataclass(frozen=True)
class SourceFigures:
    """One source's rows, counted in its table.

    Attributes:
        source: Its name.
        rows: All rows.
        usable: Rows that are captioned and exported.
        set_aside: Rows that aren't, by reason.
        captions: Rows with a caption.
        labels: Rows by label.
        duplicates: Rows with a better copy somewhere.
    """

    source: str
    rows: int
    usable: int
    set_aside: dict[str, int]
    captions: int
    labels: dict[str, int]
    duplicates: int


def figures(lake: Lake, source: str) -> SourceFigures:
    """Counts a source's rows."""
    ds = lance_table.open_published(lake.images_uri(source))
    rows = ds.to_table(columns=["image_id", "set_aside", "caption", "label"]).to_pylist()
    usable = ds.count_rows(filter=ELIGIBLE)
    aside = Counter(row["set_aside"] for row in rows if row["set_aside"])
    too_small_or_long = len(rows) - usable - aside.total()
    if too_small_or_long:
        aside["size or aspect"] = too_small_or_long
    copies = {row["image_id"] for row in read_duplicates(lake).to_pylist() if row["rank"]}
    return SourceFigures(
        source=source,
        rows=len(rows),
        usable=usable,
        set_aside=dict(sorted(aside.items())),
        captions=sum(row["caption"] is not None for row in rows),
        labels=dict(sorted(Counter(row["label"] for row in rows if row["label"]).items())),
        duplicates=sum(row["image_id"] in copies for row in rows),
    )


def buckets(lake: Lake) -> list[tuple[str, int, int]]:
    """Returns `<level>/<ratio>`, samples and kept samples of every bucket, over all sources."""
    listed = read_list(lake, str(current(lake, "default")["list"]))
    samples: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for shard in listed.shards:
        samples["/".join(shard.leaf.split("/")[-2:])] += shard.samples
    for row in read_reasons(lake, "default").to_pylist():
        skipped["/".join(row["leaf"].split("/")[-2:])] += 1
    order = sorted(samples, key=lambda name: (int(name.split("/")[0]), float(name.split("/")[1])))
    return [(name, samples[name], samples[name] - skipped[name]) for name in order]


def skipped(lake: Lake) -> dict[str, int]:
    """Returns how many samples the current list skips, by reason."""
    reasons: list[dict[str, Any]] = read_reasons(lake, "default").to_pylist()
    return dict(sorted(Counter(row["reasons"] for row in reasons).items()))
