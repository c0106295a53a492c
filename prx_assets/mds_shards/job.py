"""MDS shards that a trainer streams: every usable, captioned image in the bucket of its size.

An image goes to the largest of four resolution levels that it reaches without growing by more than
4/3, and there to the nearest of 13 aspect ratios. It is resized straight to the bucket's size and
stored as JPEG beside its caption. A trainer reads
`<lake>/mds/<source>/<export>/<level>/<aspect ratio>/`.

An export only adds: new rows and new captions become a new part of their leaf, and old samples keep
their shard and place. Nothing is filtered here: that is what skip-lists are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from prx_assets.mds_shards.census import READS, Census, take_census
from prx_assets.mds_shards.plan import PartPlan, plan_parts
from prx_assets.mds_shards.pool import Pool, RayPool
from prx_assets.mds_shards.report import result
from prx_assets.mds_shards.slices import Slice, Written
from prx_assets.mds_shards.spec import CODE_VERSION, STAGE, MdsShardsSpec
from prx_assets.runtime import Job, run_job
from prx_resources import lance_table, mds_parts, mds_tree
from prx_resources.contract import JobResult
from prx_resources.errors import InvariantError
from prx_resources.lake import Lake
from prx_resources.lease import lease

SECONDS_PER_ROW = 0.03
"""One core's time for a 2 MP JPEG, reading and verification included; for the estimate only."""

_BATCH_ROWS = 65_536


@dataclass
class OpenPart:
    """A part that is being written.

    Attributes:
        plan: What belongs into it.
        name: Its folder below the leaf.
        written: Its finished slices, in any order.
    """

    plan: PartPlan
    name: str
    written: list[Written] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """Key prefix of the part."""
        return f"{self.plan.leaf.prefix}/{self.name}"

    @property
    def complete(self) -> bool:
        """Whether all slices are there."""
        return len(self.written) == self.plan.shards


def work(job: Job, *, pool: Pool | None = None) -> JobResult:
    """Exports the rows that aren't in their leaf yet.

    Args:
        job: Its `tuning` may hold `workers`.
        pool: Where slices are written; None for Ray.
    """
    spec = MdsShardsSpec(**job.spec.params)
    lake = Lake(job.spec.lake)
    uri = lake.images_uri(job.spec.source)
    ds = lance_table.open_published(uri)
    with lance_table.hold(uri, ds.version, job.id):
        census = take_census(
            ds.scanner(columns=list(READS), with_row_id=True, batch_size=_BATCH_ROWS).to_batches()
        )
        _repair_indexes(job, lake)
        plans = _plan(job, spec, lake, census)
        due = sum(plan.rows.num_rows for plan in plans)
        workers = job.spec.tuning.get("workers")
        job.plan(due, f"code {CODE_VERSION}, JPEG q{spec.quality}", due * SECONDS_PER_ROW)
        if plans:
            used = pool or RayPool(job.connect_ray, workers)
            _export(job, spec, lake, plans, ds.version, used)
        _clean(job, lake, [plan.leaf for plan in plans])
    return result(lake, job.spec.source, job.spec.row_fp, spec.quality, census, due)


def _plan(job: Job, spec: MdsShardsSpec, lake: Lake, census: Census) -> list[PartPlan]:
    source, export_fp = job.spec.source, job.spec.row_fp
    failed = mds_parts.failures(lake.store, lake.mds_prefix(source, export_fp))
    retry = job.spec.retry_failed
    return plan_parts(lake.store, census, source, export_fp, spec, failed, retry)


def _export(
    job: Job,
    spec: MdsShardsSpec,
    lake: Lake,
    plans: Sequence[PartPlan],
    version: int,
    pool: Pool,
) -> None:
    store = lake.store
    names = [mds_parts.claim_part(store, plan.leaf, plan.digest) for plan in plans]
    parts = [OpenPart(plan, name) for plan, name in zip(plans, names, strict=True)]
    by_folder = {part.folder: part for part in parts}
    leaves = {plan.leaf.prefix: plan.leaf for plan in plans}
    total, done = sum(plan.rows.num_rows for plan in plans), 0
    for written in pool.run(_tasks(job, spec, parts, version)):
        done += len(written.samples) + len(written.failures)
        job.progress(done, total)
        by_folder[written.folder].written.append(written)
        prefix = by_folder[written.folder].plan.leaf.prefix
        # In the planned order, or the order of samples would hang on which worker was faster.
        while (part := _first(parts, prefix)) is not None and part.complete:
            leaves[prefix] = _commit(job, lake, part, leaves[prefix])
            parts.remove(part)


def _first(parts: Sequence[OpenPart], prefix: str) -> OpenPart | None:
    return next((part for part in parts if part.plan.leaf.prefix == prefix), None)


def _tasks(
    job: Job, spec: MdsShardsSpec, parts: Sequence[OpenPart], version: int
) -> Iterator[Slice]:
    for part in tuple(parts):
        for number, row_ids in enumerate(part.plan.slices()):
            yield Slice(
                lake=job.spec.lake,
                source=job.spec.source,
                version=version,
                folder=part.folder,
                number=number,
                row_ids=row_ids,
                width=part.plan.bucket.width,
                height=part.plan.bucket.height,
                quality=spec.quality,
                max_pixels=spec.max_pixels,
            )


def _commit(job: Job, lake: Lake, part: OpenPart, leaf: mds_tree.Leaf) -> mds_tree.Leaf:
    """Makes a complete part live, if it holds all of its rows."""
    store = lake.store
    slices = sorted(part.written, key=lambda written: written.number)
    failures = [failure for written in slices for failure in written.failures]
    samples = _samples(part.name, slices)
    if samples.num_rows + len(failures) != part.plan.rows.num_rows:
        raise InvariantError(
            f"{part.plan.rows.num_rows} rows were due, {samples.num_rows} samples were written and"
            f" {len(failures)} rows failed",
            where=part.folder,
            fix="run it again",
        )
    mds_parts.note_failures(store, lake.mds_prefix(leaf.source, leaf.export_fp), failures)
    if not samples.num_rows:
        return leaf
    shards = [written.shard for written in slices if written.shard is not None]
    live = mds_parts.finish_part(store, leaf, part.name, shards, samples)
    with lease(store, mds_parts.leaf_lease_name(leaf), job.id) as held:
        return mds_parts.commit_parts(store, leaf, (*leaf.parts, live), held)


def _samples(part: str, slices: Sequence[Written]) -> pa.Table:
    rows = [
        (part, f"{part}/{written.shard['raw_data']['basename']}", index, *sample)
        for written in slices
        for index, sample in enumerate(written.samples)
    ]
    columns = zip(*rows, strict=True) if rows else ([] for _ in mds_tree.SAMPLES_SCHEMA)
    return pa.table([list(column) for column in columns], schema=mds_tree.SAMPLES_SCHEMA)


def _repair_indexes(job: Job, lake: Lake) -> None:
    """Writes the merged indexes that a crash left behind their lists."""
    for leaf in mds_tree.live_leaves(lake.store, job.spec.source, job.spec.row_fp):
        if not mds_tree.index_is_current(lake.store, leaf):
            with lease(lake.store, mds_parts.leaf_lease_name(leaf), job.id) as held:
                now = mds_tree.open_leaf(
                    lake.store, leaf.source, leaf.export_fp, leaf.level, leaf.ar
                )
                mds_parts.write_merged_index(lake.store, now, held)


def _clean(job: Job, lake: Lake, planned: Sequence[mds_tree.Leaf]) -> None:
    """Removes what crashed runs began and no run can go on with, and this run's own notes."""
    live = mds_tree.live_leaves(lake.store, job.spec.source, job.spec.row_fp)
    for leaf in {leaf.prefix: leaf for leaf in (*planned, *live)}.values():
        if mds_parts.has_leftovers(lake.store, leaf):
            with lease(lake.store, mds_parts.leaf_lease_name(leaf), job.id) as held:
                mds_parts.remove_leftovers(lake.store, leaf, held)


if __name__ == "__main__":
    run_job(STAGE, work)
