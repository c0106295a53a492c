"""What a source consists of: sizes, shapes, formats, captions, and how much of it can be used.

Counted from the table's metadata columns; no pixel is read. The plot of resolution against aspect
ratio has the cut drawn in: fewer than 384² pixels or a shape outside [1/2, 2] isn't used.
"""

from __future__ import annotations

import json

from prx_assets.image.buckets import LEVELS
from prx_assets.runtime import Job, run_job
from prx_assets.source_profile import plots
from prx_assets.source_profile.profile import Profile, profile_of
from prx_assets.source_profile.spec import CODE_VERSION, STAGE
from prx_resources import lance_table
from prx_resources.contract import CheckOutcome, JobResult, Meta, fingerprint
from prx_resources.lake import Lake

MIN_ELIGIBLE = 0.1
"""Share of eligible rows under which a source looks like a mistake."""


def work(job: Job) -> JobResult:
    """Profiles the source's published table, or returns what is known of the same rows."""
    lake, source = Lake(job.spec.lake), job.spec.source
    ds = lance_table.open_published(lake.images_uri(source))
    version = fingerprint([STAGE, CODE_VERSION, lance_table.ingest_data_version(ds)])
    key = lake.profile_key(source, version)
    known = lake.store.exists(key)
    rows = ds.count_rows()
    job.plan(0 if known else rows, f"profile, version {CODE_VERSION}", rows / 1e6)
    if known:
        return JobResult.from_json({**json.loads(lake.store.get(key)), "done": 0})
    result = describe(profile_of(ds), version)
    lake.store.put_if_absent(key, json.dumps(result.to_json()).encode())
    job.progress(rows, rows)
    return result


def describe(profile: Profile, data_version: str) -> JobResult:
    """Returns a profile as tables, plots and checks."""
    aside = {**profile.set_aside, **{k: n for k, n in profile.outside.items() if n}}
    levels = {
        str(level): sum(n for (at, _), n in profile.buckets.items() if at == level)
        for level in LEVELS
    }
    metadata = {
        "plot_sizes_and_shapes": Meta(plots.shapes(profile), "md"),
        "plot_images_per_bucket": Meta(plots.buckets(profile), "md"),
        "plot_files_and_captions": Meta(plots.files(profile), "md"),
        "eligible": Meta(profile.eligible, "int"),
        "images_with_caption": Meta(profile.captions, "int"),
        "megabytes": Meta(round(profile.total_bytes / 1e6, 1), "float"),
        "levels": Meta([{"level": k, "images": n} for k, n in levels.items()], "table"),
        "buckets": Meta(profile.bucket_rows(), "table"),
        "formats": Meta(
            [{"format": k, "images": n} for k, n in profile.formats.most_common()], "table"
        ),
        "not_used": Meta([{"reason": k, "rows": n} for k, n in sorted(aside.items())], "table"),
    }
    return JobResult(
        data_version=data_version,
        rows_in=profile.rows,
        rows_out=profile.eligible,
        set_aside=aside,
        done=profile.rows,
        metadata=metadata,
        checks=_checks(profile, sum(aside.values())),
    )


def _checks(profile: Profile, aside: int) -> tuple[CheckOutcome, ...]:
    eligible, rows = profile.eligible, profile.rows
    return (
        CheckOutcome(
            "rows_accounted",
            eligible + aside == rows,
            f"{eligible:,} eligible and {aside:,} others make {rows:,} rows.",
        ),
        CheckOutcome(
            "enough_eligible",
            eligible >= MIN_ELIGIBLE * rows,
            f"{eligible:,} of {rows:,} rows can be used for training.",
            warn=True,
        ),
    )


if __name__ == "__main__":
    run_job(STAGE, work)
