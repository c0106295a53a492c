from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest

from prx_resources.errors import EngineError, UnknownError
from prx_resources.plugins import load_engine_class

BUILTIN = {"ordered": "collections:OrderedDict"}


def load(name: str) -> object:
    return load_engine_class(name, BUILTIN, kind="test engine")


def test_a_short_name_and_a_path_of_ones_own() -> None:
    assert load("ordered") is OrderedDict
    assert load("pathlib:Path") is Path


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("orderd", "there is no test engine 'orderd'"),
        ("collections:", "there is no test engine 'collections:'"),
        (":OrderedDict", "there is no test engine"),
        ("no_such_module_at_all:Engine", "module of test engine .* can't be found"),
        ("collections.nothing:Engine", "module of test engine .* can't be found"),
        ("collections:Nothing", "has no 'Nothing'"),
    ],
)
def test_a_wrong_name_is_refused_with_a_fix(name: str, what: str) -> None:
    with pytest.raises(UnknownError, match=what) as refused:
        load(name)
    assert refused.value.fix


@pytest.mark.parametrize("body", ["import no_such_thing_installed", "raise RuntimeError('no GPU')"])
def test_a_module_that_breaks_is_the_engines_fault(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken_engine_{len(body)}"
    (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EngineError, match="can't be imported"):
        load(f"{name}:Engine")
