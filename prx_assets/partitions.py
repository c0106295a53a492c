"""The one partition axis: a key per source dataset, added when the source is catalogued."""

from __future__ import annotations

import dagster as dg

SOURCES = dg.DynamicPartitionsDefinition(name="source")
SOURCES_NAME = "source"
PARTITION_TAG = "dagster/partition"
"""Tag of a run with its source."""
