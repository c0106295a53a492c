"""Groups of equal pictures over all sources, and which copy of each stays.

Two images are copies if their hashes are equal, their colour signatures agree and neither is flat,
or if their files are the same byte for byte. Groups are the connected components. The copy with
most pixels comes first, then the higher priority of its source, the larger file, the image_id.
The table names every image that was compared, so that a later reader knows which were not.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prx_assets.duplicates.grouping import groups
from prx_assets.duplicates.hashes import Source, contents, open_source, signatures
from prx_assets.duplicates.ranking import SCHEMA, ranked
from prx_assets.duplicates.spec import READS_KEY, STAGE, DuplicatesSpec
from prx_assets.runtime import Job, run_job
from prx_resources.contract import CheckOutcome, JobResult, Meta, fingerprint
from prx_resources.data_version import rows_version
from prx_resources.errors import InvariantError
from prx_resources.lake import Lake
from prx_resources.lease import lease

LARGE_GROUP = 100
"""Members from which a group looks like a mistake of the hash rather than like copies."""

_KEEP_VERSIONS = timedelta(days=7)


def work(job: Job) -> JobResult:
    """Brings the table up to date with the published hashes of all sources."""
    spec = DuplicatesSpec.from_params(**job.spec.params)
    lake = Lake(job.spec.lake)
    sources = [open_source(lake, name, priority) for name, priority in spec.sources]
    inputs = fingerprint([spec.ingredients(), [source.data_version for source in sources]])
    reads = read_notes(lake.duplicates_uri)
    rows = sum(source.rows for source in sources)
    due = reads is None or reads["inputs"] != inputs
    job.plan(rows if due else 0, f"signature tolerance {spec.signature_tolerance}", rows / 5e5)
    if due:
        with lease(lake.store, STAGE, job.id) as held:
            table = _compare(sources, spec.signature_tolerance)
            reads = {
                "inputs": inputs,
                "data_version": rows_version(STAGE, [table]),
                "sources": {source.name: source.read() for source in sources},
            }
            table = table.replace_schema_metadata({READS_KEY: json.dumps(reads)})
            held.check()
            written = lance.write_dataset(table, lake.duplicates_uri, mode="overwrite")
            # Each version is a whole table; skip-list jobs still reading one take hours at most.
            written.cleanup_old_versions(older_than=_KEEP_VERSIONS)
    assert reads is not None
    job.progress(rows, rows)
    return _result(lake.duplicates_uri, sources, reads["data_version"], rows if due else 0)


def read_notes(uri: str) -> dict[str, Any] | None:
    """Returns what the newest table says it has read (`spec.READS_KEY`), None without a table."""
    try:
        ds = lance.dataset(uri)
    except (ValueError, FileNotFoundError):  # what Lance raises where there is no table
        return None
    metadata = ds.schema.metadata or {}
    text = metadata.get(READS_KEY.encode())
    return None if text is None else dict(json.loads(text))


def _compare(sources: list[Source], tolerance: int) -> pa.Table:
    tables = [source.table() for source in sources if source.ds is not None]
    if not tables:
        return SCHEMA.empty_table()
    rows = pa.concat_tables(tables)
    group = groups(
        rows["phash"].to_numpy(),
        signatures(rows),
        rows["phash_flat"].to_numpy().astype(np.bool_),
        contents(rows),
        tolerance,
    )
    table = ranked(rows.drop_columns(["signature"]), group)
    ids = table["image_id"]  # sorted
    if table.num_rows > 1 and pc.any(pc.equal(ids[1:], ids[:-1])).as_py():
        raise InvariantError(
            "an image_id stands in the image tables twice, so nothing was written",
            where=STAGE,
            fix="materialize raw_images of the source again: it sets the second row aside",
        )
    return table


def _result(uri: str, sources: list[Source], data_version: str, done: int) -> JobResult:
    table = lance.dataset(uri).to_table(columns=["image_id", "group", "phash_flat"])
    covered = sum(source.rows for source in sources)
    unhashed = sum(source.unhashed for source in sources)
    grouped = table.filter(pc.is_valid(table["group"]))
    sizes = Counter(grouped["group"].to_pylist())
    # An id is `<source>/<key>`, and a source's name has no slash.
    spans: dict[str, set[str]] = {}
    for image_id, group in zip(
        grouped["image_id"].to_pylist(), grouped["group"].to_pylist(), strict=True
    ):
        spans.setdefault(group, set()).add(image_id.partition("/")[0])
    largest = max(sizes.values(), default=0)
    metadata = {
        "groups": Meta(len(sizes), "int"),
        "groups_across_sources": Meta(sum(len(span) > 1 for span in spans.values()), "int"),
        "extra_copies": Meta(sum(sizes.values()) - len(sizes), "int"),
        "largest_group": Meta(largest, "int"),
        "flat_images": Meta(int(pc.sum(table["phash_flat"]).as_py() or 0), "int"),
        "read": Meta(
            [{"source": s.name, **s.read(), "without_hash": s.unhashed} for s in sources], "table"
        ),
    }
    return JobResult(
        data_version=data_version,
        rows_in=covered + unhashed,
        rows_out=covered,
        set_aside={"no_hash": unhashed} if unhashed else {},
        done=done,
        metadata=metadata,
        checks=_checks(sources, table.num_rows, covered, largest),
    )


def _checks(
    sources: list[Source], rows: int, covered: int, largest: int
) -> tuple[CheckOutcome, ...]:
    identities = Counter[str]()
    for source in sources:
        identities.update(source.identities)
    listed = ", ".join(f"{count:,} rows by {fp}" for fp, count in sorted(identities.items()))
    return (
        CheckOutcome(
            "rows_accounted",
            rows == covered,
            f"The table has {rows:,} rows for {covered:,} images with a hash.",
        ),
        CheckOutcome(
            "one_identity",
            len(identities) <= 1,
            f"Hashes follow {len(identities)} sets of rules: {listed or 'none yet'}.",
            warn=True,
        ),
        CheckOutcome(
            "group_sizes",
            largest < LARGE_GROUP,
            f"The largest group has {largest:,} members.",
            warn=True,
        ),
    )


if __name__ == "__main__":
    run_job(STAGE, work)
