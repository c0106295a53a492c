"""Compiles the loader's configuration from the skip-lists: streams, weights and a lock file.

The lock names the skip-list and every shard with its hash, so a configuration is the data set, and
parts that are added later don't change it. It is compiled for a batch size and a number of
canonical nodes: streams that couldn't fill a batch are pooled over sources or left out, and
reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from prx_assets.runtime import Job, run_job
from prx_assets.training_config.documents import Compiled, compile_documents
from prx_assets.training_config.lists import check_live, current_list
from prx_assets.training_config.plan import Leaf, Plan, plan
from prx_assets.training_config.spec import CODE_VERSION, STAGE, TrainingConfigSpec
from prx_resources.contract import CheckOutcome, JobResult, Meta, canonical_json, fingerprint
from prx_resources.lake import Lake
from prx_resources.lease import Lease, lease
from prx_resources.object_store import latest_pointer, next_pointer


@dataclass(frozen=True)
class Made:
    """One profile's configuration.

    Attributes:
        plan: What is trained on.
        lock: Its name.
        changed: Whether the pointer moved.
        samples: Samples of all its shards, kept or not.
    """

    plan: Plan
    lock: str
    changed: bool
    samples: int

    @property
    def kept(self) -> int:
        """Samples that are trained on."""
        return sum(stream.samples for stream in self.plan.streams)


def work(job: Job) -> JobResult:
    """Compiles and publishes one configuration per profile."""
    spec = TrainingConfigSpec(**{**job.spec.params, "profiles": tuple(job.spec.params["profiles"])})
    lake = Lake(job.spec.lake)
    job.plan(len(spec.profiles), f"rules {CODE_VERSION}", 1.0 * len(spec.profiles))
    with lease(lake.store, STAGE, job.id) as held:
        made = {}
        for number, profile in enumerate(spec.profiles):
            made[profile] = _compile(lake, spec, profile, held)
            job.progress(number + 1, len(spec.profiles))
    return _result(lake, made)


def _compile(lake: Lake, spec: TrainingConfigSpec, profile: str, held: Lease) -> Made:
    skip_list = current_list(lake, profile)
    check_live(lake, skip_list)
    kept = skip_list.kept_per_leaf()
    leaves = [
        Leaf(name, count, spec.weights.get(name.split("/")[0], 1.0)) for name, count in kept.items()
    ]
    planned = plan(leaves, spec.batch_size, spec.canonical_nodes)
    compiled = compile_documents(
        planned,
        skip_list,
        spec.batch_size,
        spec.canonical_nodes,
        lake.skip_list_prefix(skip_list.hash),
    )
    total = sum(shard.samples for shard in skip_list.shards)
    return Made(planned, compiled.lock, _publish(lake, profile, compiled, held), total)


def _publish(lake: Lake, profile: str, compiled: Compiled, held: Lease) -> bool:
    prefix = lake.training_config_prefix(compiled.lock)
    for name, data in compiled.files.items():
        lake.store.put_if_absent(f"{prefix}/{name}", data)
    pointer = canonical_json({"config": compiled.lock}).encode()
    latest = latest_pointer(lake.store, lake.training_config_pointer(profile))
    if latest is not None and latest[1] == pointer:
        return False
    held.check()
    next_pointer(lake.store, lake.training_config_pointer(profile), pointer)
    return True


def _result(lake: Lake, made: dict[str, Made]) -> JobResult:
    first = made.get("default") or next(iter(made.values()))
    left_out = _left_out(made)
    unfilled = sum(first.plan.left_out.values())
    aside = {"skipped": first.samples - first.kept - unfilled, "left_out": unfilled}
    pooled = sum(len(stream.leaves) > 1 for stream in first.plan.streams)
    return JobResult(
        data_version=fingerprint({name: one.lock for name, one in made.items()}),
        rows_in=first.samples,
        rows_out=first.kept,
        set_aside={reason: count for reason, count in aside.items() if count},
        done=first.kept if any(one.changed for one in made.values()) else 0,
        metadata={
            "configs": Meta({name: one.lock for name, one in made.items()}, "json"),
            "load": Meta(lake.uri(lake.training_config_pointer(min(made))), "path"),
            "streams": Meta(_table(made), "table"),
            "pooled_streams": Meta(pooled, "int"),
            "left_out": Meta(left_out, "table"),
            "empty_leaves": Meta({name: len(one.plan.empty) for name, one in made.items()}, "json"),
        },
        checks=(
            CheckOutcome("lists_match_leaves", True, "Every shard of the lists is live."),
            CheckOutcome("streams_fill_batches", True, "Every stream fills its batches."),
            CheckOutcome(
                "nothing_left_out",
                not left_out,
                f"{unfilled:,} samples lie in buckets too small for one batch per node.",
                warn=True,
                metadata={"left_out": Meta(left_out, "table")},
            ),
        ),
    )


def _table(made: dict[str, Made]) -> list[dict[str, str | int | float]]:
    return [
        {
            "profile": name,
            "level": stream.level,
            "ratio": stream.ratio,
            "sources": ", ".join(leaf.split("/")[0] for leaf in stream.leaves),
            "samples": stream.samples,
            "repeat": round(stream.repeat, 3),
        }
        for name, one in made.items()
        for stream in one.plan.streams
    ]


def _left_out(made: dict[str, Made]) -> list[dict[str, str | int]]:
    rows: list[dict[str, str | int]] = []
    for name, one in made.items():
        for leaf, samples in one.plan.left_out.items():
            source, _, level, ratio = leaf.split("/")
            row = {"profile": name, "source": source, "level": level, "ratio": ratio}
            rows.append({**row, "samples": samples})
    return rows


if __name__ == "__main__":
    run_job(STAGE, work)
