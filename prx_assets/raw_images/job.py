"""Brings a source's files into its image table: one row per image, grown file by file.

Files whose path and fingerprint are in the table already are not read again. A file that changed
replaces its rows in one commit. An image that can't be decoded is a row that is set aside, with the
reason beside it; a file that can't be read at all fails the run, naming it, after all others are
in the table.
"""

from __future__ import annotations

from collections import Counter

import lance

from prx_assets.raw_images.ingest import Ingest
from prx_assets.raw_images.ledger import read_ledger
from prx_assets.raw_images.listing import list_files
from prx_assets.raw_images.readers import RayReaders, Readers
from prx_assets.raw_images.spec import CODE_VERSION, STAGE, RawImagesSpec
from prx_assets.runtime import run_job
from prx_resources import lance_table
from prx_resources.column_stage import Job
from prx_resources.contract import CheckOutcome, JobResult, Meta
from prx_resources.errors import PrxError, SourceReadError
from prx_resources.lake import Lake

_BYTES_PER_S = 40e6
_EXAMPLES = 10


def work(job: Job, readers: Readers | None = None) -> JobResult:
    """Ingests what is new or changed.

    Args:
        job: The job.
        readers: Where files are read; None for Ray, which is connected only if there is work.

    Raises:
        SourceReadError: The source, or some of its files, can't be read.
        ManifestError: The files aren't what the manifest says.
        InvariantError: The table doesn't hold what was read; nothing was published.
    """
    spec = RawImagesSpec.from_params(job.spec.params)
    lake = Lake(job.spec.lake)
    uri = lake.images_uri(job.spec.source)
    ds = lance_table.open_latest(uri) if lance_table.exists(uri) else None
    has_rows = ds is not None and ds.count_rows() > 0
    files = list_files(spec.kind, spec.uri, spec.glob, allow_empty=has_rows)
    version = 0 if ds is None else int(ds.version)
    ingest = Ingest(job, spec, files, read_ledger(lake, job.spec.source, ds), version)
    due = ingest.due()
    seconds = sum(file.bytes for file in due) / _BYTES_PER_S
    job.plan(len(due), f"code version {CODE_VERSION} (a row is a source file here)", seconds)
    if due:
        dim = ingest.prepare(due)
        if readers is None:
            job.connect_ray()
            readers = RayReaders()
        ingest.read(due, dim, readers)
    ingest.finish()
    _raise_failures(ingest)
    return _result(ingest, lance_table.open_published(uri))


def _raise_failures(ingest: Ingest) -> None:
    errors: list[PrxError] = [r.error for r in ingest.reports if r.error is not None]
    if not errors:
        return
    first = errors[0]
    if len(errors) == 1 and len(ingest.reports) == 1:
        raise first
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    raise SourceReadError(
        f"{len(errors)} of {len(ingest.reports)} files can't be read, the others are in the table:"
        f" {first.what}",
        where=f"{first.where}{more}",
        fix=first.fix,
    )


def _result(ingest: Ingest, ds: lance.LanceDataset) -> JobResult:
    usable = ds.count_rows("set_aside IS NULL")
    aside = ds.to_table(columns=["set_aside"], filter="set_aside IS NOT NULL")
    set_aside = dict(sorted(Counter(aside["set_aside"].to_pylist()).items()))
    ledger = read_ledger(ingest.lake, ingest.source, ds)
    vanished = ledger.vanished(ingest.files)
    gone = [report.file.path for report in ingest.reports if report.gone]
    read = [report for report in ingest.reports if not report.gone]
    without_rows = sum(1 for file in ingest.files if file.path not in ledger.in_table)
    return JobResult(
        data_version=lance_table.ingest_data_version(ds),
        rows_in=usable + len(aside),
        rows_out=usable,
        set_aside=set_aside,
        done=sum(report.rows for report in read),
        metadata={
            "files": Meta(len(ingest.files), "int"),
            "files_read_now": Meta(len(read), "int"),
            "megabytes_read_now": Meta(round(sum(r.file.bytes for r in read) / 1e6, 1), "float"),
            "files_without_images": Meta(without_rows - len(gone), "int"),
            "table": Meta(ingest.uri, "path"),
            "set_aside_examples": Meta(_examples(ds), "table"),
        },
        checks=(
            _passed("rows_accounted", f"{usable + len(aside):,} rows: {usable:,} usable."),
            _passed("files_accounted", f"{len(ingest.files):,} files listed, all accounted for."),
            _rows_set_aside(set_aside),
            _vanished_files([*vanished, *gone]),
        ),
    )


def _examples(ds: lance.LanceDataset) -> list[dict[str, str]]:
    rows = ds.to_table(
        columns=["image_id", "source_file", "set_aside", "set_aside_detail"],
        filter="set_aside IS NOT NULL",
        limit=_EXAMPLES,
    )
    return [{key: value or "" for key, value in row.items()} for row in rows.to_pylist()]


def _passed(name: str, description: str) -> CheckOutcome:
    # Had it failed, the job would have raised instead of publishing.
    return CheckOutcome(name, passed=True, description=description)


def _rows_set_aside(set_aside: dict[str, int]) -> CheckOutcome:
    words = ", ".join(f"{count:,} {reason}" for reason, count in set_aside.items())
    return CheckOutcome(
        "rows_set_aside",
        passed=not set_aside,
        description=f"Set aside: {words}." if words else "No row is set aside.",
        warn=True,
        metadata={reason: Meta(count, "int") for reason, count in set_aside.items()},
    )


def _vanished_files(paths: list[str]) -> CheckOutcome:
    return CheckOutcome(
        "vanished_files",
        passed=not paths,
        description=f"{len(paths):,} files are gone from the source; their rows stay."
        if paths
        else "Every file that has rows is still there.",
        warn=True,
        metadata={"files": Meta(paths[:_EXAMPLES], "json")} if paths else {},
    )


if __name__ == "__main__":
    run_job(STAGE, work)
