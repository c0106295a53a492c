"""When Dagster asks for a stage by itself.

Never `newly_missing`, `on_missing` or `eager`: they ignore what was there before a sensor's first
tick, or ask for paid work again after an identical re-run.
"""

from __future__ import annotations

from typing import Any

from dagster import AutomationCondition as C

_TEN_MINUTES: C[Any] = C.cron_tick_passed("*/10 * * * *")

PER_SOURCE: C[Any] = (
    (
        (C.missing() & ~C.execution_failed())
        | C.any_deps_match(C.data_version_changed()).since_last_handled()
    )
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
        (
            C.any_deps_match(C.data_version_changed()).since_last_handled()
            & _TEN_MINUTES.since_last_handled()
        )
        | (C.missing() & ~C.execution_failed() & C.any_deps_match(~C.missing()))
    )
    & ~C.in_progress()
).with_label("missing, or an input changed and ten minutes passed")
"""A stage over all sources: at most every ten minutes, however many sources land meanwhile."""
