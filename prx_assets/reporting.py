"""Telling Dagster the data version of something that no run makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

DATA_VERSION_TAG = "dagster/data_version"


def report_version(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    digest: str,
    *,
    partition: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> bool:
    """Reports a runless materialization, unless the latest one says the same.

    An observation would not do: it requests nothing downstream.

    Returns:
        Whether the digest is new.
    """
    latest = instance.fetch_materializations(
        dg.AssetRecordsFilter(
            asset_key=key, asset_partitions=None if partition is None else [partition]
        ),
        limit=1,
    ).records
    if latest and latest[0].asset_materialization is not None:
        tags = latest[0].asset_materialization.tags or {}
        if tags.get(DATA_VERSION_TAG) == digest:
            return False
    instance.report_runless_asset_event(
        dg.AssetMaterialization(
            key, partition=partition, tags={DATA_VERSION_TAG: digest}, metadata=metadata
        )
    )
    return True
