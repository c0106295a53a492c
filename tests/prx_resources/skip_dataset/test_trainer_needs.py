from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement

FOREIGN = {"dagster", "ray", "pylance", "lance", "lance-ray", "pyarrow"}


def test_trainer_modules_import_no_orchestration_and_no_tables() -> None:
    # Streaming itself imports what it finds of other frameworks, so only names are compared that
    # it doesn't import alone.
    code = (
        "import sys; import streaming; before = set(sys.modules);"
        "import prx_resources.skip_dataset, prx_resources.skip_list, prx_resources.training_config;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"prx_resources"}


def test_skip_lists_need_numpy_only() -> None:
    code = (
        "import sys; import prx_resources.skip_list, prx_resources.training_config;"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert not loaded & {"dagster", "ray", "lance", "pyarrow", "torch", "streaming"}


def test_the_trainer_extra_requires_neither_dagster_nor_ray_nor_lance() -> None:
    needed = closure("prx-data", {"trainer"})
    assert "mosaicml-streaming" in needed
    assert not needed & (FOREIGN - {"pyarrow"})
    assert {"dagster", "ray", "pylance"} <= closure("prx-data", {"orchestrator", "ray"})


def closure(root: str, extras: set[str]) -> set[str]:
    """Returns the names of everything that a distribution with these extras requires."""
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [(root, frozenset(extras))]
    while todo:
        name, wanted = todo.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            texts = requires(name) or []
        except PackageNotFoundError:
            continue
        for text in texts:
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                todo.append((normal(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in seen} - {root}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
