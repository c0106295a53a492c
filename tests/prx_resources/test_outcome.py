from __future__ import annotations

import errno
import os
from pathlib import Path

from prx_resources.contract import CheckOutcome, JobResult, Meta
from prx_resources.errors import TableError
from prx_resources.jobs import SubmissionId, readable_tail
from prx_resources.outcome import JobFailure, Outcome


def test_an_outcome_survives_its_file(tmp_path: Path) -> None:
    result = JobResult(
        "v1", 2, 1, {"decode": 1}, 1, {"n": Meta(1, "int")}, (CheckOutcome("c", False),)
    )
    for outcome in (Outcome(result=result), Outcome(failure=JobFailure.of_stop())):
        outcome.write(tmp_path)
        assert Outcome.read(tmp_path) == outcome


def test_an_exception_that_a_task_raised_is_unwrapped() -> None:
    class RayTaskError(Exception):
        pass

    wrapped = RayTaskError("ray::work() (pid=1)\nTraceback ...")
    wrapped.cause = TableError("the tag is gone", where="cats", fix="run it again")  # type: ignore[attr-defined]

    assert str(JobFailure.of(wrapped)) == "TableError: the tag is gone (cats)\n  fix: run it again"


def test_a_tail_has_no_frames_of_ray() -> None:
    log = """starting
ray::work() (pid=4, ip=127.0.0.1)
  File "/venv/lib/python3.11/site-packages/ray/_private/worker.py", line 2, in get
    raise value.as_instanceof_cause()
  File "/code/stage/job.py", line 9, in work
    broken()
ValueError: broken
"""
    assert readable_tail(log, 10).splitlines() == [
        "starting",
        '  File "/code/stage/job.py", line 9, in work',
        "    broken()",
        "ValueError: broken",
    ]


def test_a_source_whose_name_starts_with_anothers_is_another_source() -> None:
    id_ = SubmissionId("captions", "cats-2", "0123456789abcdef", 3)

    assert SubmissionId.parse(id_.text) == id_
    assert SubmissionId.parse("prx-captions-cats-3") is None


def test_a_full_disk_is_called_so_whoever_noticed_it() -> None:
    for error in (
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError("LanceError(IO): No space left on device (os error 28), /rust/writer.rs:190:9"),
    ):
        said = str(JobFailure.of(error))
        assert said.startswith("StoreRefused: the disk is full")
        assert "\n  fix: free some space" in said
    assert JobFailure.of(OSError(errno.EIO, "Input/output error")).kind == "OSError"
