import pytest

from prx_assets.runtime import Job
from prx_resources.contract import JobSpec


@pytest.mark.parametrize(
    ("due", "seconds", "says"),
    [
        (0, 12, "captions of s: nothing due, by me; job j, run folder "),
        (0, None, "captions of s: nothing due, by me; job j, run folder "),
        (1, 12, "captions of s: 1 row due, by me, estimated time 12 s; job j, run folder "),
        (2000, None, "captions of s: 2,000 rows due, by me, estimated time unknown; job j, "),
    ],
)
def test_the_first_line_estimates_only_what_is_due(tmp_path, capsys, due, seconds, says):
    Job(JobSpec("captions", "s", str(tmp_path)), tmp_path, "j").plan(due, "me", seconds)
    assert capsys.readouterr().out.startswith(says)
