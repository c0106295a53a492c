"""Which rows a column stage has to compute."""

from __future__ import annotations

from dataclasses import dataclass

import lance
import pyarrow as pa
import pyarrow.compute as pc

from prx_resources.chunks import FINISHED
from prx_resources.columns import ColumnGroup
from prx_resources.contract import JobSpec
from prx_resources.lance_sql import all_of, quote
from prx_resources.late_binding import digests


@dataclass(frozen=True)
class ColumnStage:
    """A stage that fills a group of columns.

    Attributes:
        group: The columns it writes.
        reads: Columns handed to the compute; `image` is allowed, `group.input_of` must be there.
        where: Lance SQL of the rows it is responsible for.
    """

    group: ColumnGroup
    reads: tuple[str, ...]
    where: str

    @property
    def name(self) -> str:
        """The stage's name: its asset, its chunks' folder, its range size in the table."""
        return self.group.stage


def due_rows(ds: lance.LanceDataset, stage: ColumnStage, spec: JobSpec) -> pa.Table:
    """Returns the rows to compute: `_rowid`, `content_sha256`, `input`, sorted by `_rowid`.

    Due are rows without a value of any identity and rows whose input changed; on `redo` also those
    of another identity; on `retry_failed` also those that failed for such a reason.
    """
    group = stage.group
    columns = ["_rowid", "content_sha256", group.fp, group.error]
    where = stage.where
    if group.input is not None and group.input_of is not None:
        # Whether an input changed only its digest tells, which SQL can't compute.
        columns += [group.input, group.input_of]
    else:
        open_rows = [f"{group.fp} IS NULL"]
        open_rows += [f"{group.fp} != {quote(spec.row_fp)}"] if spec.redo else []
        open_rows += [f"{group.error} IS NOT NULL"] if spec.retry_failed else []
        where = all_of(where, " OR ".join(open_rows))
    parts = [FINISHED.empty_table()]
    for batch in ds.scanner(columns=columns, filter=where).to_batches():
        rows = pa.Table.from_batches([batch])
        inputs = rows["content_sha256"]
        due = pc.is_null(rows[group.fp])
        if group.input is not None and group.input_of is not None:
            inputs = digests(rows[group.input_of])
            same = pc.fill_null(pc.equal(rows[group.input], inputs), False)
            due = pc.or_(due, pc.invert(same))
        if spec.redo:
            due = pc.or_(due, pc.fill_null(pc.not_equal(rows[group.fp], spec.row_fp), True))
        if spec.retry_failed:
            wanted = pc.is_in(reasons(rows[group.error]), value_set=pa.array(spec.retry_failed))
            due = pc.or_(due, wanted)
        rows = rows.select(["_rowid", "content_sha256"]).append_column("input", inputs)
        parts.append(rows.filter(due).cast(FINISHED))
    return pa.concat_tables(parts).sort_by("_rowid")


def failed_reasons(ds: lance.LanceDataset, group: ColumnGroup) -> set[str]:
    """Returns the reasons for which rows of a stage failed."""
    failed = ds.to_table(columns=[group.error], filter=f"{group.error} IS NOT NULL")
    return set(pc.unique(reasons(failed[group.error])).to_pylist())


def reasons(errors: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns what stands before the colon of each error: a word to count and to select by."""
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(errors, "(?s):.*", ""))
