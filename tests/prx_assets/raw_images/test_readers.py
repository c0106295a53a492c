from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from prx_assets.raw_images.groups import FileReport, make_groups
from prx_assets.raw_images.job import work
from prx_assets.raw_images.listing import SourceFile
from prx_assets.runtime import Job
from prx_resources.errors import SourceReadError

from .conftest import Source
from .test_job import put
from .test_webdataset import tar_bytes


def files(*sizes: int) -> list[SourceFile]:
    return [SourceFile(f"{n}.tar", "fp", size) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        ((), []),
        ((4, 4, 4), [2, 1]),
        ((100, 1, 1), [1, 2]),
        ((1, 100, 1), [1, 1, 1]),
        ((0,) * 7, [3, 3, 1]),
    ],
)
def test_groups_are_bounded_by_bytes_and_files(sizes: tuple[int, ...], want: list[int]) -> None:
    made = list(make_groups(files(*sizes), target_bytes=10, max_files=3))
    assert [len(group) for group in made] == want
    assert [file for group in made for file in group] == files(*sizes)


def test_reports_cross_processes() -> None:
    error = SourceReadError("broken", where="x.tar", fix="copy it again")
    back = pickle.loads(pickle.dumps(FileReport(files(1)[0], error=error)))
    assert (str(back.error), back.file) == (str(error), files(1)[0])


@pytest.mark.ray
# Ray leaves sockets and processes to the interpreter's end; its workers are no forks of this one.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning")
def test_ray_tasks_read_what_this_process_would(
    connecting_ray_home: Path, source: Source, make_picture: Callable[..., bytes]
) -> None:
    for n in range(5):
        put(source, f"{n}.tar", tar_bytes([(f"{n}.jpg", make_picture(n))]))
    put(source, "9.tar", b"rubbish")
    spec = source.spec("webdataset", tuning={"files_per_task": 2})
    with pytest.raises(SourceReadError, match="1 of 6 files"):
        work(Job(spec, source.run_dir, home=connecting_ray_home))
    assert [row["image"] for row in source.rows()] == [make_picture(n) for n in range(5)]
