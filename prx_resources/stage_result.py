"""What a column stage's job reports: rows by outcome, checks, data version."""

from __future__ import annotations

import lance
import pyarrow as pa
import pyarrow.compute as pc

from prx_resources.contract import CheckOutcome, JobResult, JobSpec, Meta
from prx_resources.data_version import data_version
from prx_resources.due_rows import ColumnStage, reasons


def stage_result(
    ds: lance.LanceDataset, stage: ColumnStage, spec: JobSpec, due: pa.Table, done: int
) -> JobResult:
    """Returns the result of a run.

    Args:
        ds: The table as it is now.
        stage: The stage.
        spec: What was asked for.
        due: The rows that were due when the run began, computed earlier or not.
        done: How many of them this run computed.
    """
    group = stage.group
    rows = ds.to_table(columns=["_rowid", group.fp, group.error], filter=stage.where)
    unfinished = rows.filter(pc.is_null(rows[group.fp]))
    # Rows that came after the version we read are the next run's, not lost.
    lost = pc.sum(pc.is_in(unfinished["_rowid"], value_set=due["_rowid"])).as_py() or 0
    finished = rows.filter(pc.is_valid(rows[group.fp]))
    failed = _counts(reasons(finished[group.error]))
    identities = _counts(finished[group.fp])
    failures = sum(failed.values())
    others = finished.num_rows - identities.get(spec.row_fp, 0)
    set_aside = {**failed, "unfinished": lost} if lost else failed
    checks = (
        CheckOutcome("rows_accounted", not lost, f"{lost:,} due rows have no outcome."),
        CheckOutcome("one_identity", not others, _identity_text(others, spec), warn=True),
        CheckOutcome("failed_rows", not failures, f"{failures:,} rows failed.", warn=True),
    )
    return JobResult(
        data_version=data_version(ds, group, where=stage.where),
        rows_in=finished.num_rows + lost,
        rows_out=finished.num_rows - failures,
        set_aside=set_aside,
        done=done,
        metadata={
            "rows_due": Meta(due.num_rows, "int"),
            "rows_computed": Meta(done, "int"),
            "rows_failed": Meta(failures, "int"),
            "failed_by_reason": Meta(failed, "json"),
            "rows_by_identity": Meta(identities, "json"),
        },
        checks=checks,
    )


def _identity_text(others: int, spec: JobSpec) -> str:
    if not others:
        return f"Every row has the identity {spec.row_fp}."
    return f"{others:,} rows have another identity than {spec.row_fp}; redo makes them anew."


def _counts(values: pa.ChunkedArray) -> dict[str, int]:
    counts = pc.value_counts(pc.drop_null(values)).to_pylist()
    return {entry["values"]: entry["counts"] for entry in sorted(counts, key=lambda e: e["values"])}
