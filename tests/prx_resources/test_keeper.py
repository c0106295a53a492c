from __future__ import annotations

import json
import os
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
