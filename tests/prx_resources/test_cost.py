from __future__ import annotations

from prx_resources.cost import estimate


def test_rows_become_gpu_hours_and_money() -> None:
    found = estimate(100_000_000, {"rows_per_second": 20, "gpu_hour_usd": 1.95})
    assert found is not None
    assert round(found.gpu_hours) == 1389
    assert str(found) == "100,000,000 rows, about 1,388.9 GPU-hours and $2,708.33"


def test_a_built_in_engine_costs_nothing() -> None:
    assert estimate(5, {}) is None
    assert estimate(5, {"rows_per_second": 20}) is None
