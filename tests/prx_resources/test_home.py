"""PRX_HOME gets Dagster's configuration from the repository's one template."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prx_resources import home as home_module
from prx_resources.errors import RefusedError
from prx_resources.home import dagster_home, prepare_home

TEMPLATE = Path(__file__).parents[2] / "deploy/dagster/local.yaml"


def test_dagster_yaml_is_the_template(tmp_path: Path) -> None:
    prepare_home(tmp_path / "new" / "home")
    written = dagster_home(tmp_path / "new" / "home") / "dagster.yaml"
    assert written.read_bytes() == TEMPLATE.read_bytes()
    assert os.listdir(written.parent) == ["dagster.yaml"]  # noqa: PTH208


def test_an_old_file_is_replaced_and_a_current_one_left(tmp_path: Path) -> None:
    prepare_home(tmp_path)
    written = dagster_home(tmp_path) / "dagster.yaml"
    written.write_text("old: true\n")
    prepare_home(tmp_path)
    before = written.stat().st_ino
    prepare_home(tmp_path)
    assert written.read_bytes() == TEMPLATE.read_bytes()
    assert written.stat().st_ino == before


def test_without_the_repository_the_refusal_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_module, "_TEMPLATE", tmp_path / "gone.yaml")
    with pytest.raises(RefusedError) as refused:
        prepare_home(tmp_path)
    assert "checkout of the repository" in refused.value.fix
