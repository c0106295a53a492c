"""When Dagster asks for a stage by itself, and in which lane.

Never `newly_missing`, `on_missing` or `eager`: they ignore what was there before a sensor's first
tick, or ask for paid work again after an identical re-run.
"""

from __future__ import annotations

from typing import Any

import dagster as dg
from dagster import AutomationCondition as C
from dagster._core.scheduler.instigation import InstigatorType

from prx_assets.jobs import GLOBAL_STAGES, PER_SOURCE_STAGES
from prx_assets.made_with import MadeWithTarget
from prx_resources.settings import Settings

_CHANGED: C[Any] = C.any_deps_match(C.data_version_changed())
_CHANGED_ELSEWHERE: C[Any] = C.any_deps_match(C.data_version_changed() & ~MadeWithTarget())
_WHILE_RUNNING: C[Any] = C.in_progress() | C.newly_updated()
# `since_last_handled` forgets a change as soon as the stage has been updated, also one that the
# run was too early to see: rows that arrive while captions run for days would wait for ever. Such
# a change counts until the stage is requested again. Changes made by the same run don't.
_MISSED: C[Any] = (_CHANGED_ELSEWHERE & _WHILE_RUNNING).since(
    (C.newly_requested() & ~_CHANGED_ELSEWHERE) | C.initial_evaluation()
)
_DUE: C[Any] = _CHANGED.since_last_handled() | _MISSED
_TEN_MINUTES: C[Any] = C.cron_tick_passed("*/10 * * * *")

PER_SOURCE: C[Any] = (
    ((C.missing() & ~C.execution_failed()) | _DUE)
    & ~C.any_deps_missing()
    & ~C.any_deps_in_progress()
    & ~C.in_progress()
    & C.all_deps_blocking_checks_passed()
).with_label("missing, or an input changed, and every input is there and good")
"""A source's stage: once when it is missing, then whenever an input's data version changes.

A failed partition waits for a person or for another input. One source never waits for another.
"""

GLOBAL: C[Any] = (
    (
        (_DUE & _TEN_MINUTES.since_last_handled())
        | (C.missing() & ~C.execution_failed() & C.any_deps_match(~C.missing()))
    )
    & ~C.in_progress()
).with_label("missing, or an input changed and ten minutes passed")
"""A stage over all sources: at most every ten minutes, however many sources land meanwhile."""

CPU_LANE = "cpu_stages"
PAID_LANE = "paid_stages"
"""Names of the two sensors. The first is on by default, the second waits for a person."""

LANE_TAG = "lane"
"""Tag of every stage: the sensor that requests it."""


def paid_stages(settings: Settings) -> tuple[str, ...]:
    """Returns the stages whose configured engine costs money; all others run in the CPU lane."""
    lanes = {"captions": settings.captions.lane, "caption_labels": settings.labels.lane}
    return tuple(stage for stage, lane in lanes.items() if lane == "paid")


def cpu_stages(settings: Settings) -> tuple[str, ...]:
    """Returns the stages of the CPU lane."""
    paid = paid_stages(settings)
    return tuple(name for name in (*PER_SOURCE_STAGES, *GLOBAL_STAGES) if name not in paid)


def lanes_off(instance: dg.DagsterInstance, settings: Settings) -> tuple[str, ...]:
    """Returns the stages whose lane is switched off, by default or by a person."""
    states = {
        state.instigator_name: state.is_running
        for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
    }
    return (
        *(() if states.get(CPU_LANE, True) else cpu_stages(settings)),
        *(() if states.get(PAID_LANE, False) else paid_stages(settings)),
    )
