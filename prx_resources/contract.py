"""What crosses the wall between an asset (Dagster) and its job (Ray): specs, results, fingerprints.

Stdlib only: both sides import it, and a job's interpreter may not be the orchestrator's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from prx_resources.errors import RefusedError

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict of these."""

SOURCE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
ALL_SOURCES = "all"
"""Stands where a source's name would for a global stage's job; refused as a source's name."""


def check_source_name(name: str) -> str:
    """Returns `name` if it may name a source.

    Raises:
        RefusedError: It isn't `[a-z0-9][a-z0-9-]{0,47}`, or it is reserved.
    """
    if SOURCE_NAME.fullmatch(name) is None or name == ALL_SOURCES:
        raise RefusedError(
            f"{name!r} can't name a source",
            fix="use 1-48 lower-case letters, digits and hyphens, starting with a letter or digit"
            f", and not {ALL_SOURCES!r}",
        )
    return name


def canonical_json(value: Json) -> str:
    """Returns the one JSON text of `value`: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(value: Json) -> str:
    """Returns the first 16 hex digits of SHA-256 over the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def row_fingerprint(stage: str, ingredients: Mapping[str, Json]) -> str:
    """Returns the identity of the values a stage writes.

    Args:
        stage: The stage's name.
        ingredients: Everything that changes a value: hand-bumped `code_version`, model, revision,
            prompt, thresholds, policy. Never a table version, source, file list, chunk size or
            tuning.
    """
    return fingerprint({"stage": stage, "ingredients": dict(ingredients)})


def text_digest(text: str) -> str:
    """Returns the 16 hex digit digest that stands for an input column's text (a caption)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True)
class JobSpec:
    """Everything a stage's job needs to know; small enough for an environment variable.

    Attributes:
        stage: Package below `prx_assets` whose `job` module is run.
        source: Source's name, or `ALL_SOURCES` for a global stage.
        lake: Root of the lake: an absolute local path or a URI.
        ingredients: What the row fingerprint is made of.
        params: The stage's own frozen dataclass (its `spec.py`) as a dict.
        tuning: Batch sizes, replicas, flush times; never part of a fingerprint.
        redo: Also recompute rows that carry another identity.
        retry_failed: Reasons whose rows are tried again.
    """

    stage: str
    source: str
    lake: str
    ingredients: dict[str, Json] = field(default_factory=dict)
    params: dict[str, Json] = field(default_factory=dict)
    tuning: dict[str, Json] = field(default_factory=dict)
    redo: bool = False
    retry_failed: tuple[str, ...] = ()

    @property
    def row_fp(self) -> str:
        """Identity of the values this job would write."""
        return row_fingerprint(self.stage, self.ingredients)

    @property
    def fingerprint(self) -> str:
        """Identity of this submission: two specs of one fingerprint are the same work."""
        return fingerprint({**self.to_json(), "tuning": None})

    def to_json(self) -> dict[str, Json]:
        """Returns the spec as plain JSON."""
        return {**asdict(self), "retry_failed": list(self.retry_failed)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> JobSpec:
        """Rebuilds a spec from `to_json`'s dict."""
        return cls(**{**data, "retry_failed": tuple(data.get("retry_failed", ()))})


@dataclass(frozen=True)
class Meta:
    """One metadata entry of a materialization or check.

    Attributes:
        value: The raw value; for `type` "table" a list of flat dicts.
        type: A Pipes metadata type: int, float, text, md, url, path, json, bool, table.
    """

    value: Json
    type: str


@dataclass(frozen=True)
class CheckOutcome:
    """The result of one asset check, decided by the job.

    Attributes:
        name: Name of the check spec on the asset.
        passed: Whether it holds.
        description: One sentence for people.
        warn: True if a failure warns instead of failing (severity WARN).
        metadata: Numbers that back the sentence.
    """

    name: str
    passed: bool
    description: str = ""
    warn: bool = False
    metadata: dict[str, Meta] = field(default_factory=dict)


@dataclass(frozen=True)
class JobResult:
    """What a job leaves behind in `result.json` and reports to Dagster.

    Attributes:
        data_version: The stage's data version after the job.
        rows_in: Rows (files, samples) the stage is responsible for.
        rows_out: Rows that carry a good value.
        set_aside: Rows without one, by reason; `rows_in == rows_out + sum(set_aside)`.
        done: Rows computed by this very job; 0 means unchanged.
        metadata: For the materialization.
        checks: Outcomes for every check spec of the asset.
    """

    data_version: str
    rows_in: int
    rows_out: int
    set_aside: dict[str, int] = field(default_factory=dict)
    done: int = 0
    metadata: dict[str, Meta] = field(default_factory=dict)
    checks: tuple[CheckOutcome, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Returns the result as plain JSON."""
        return {**asdict(self), "checks": [asdict(check) for check in self.checks]}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> JobResult:
        """Rebuilds a result from `to_json`'s dict."""
        checks = tuple(
            CheckOutcome(**{**check, "metadata": _metas(check["metadata"])})
            for check in data["checks"]
        )
        return cls(**{**data, "metadata": _metas(data["metadata"]), "checks": checks})


def _metas(data: Mapping[str, Json]) -> dict[str, Meta]:
    return {key: Meta(**value) for key, value in data.items()}
