"""The same table with few large fragments, scalar indexes and no old versions; health numbers.

Reads and rewrites the source's Lance table and changes no row: small fragments slow every reader
down, deleted rows keep their bytes, and each old version pins a copy of what was rewritten since.
Fragments over half the target size are left alone unless more than a fifth of their rows are
deleted, so a run costs nothing until enough was added. Run it after files were added; nightly it
also removes what killed writers left behind.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import lance

from prx_assets.compacted_images.compaction import compact, inline, on_ray, plan, sizes
from prx_assets.compacted_images.spec import STAGE, CompactedImagesSpec
from prx_assets.runtime import Job, run_job
from prx_resources.contract import CheckOutcome, JobResult, Meta
from prx_resources.errors import InvariantError
from prx_resources.lake import Lake
from prx_resources.lance_table import (
    holds,
    ingest_data_version,
    open_latest,
    open_published,
    publish,
    target_fragment_rows,
)
from prx_resources.lease import Lease, lease

INDEXED = ("image_id", "content_sha256", "source_file")
"""Looked up by take-downs, by joins with other tables, and by the ledger."""
_WAIT_S = 3600


def work(job: Job) -> JobResult:
    """Compacts, indexes and cleans the source's table, then publishes it."""
    spec = CompactedImagesSpec(**job.spec.params)
    lake = Lake(job.spec.lake)
    uri = lake.images_uri(job.spec.source)
    open_published(uri)
    with lease(lake.store, f"images/{job.spec.source}", job.id, wait_s=_WAIT_S) as held:
        # First, since Lance doesn't join fragments that an index covers with ones it doesn't.
        _index(uri, held)
        before = open_latest(uri)
        tasks = plan(before, spec.max_deleted)
        live = {part.id: part.live for part in sizes(before)}
        due = sum(live[part.id] for task in tasks for part in task.fragments)
        job.plan(due, f"lance {lance.__version__}", None)
        if len(tasks) > 1:
            job.connect_ray()
        if tasks:
            compact(before, tasks, on_ray if len(tasks) > 1 else inline, held)
            job.progress(due, due)
        after = open_latest(uri)
        versions = (ingest_data_version(before), ingest_data_version(after))
        if versions[0] != versions[1]:
            raise InvariantError(
                "the table's rows changed during compaction; it was not published",
                where=f"{job.spec.source} versions {before.version} and {after.version}",
                fix="run it again; if it stays, report it",
            )
        publish(uri, int(after.version), held)
        cleaned = after.cleanup_old_versions(
            older_than=timedelta(hours=spec.keep_hours), error_if_tagged_old_versions=False
        )
    rows = after.count_rows()
    megabytes = round(cleaned.bytes_removed / 1e6, 1)
    return JobResult(
        data_version=versions[1],
        rows_in=before.count_rows(),
        rows_out=rows,
        done=due,
        metadata={**_health(uri, after), "megabytes_removed": Meta(megabytes, "float")},
        checks=(
            CheckOutcome("rows_accounted", before.count_rows() == rows, f"{rows:,} rows remain."),
            CheckOutcome("unchanged", versions[0] == versions[1], f"Data version {versions[1]}."),
        ),
    )


def _index(uri: str, held: Lease) -> None:
    """Creates the scalar indexes that are missing and adds new rows to the others."""
    ds = open_latest(uri)
    if not ds.count_rows():
        return
    known = {index.name for index in ds.describe_indices()}
    for column in INDEXED:
        name = f"{column}_idx"
        if name not in known:
            held.check()
            ds.create_scalar_index(column, "BTREE", name=name)
        elif _unindexed(ds, name):
            held.check()
            ds.optimize.optimize_indices(index_names=[name])


def _unindexed(ds: lance.LanceDataset, name: str) -> int:
    stats: dict[str, Any] = ds.stats.index_stats(name)
    return int(stats.get("num_unindexed_rows", 0))


def _health(uri: str, ds: lance.LanceDataset) -> dict[str, Meta]:
    fragments, target = sizes(ds), target_fragment_rows(ds)
    return {
        "rows": Meta(ds.count_rows(), "int"),
        "fragments": Meta(len(fragments), "int"),
        "small_fragments": Meta(sum(2 * part.live < target for part in fragments), "int"),
        "deleted_rows": Meta(sum(part.deleted for part in fragments), "int"),
        "versions": Meta(len(ds.versions()), "int"),
        "held_versions": Meta(holds(uri), "json"),
        "table_version": Meta(int(ds.version), "int"),
    }


if __name__ == "__main__":
    run_job(STAGE, work)
