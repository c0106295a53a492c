"""Full-text search over the original captions and nearest neighbours over the source's vectors.

Both serve exploration before the project's own captions exist. Rows added after an index was built
are still found, by looking at each; the index is extended once they are more than a tenth. A source
with few vectors needs no index for them: all are compared.
"""

from __future__ import annotations

import lance

from prx_assets.runtime import Job, run_job
from prx_assets.search_index.indexing import Coverage, bring_up_to_date, coverage
from prx_assets.search_index.search import TEXT_INDEX
from prx_assets.search_index.spec import CODE_VERSION, STAGE, SearchIndexSpec
from prx_resources import lance_table
from prx_resources.contract import CheckOutcome, JobResult, Meta, fingerprint
from prx_resources.lake import Lake
from prx_resources.lease import lease


def work(job: Job) -> JobResult:
    """Builds or extends the source's indexes where needed."""
    spec = SearchIndexSpec(**job.spec.params)
    lake, source = Lake(job.spec.lake), job.spec.source
    uri = lake.images_uri(source)
    ds = lance_table.open_published(uri)
    due = [state for state in coverage(ds, spec) if state.action]
    rows = sum(state.values for state in due)
    job.plan(
        rows, ", ".join(f"{s.action} {s.index}" for s in due) or "existing indexes", rows / 2e4
    )
    if due:
        with lease(lake.store, f"images/{source}", job.id) as held:
            # The newest version: another writer may have committed since the published one.
            ds = lance_table.open_latest(uri)
            for state in coverage(ds, spec):
                held.check()
                bring_up_to_date(ds, state)
            lance_table.publish(uri, ds.version, held)
    job.progress(rows, rows)
    return _result(ds, spec, rows)


def _result(ds: lance.LanceDataset, spec: SearchIndexSpec, done: int) -> JobResult:
    states = coverage(ds, spec)
    total = ds.count_rows()
    searchable = ds.count_rows(filter=" OR ".join(f"{s.column} IS NOT NULL" for s in states))
    nothing = total - searchable
    return JobResult(
        data_version=fingerprint([STAGE, CODE_VERSION, lance_table.ingest_data_version(ds)]),
        rows_in=total,
        rows_out=searchable,
        set_aside={"nothing_to_search": nothing} if nothing else {},
        done=done,
        metadata={"indexes": Meta([_row(state) for state in states], "table")},
        checks=_checks(states, spec, total),
    )


def _row(state: Coverage) -> dict[str, str | int]:
    how = "index" if state.built else "one by one" if state.values else "nothing to search"
    outside = state.outside if state.built else 0
    return {
        "column": state.column,
        "rows_with_value": state.values,
        "searched_by": how,
        "rows_outside_index": outside,
    }


def _checks(states: list[Coverage], spec: SearchIndexSpec, total: int) -> tuple[CheckOutcome, ...]:
    # Text can only be searched through an index; vectors without one are compared one by one.
    lost = [s.column for s in states if s.index == TEXT_INDEX and s.values and not s.built]
    late = [s.column for s in states if s.action]
    return (
        CheckOutcome(
            "searchable",
            not lost,
            f"{', '.join(lost)} can't be searched." if lost else "Every row with a value is found.",
        ),
        CheckOutcome(
            "indexed",
            not late,
            f"{', '.join(late)}: over {spec.max_unindexed:.0%} of {total:,} rows outside the index."
            if late
            else "The indexes cover nearly all rows.",
            warn=True,
        ),
    )


if __name__ == "__main__":
    run_job(STAGE, work)
