from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from prx_resources import keeper
from prx_resources.processes import this_process


def test_a_deep_home_gets_a_short_session_folder_of_its_own(tmp_path: Path) -> None:
    deep, other = tmp_path / ("d" * 100), tmp_path / ("e" * 100)

    assert keeper.temp_dir(Path("/srv/prx")) == Path("/srv/prx/ray/tmp")
    assert len(os.fsencode(keeper.temp_dir(deep))) <= 40
    assert keeper.temp_dir(deep) != keeper.temp_dir(other)


def test_an_address_left_by_a_process_whose_id_was_reused_is_not_a_running_ray(
    prx_home: Path,
) -> None:
    (prx_home / "ray").mkdir()
    data = {"address": "127.0.0.1:1", "pid": os.getpid(), "token": "t"}
    path = prx_home / "ray" / "address.json"

    path.write_text(json.dumps({**data, "started": "long ago"}))
    assert keeper.running(prx_home) is None
    path.write_text(json.dumps({**data, "started": this_process().started}))
    assert keeper.running(prx_home) is not None


def test_stopping_what_does_not_run_says_so(prx_home: Path) -> None:
    assert keeper.stop(prx_home) is False


def test_the_keeper_is_idle_ten_minutes_after_the_last_use_and_never_beside_a_job(
    prx_home: Path,
) -> None:
    used = prx_home / "ray" / "used"
    used.parent.mkdir()
    used.touch()
    assert not keeper.is_idle(prx_home)
    os.utime(used, (1, 1))
    assert keeper.is_idle(prx_home)

    os.utime(used, (1, 1))
    job = prx_home / "runs" / "prx-captions-cats-0123456789abcdef-1"
    job.mkdir(parents=True)
    (job / "job.json").write_text(json.dumps(asdict(this_process())))
    assert not keeper.is_idle(prx_home)
