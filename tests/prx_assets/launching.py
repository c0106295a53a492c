"""An asset whose job is `jobs/dummy_job.py`, and what its runs left in the event log."""

import sys
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from prx_assets.launch import launch
from prx_resources.contract import JobSpec
from prx_resources.ray_jobs import RayJobs

JOBS = Path(__file__).parent / "jobs"


class DummyJobs(RayJobs):
    """Starts the dummy job for every stage."""

    def module(self, stage: str) -> str:
        return f"{stage}_job"


class DummyConfig(dg.Config):
    params: dict[str, Any] = Field(default_factory=dict)


@dg.asset(
    check_specs=[
        dg.AssetCheckSpec("rows_accounted", asset="dummy"),
    ]
)
def dummy(
    context: dg.AssetExecutionContext, config: DummyConfig, ray_jobs: RayJobs
) -> dg.MaterializeResult:
    return launch(context, spec(**config.params), ray_jobs)


def spec(**params: Any) -> JobSpec:
    return JobSpec(stage="dummy", source="cats", lake="/nowhere", params=params)


def run(
    home: Path,
    instance: dg.DagsterInstance,
    *,
    jobs: RayJobs | None = None,
    run_id: str | None = None,
    **params: Any,
) -> dg.ExecuteInProcessResult:
    """Materializes the dummy asset and returns its run."""
    return dg.materialize(
        [dummy],
        instance=instance,
        resources={"ray_jobs": jobs or DummyJobs(home=str(home))},
        run_config={"ops": {"dummy": {"config": {"params": params}}}},
        raise_on_error=False,
        **({"run_id": run_id} if run_id else {}),
    )


def log_lines(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    """Returns what the step logged, without Dagster's own events."""
    return [
        entry.user_message
        for entry in instance.all_logs(run_id)
        if not entry.is_dagster_event and entry.level >= 20
    ]


def failure(result: dg.ExecuteInProcessResult) -> str:
    """Returns the message of the run's failed step."""
    [event] = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    data = event.step_failure_data
    return data.user_failure_data.description or ""


if __name__ == "__main__":
    # A step process of its own, to be killed: home, gate.
    with dg.DagsterInstance.local_temp(sys.argv[3]) as own:
        run(Path(sys.argv[1]), own, gate=sys.argv[2])
