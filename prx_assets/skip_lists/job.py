"""Compiles the skip-lists: which samples of the export a trainer must not see, and why.

Starts from the samples of every live shard and skips each that no decision covers, so a picture
without a label or a hash never reaches a trainer. Per profile it leaves a list named after its
content, the reason of every skipped sample, and a numbered pointer to both.
"""

from __future__ import annotations

import numpy as np

from prx_assets.runtime import Job, run_job
from prx_assets.skip_lists.bind import Export, bind
from prx_assets.skip_lists.compile import BIT, Decisions, Masks, Policy
from prx_assets.skip_lists.gather import gather
from prx_assets.skip_lists.publish import Published, publish
from prx_assets.skip_lists.spec import CODE_VERSION, REASONS, STAGE, SkipListsSpec
from prx_resources.contract import CheckOutcome, JobResult, Meta, fingerprint
from prx_resources.errors import InvariantError
from prx_resources.lake import Lake
from prx_resources.lease import lease

_SAMPLES_PER_SECOND = 200_000
_ALWAYS_FIRST = ("takedown", "takedown-twin", "superseded", "vanished")
PRECEDENCE = (*_ALWAYS_FIRST, *(reason for reason in REASONS if reason not in _ALWAYS_FIRST))
"""A sample with several reasons is counted under the first of them."""


def work(job: Job) -> JobResult:
    """Compiles and publishes one list per profile."""
    spec = SkipListsSpec(**job.spec.params)
    lake = Lake(job.spec.lake)
    with lease(lake.store, STAGE, job.id) as held:
        export, inputs = gather(lake, spec)
        total = export.samples.num_rows
        job.plan(total, f"rules {CODE_VERSION}", total / _SAMPLES_PER_SECOND)
        decisions = Decisions(inputs)
        done: dict[str, Published] = {}
        masks: dict[str, Masks] = {}
        for name, profile in sorted(spec.profiles.items()):
            policy = Policy(
                frozenset(profile.get("allow", ())), frozenset(profile.get("blocking_gates", ()))
            )
            masks[name] = decisions.masks(policy)
            _check_kept(decisions, masks[name], policy)
            made = bind(export, masks[name])
            done[name] = publish(lake, name, policy, export, made, masks[name], held)
        job.progress(total, total)
    return _result(export, masks, done)


def _check_kept(decisions: Decisions, masks: Masks, policy: Policy) -> None:
    """Checks the list about to be published against the inputs, not against the masks' making."""
    rows = decisions.row[masks == 0]
    label = np.array(decisions.rows["label"].to_pylist() or [None], object)
    bare = ~np.isin(label[rows], policy.labels) | ~np.append(decisions.hashed, False)[rows]
    if (rows < 0).any() or bare.any() or decisions.row_taken_down[rows].any():
        raise InvariantError(
            "a list would keep a sample without label or hash, or a taken-down one",
            fix="nothing was published; report this as a bug of skip_lists",
        )


def _result(export: Export, masks: dict[str, Masks], done: dict[str, Published]) -> JobResult:
    first = "default" if "default" in masks else min(masks)
    counts = {name: count_reasons(mask) for name, mask in masks.items()}
    kept = int((masks[first] == 0).sum())
    undecided = {name: count.get("undecided", 0) for name, count in counts.items()}
    return JobResult(
        data_version=fingerprint({name: one.list_hash for name, one in done.items()}),
        rows_in=len(masks[first]),
        rows_out=kept,
        set_aside=counts[first],
        done=len(masks[first]) if any(one.changed for one in done.values()) else 0,
        metadata={
            "lists": Meta({name: one.list_hash for name, one in done.items()}, "json"),
            "skipped": Meta(_table(counts), "table"),
            "shards": Meta(len(export.shards), "int"),
            "unchanged": Meta(not any(one.changed for one in done.values()), "bool"),
        },
        checks=(
            CheckOutcome("kept_samples_decided", True, f"{kept:,} kept samples, all decided."),
            CheckOutcome("takedowns_honoured", True, "No kept sample is taken down."),
            CheckOutcome(
                "undecided_samples",
                not any(undecided.values()),
                f"{undecided[first]:,} samples wait for a label, a hash or the duplicates.",
                warn=True,
                metadata={name: Meta(count, "int") for name, count in undecided.items()},
            ),
            _keeps_samples(export, masks),
        ),
    )


def count_reasons(masks: Masks) -> dict[str, int]:
    """Counts the skipped samples by their first reason in `PRECEDENCE`."""
    left = masks.copy()
    counts = {}
    for reason in PRECEDENCE:
        hit = (left & BIT[reason]) != 0
        counts[reason] = int(hit.sum())
        left[hit] = 0
    return {reason: count for reason, count in counts.items() if count}


def _table(counts: dict[str, dict[str, int]]) -> list[dict[str, str | int]]:
    return [
        {"profile": name, "reason": reason, "samples": count}
        for name, reasons in counts.items()
        for reason, count in reasons.items()
    ]


def _keeps_samples(export: Export, masks: dict[str, Masks]) -> CheckOutcome:
    owner = export.source_of_sample()
    empty = sorted(
        f"{source} ({name})"
        for name, mask in masks.items()
        for source in export.sources
        if not (mask[owner == export.sources.index(source)] == 0).any()
    )
    text = f"Nothing is kept of {', '.join(empty)}." if empty else "Every source keeps samples."
    return CheckOutcome("keeps_samples", not empty, text, warn=True)


if __name__ == "__main__":
    run_job(STAGE, work)
