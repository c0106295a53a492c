"""Engines by name: a built-in's short name, or `module:Class` for a team's own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from prx_resources.errors import EngineError, UnknownError


def load_engine_class(name: str, builtin: Mapping[str, str], *, kind: str) -> Any:
    """Returns the class (or factory) that `name` stands for.

    Args:
        name: A key of `builtin`, or `module:attribute`, importable where the job runs.
        builtin: Short name -> `module:attribute`.
        kind: What is being loaded, for the messages ("caption engine").

    Raises:
        UnknownError: The name is neither, or module or attribute don't exist.
        EngineError: The module exists but can't be imported.
    """
    known = ", ".join(sorted(builtin))
    target = builtin.get(name, name)
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise UnknownError(
            f"there is no {kind} {name!r}",
            fix=f"use one of: {known}; or your own as 'package.module:Class'",
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            raise UnknownError(
                f"the module of {kind} {name!r} can't be found",
                where=module_name,
                fix=f"install it where the job runs, or use one of: {known}",
            ) from error
        raise _broken(name, kind, error) from error
    except Exception as error:
        raise _broken(name, kind, error) from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise UnknownError(
            f"module {module_name!r} has no {attribute!r}",
            where=f"{kind} {name!r}",
            fix="write the class's name after the colon",
        ) from error


def _broken(name: str, kind: str, error: Exception) -> EngineError:
    return EngineError(
        f"the {kind} {name!r} can't be imported: {type(error).__name__}: {error}",
        fix="install what it needs where the job runs (extra 'local' for the built-in labeller)",
    )
