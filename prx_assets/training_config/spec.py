"""What the job that compiles training configurations must know."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

STAGE = "training_config"
CODE_VERSION = 1
"""Bumped by hand whenever the same lists would give another configuration."""

CHECKS: tuple[tuple[str, bool, str], ...] = (
    ("lists_match_leaves", True, "Every shard that a list names is live and unchanged."),
    ("streams_fill_batches", True, "Every stream fills a device batch on each canonical node."),
    ("nothing_left_out", False, "No bucket has too few samples to be trained on."),
)
"""(name, blocking, description) of the asset's checks."""


@dataclass(frozen=True)
class TrainingConfigSpec:
    """What a configuration is compiled for.

    Attributes:
        profiles: Skip profiles; each gets a configuration.
        weights: Source -> how often each of its samples is drawn in an epoch; 1 if not named.
        batch_size: Samples of one device batch.
        canonical_nodes: Streaming's `num_canonical_nodes`.
    """

    profiles: tuple[str, ...] = ("default",)
    weights: dict[str, float] = field(default_factory=dict)
    batch_size: int = 8
    canonical_nodes: int = 1

    def ingredients(self) -> dict[str, Any]:
        """Returns all that changes a configuration beside the data, for the fingerprint."""
        return {"code_version": CODE_VERSION, **self.params}

    @property
    def params(self) -> dict[str, Any]:
        """The spec as the `params` of a `JobSpec`."""
        return {**asdict(self), "profiles": list(self.profiles)}
