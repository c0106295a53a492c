"""Actors on a real Ray: death, engines that can't start, errors as users see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prx_assets.runtime import Job
from prx_resources.column_stage import ColumnStage, Compute, run
from prx_resources.columns import CAPTIONS
from prx_resources.contract import JobResult, JobSpec
from prx_resources.errors import EngineError

pytestmark = pytest.mark.ray

STAGE = ColumnStage(CAPTIONS, ("image",), "set_aside IS NULL")


def caption(images: Any, home: Path, factory: Callable[[], Compute]) -> JobResult:
    spec = JobSpec("captions", "s", images.lake.root, ingredients={"model": "m"})
    job = Job(spec, Path(images.lake.root), "job-1", home=home)
    return run(job, STAGE, factory, workers=2)


# Ray's workers can't import test modules; functions inside functions travel by value.
def engine(log: str, what: str = "") -> Callable[[], Compute]:
    def factory() -> Compute:
        import os
        import signal
        from pathlib import Path

        import pyarrow as pa

        def compute(rows: pa.Table) -> pa.Table:
            ids = rows["_rowid"].to_pylist()
            count = len(ids)
            flag = Path(f"{log}.killed")
            doomed = what == "kill always" or (what == "kill once" and not flag.exists())
            if doomed and 5 in ids:
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "raise" and 5 in ids:
                raise ZeroDivisionError("a bug in the engine")
            with Path(log).open("a") as file:
                file.write("".join(f"{row}\n" for row in ids))
            return pa.table(
                {
                    "caption": [bytes(data).decode()[:12] for data in rows["image"].to_pylist()],
                    "caption_model": ["m"] * count,
                    "caption_gates": pa.nulls(count, pa.string()),
                    "caption_error": pa.nulls(count, pa.string()),
                }
            )

        if what == "no start":
            raise FileNotFoundError("no weights at /nowhere")
        return compute

    return factory


def right(images: Any) -> bool:
    return all(
        text == (key.removeprefix("s/") * 100)[:12]
        for key, (text,) in images.by_id("caption").items()
    )


def asked(log: Path) -> list[int]:
    return sorted(int(line) for line in log.read_text().split())


def test_a_killed_worker_is_replaced_and_no_finished_range_repeated(
    images: Any, connecting_ray_home: Path, tmp_path: Path
) -> None:
    images.add(24)
    log = tmp_path / "asked"
    result = caption(images, connecting_ray_home, engine(str(log), "kill once"))
    assert (tmp_path / "asked.killed").exists()
    assert asked(log) == list(range(24))
    assert right(images)
    assert (result.rows_in, result.rows_out, result.done) == (24, 24, 24)


def test_an_engine_that_cant_start_fails_at_once_with_its_reason(
    images: Any, connecting_ray_home: Path, tmp_path: Path
) -> None:
    images.add(4)
    with pytest.raises(EngineError, match="FileNotFoundError: no weights at /nowhere"):
        caption(images, connecting_ray_home, engine(str(tmp_path / "asked"), "no start"))


def test_a_worker_that_dies_again_and_again_fails_and_keeps_the_rest(
    images: Any, connecting_ray_home: Path, tmp_path: Path
) -> None:
    images.add(8)
    log = tmp_path / "asked"
    with pytest.raises(EngineError, match="died 4 times"):
        caption(images, connecting_ray_home, engine(str(log), "kill always"))
    caption(images, connecting_ray_home, engine(str(log)))
    assert asked(log) == list(range(8))
    assert right(images)


def test_a_bug_in_an_engine_arrives_as_itself(
    images: Any, connecting_ray_home: Path, tmp_path: Path
) -> None:
    images.add(8)
    with pytest.raises(ZeroDivisionError, match="a bug in the engine"):
        caption(images, connecting_ray_home, engine(str(tmp_path / "asked"), "raise"))
