"""A stage's job that does what its spec says, for the tests of launching."""

from __future__ import annotations

import os
import time
from pathlib import Path

from prx_assets.runtime import Job, run_job
from prx_resources.contract import CheckOutcome, JobResult, Meta
from prx_resources.errors import TableError


def work(job: Job) -> JobResult:
    params = job.spec.params
    rows = params.get("rows", 4)
    job.plan(rows, "dummy engine", 12)
    for done in range(rows + 1):
        job.progress(done, rows)
    if gate := params.get("gate"):
        while not Path(gate).exists():
            time.sleep(0.02)
    if params.get("ray"):
        return on_ray(job)
    if params.get("fail"):
        raise TableError("the table has no column 'x'", where="cats", fix="run `prx doctor`")
    if params.get("crash"):
        return {}["missing"]
    if params.get("vanish"):
        os._exit(9)
    if params.get("lose_messages"):
        (job.run_dir / "messages.jsonl").write_text("")
        job._pipes._message_channel._path = os.devnull
    return result(rows)


def result(rows: int) -> JobResult:
    return JobResult(
        data_version="v7",
        rows_in=rows,
        rows_out=rows,
        done=rows,
        metadata={"formats": Meta([{"format": "jpeg", "rows": rows}], "table")},
        checks=(CheckOutcome("rows_accounted", True, "every row has a fate"),),
    )


def on_ray(job: Job) -> JobResult:
    job.connect_ray()
    import ray

    @ray.remote
    def double(x: int) -> int:
        if x == 3 and job_fails:
            raise TableError("row 3 is broken", where="cats", fix="remove it")
        return 2 * x

    job_fails = bool(job.spec.params.get("fail"))
    assert ray.get([double.remote(x) for x in range(4)]) == [0, 2, 4, 6]
    return result(4)


if __name__ == "__main__":
    run_job("dummy", work)
