"""YAML files that people write: a typo is refused with the file and the nearest right key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from prx_resources.errors import ManifestError

M = TypeVar("M", bound=BaseModel)


class Refusal(ValueError):
    """A validator's refusal that knows what to do; `read` turns it into a `ManifestError`.

    Args:
        what: One sentence without a final full stop.
        fix: The edit that helps.
    """

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns the hint for an unknown word: the nearest known one, or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(names)}"


class StrictModel(BaseModel):
    """A frozen model that refuses unknown keys with the nearest right one."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    raise Refusal(f"unknown key {key!r}", did_you_mean(str(key), cls.model_fields))
        return data


def read(model: type[M], text: str, where: str) -> M:
    """Returns the model that a YAML text describes.

    Raises:
        ManifestError: It isn't YAML, isn't a mapping, repeats a key or doesn't fit the model.
    """
    return validate(model, parse(text, where), where)


def parse(text: str, where: str) -> dict[str, Any]:
    """Returns the top-level mapping of a YAML text; an empty text is an empty mapping.

    Raises:
        ManifestError: It isn't YAML, isn't a mapping, or repeats a key.
    """
    try:
        data = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 (derives from SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}, line {mark.line + 1}" if mark else where
        problem = getattr(error, "problem", None) or "it can't be parsed"
        raise ManifestError(
            f"not valid YAML: {problem}", where=place, fix="correct that line"
        ) from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ManifestError(
            "the file must hold `key: value` lines", where=where, fix="see the README's example"
        )
    return data


def validate(model: type[M], data: Any, where: str) -> M:
    """Returns the model that plain data describes.

    Raises:
        ManifestError: The data doesn't fit; names the key, and `where`.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        cause = first.get("ctx", {}).get("error")
        prefix = f"`{key}`: " if key else ""
        if isinstance(cause, Refusal):
            raise ManifestError(f"{prefix}{cause.what}", where=where, fix=cause.fix) from None
        message = first["msg"][:1].lower() + first["msg"][1:]
        fix = f"add `{key}`" if first["type"] == "missing" else f"correct `{key}`"
        raise ManifestError(f"{prefix}{message}", where=where, fix=fix) from None


def dump(model: BaseModel) -> str:
    """Returns the YAML text of a model, without the keys that hold their default."""
    data = model.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


class _UniqueKeyLoader(yaml.SafeLoader):
    """PyYAML lets the last of two equal keys win; that hides a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            if isinstance(key, str):
                seen.add(key)
        return super().construct_mapping(node, deep)
