"""The columns that Dagster shows are the columns that the stages write."""

from __future__ import annotations

import pytest

from prx_assets.column_docs import COLUMNS, column_lineage, column_schema
from prx_assets.duplicates.ranking import SCHEMA as DUPLICATES_SCHEMA
from prx_assets.mds_shards.spec import COLUMNS as MDS_COLUMNS
from prx_resources.columns import STAGE_GROUPS
from prx_resources.lance_schema import image_schema


def shown(asset: str) -> dict[str, str]:
    return {column.name: column.type for column in COLUMNS[asset]}


@pytest.mark.parametrize("stage", sorted(STAGE_GROUPS))
def test_stage_columns(stage: str) -> None:
    assert shown(stage) == {f.name: str(f.type) for f in STAGE_GROUPS[stage].fields}


def test_ingest_columns() -> None:
    of_stages = {name for group in STAGE_GROUPS.values() for name in group.names}
    fields = [f for f in image_schema(None) if f.name not in of_stages]
    written = {f.name: "blob" if f.name == "image" else str(f.type) for f in fields}
    assert shown("raw_images") == written


def test_other_tables() -> None:
    assert shown("duplicates") == {f.name: str(f.type) for f in DUPLICATES_SCHEMA}
    assert shown("mds_shards") == MDS_COLUMNS


def test_lineage_names_columns_that_exist() -> None:
    for asset in COLUMNS:
        lineage = column_lineage(asset)
        for deps in lineage.deps_by_column.values() if lineage else ():
            for dep in deps:
                assert dep.column_name in shown(dep.asset_key.to_user_string())


def test_assets_without_columns_show_none() -> None:
    assert column_schema("source_profile") is None
    assert column_lineage("source_profile") is None
