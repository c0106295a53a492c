"""Images that must never be trained on, in a table outside any source.

`prx takedown` writes it. The data version is the table's digest; a change compiles `skip_lists`
again. A request covers the image's whole duplicate group and survives the removal and re-adding of
its source. Nothing here is materialized by a run.
"""

from __future__ import annotations

import dagster as dg

from prx_assets.reporting import report_version

takedown_requests = dg.AssetSpec(
    "takedown_requests",
    description=__doc__,
    group_name="training",
    kinds={"lance"},
    owners=["team:data-platform"],
)


def report_takedowns(instance: dg.DagsterInstance, digest: str) -> bool:
    """Tells Dagster the digest of the take-down table; returns whether it is new."""
    return report_version(instance, takedown_requests.key, digest)
