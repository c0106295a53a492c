"""A condition for automation: was an input made by the very run that was to make its consumer?"""

from __future__ import annotations

import dagster as dg
from dagster._core.asset_graph_view.entity_subset import EntitySubset
from dagster._core.definitions.declarative_automation.automation_context import AutomationContext
from dagster._core.definitions.declarative_automation.operands.subset_automation_condition import (
    SubsetAutomationCondition,
)
from dagster._record import record

from prx_assets.jobs import GLOBAL_STAGES, PER_SOURCE_STAGES
from prx_assets.partitions import PARTITION_TAG


@record
class MadeWithTarget(SubsetAutomationCondition[dg.AssetKey]):
    """True for each partition of an input whose latest run was to make the target asset as well.

    Dagster's `executed_with_root_target` looks at an input's latest run over all partitions: of two
    sources that land together it takes the first one's input for a change from elsewhere.
    """

    @property
    def name(self) -> str:
        """What the UI calls it."""
        return "made_with_target"

    def compute_subset(self, context: AutomationContext[dg.AssetKey]) -> EntitySubset[dg.AssetKey]:
        """Returns the candidates that were made together with the target."""
        subset = context.candidate_subset
        target = context.root_context.key
        instance = context.asset_graph_view.instance
        if subset.is_partitioned:
            return subset.compute_intersection_with_partition_keys(
                {
                    partition
                    for partition in subset.expensively_compute_partition_keys()
                    if _together(instance, subset.key, partition, target)
                }
            )
        if _together(instance, subset.key, None, target):
            return subset
        return context.get_empty_subset()


def _together(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, target: dg.AssetKey
) -> bool:
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(
            asset_key=key, asset_partitions=None if partition is None else [partition]
        ),
        limit=1,
    ).records
    run = instance.get_run_by_id(records[0].run_id) if records and records[0].run_id else None
    if run is None:
        return False
    if run.asset_selection is not None:
        return target in run.asset_selection
    # A whole job: `refresh_source` has a partition, `refresh_global` has none.
    made = PER_SOURCE_STAGES if PARTITION_TAG in run.tags else GLOBAL_STAGES
    return target.to_user_string() in made
