"""The image table's Lance schema and the settings that are fixed when a table is created."""

from __future__ import annotations

from collections.abc import Mapping

import lance
import pyarrow as pa

from prx_resources.columns import INGEST_FIELDS, SET_ASIDE_FIELDS, STAGE_GROUPS
from prx_resources.errors import TableError

STORAGE_VERSION = "2.2"
CHUNK_ROWS = 4096
"""Row ids in one aligned range of work, unless the table says otherwise."""
_PYLANCE = "prx.pylance"
_CHUNK_ROWS = "prx.chunk_rows"
_TARGET_ROWS = "prx.target_fragment_rows"


def image_schema(embedding_dim: int | None = None) -> pa.Schema:
    """Returns the whole schema of a source's image table.

    Args:
        embedding_dim: Length of the source's vectors; None if it brings none.
    """
    # Images below 256 MiB share pack files of 1 GiB; one object per image would drown a store.
    image = lance.blob_field(
        "image", dedicated_size_threshold=256 << 20, pack_file_size_threshold=1 << 30
    )
    fields: list[pa.Field] = []
    for field in INGEST_FIELDS:
        fields.append(field)
        if field.name == "content_sha256":
            # Not earlier: Lance's file reader finds only the columns before a blob by name, and
            # `replace_rows` reads ids and hashes of files that no version shows yet.
            fields.append(image)
    if embedding_dim is not None:
        fields.append(pa.field("embedding", pa.list_(pa.float32(), embedding_dim)))
    fields += SET_ASIDE_FIELDS
    fields += [field for group in STAGE_GROUPS.values() for field in group.fields]
    return pa.schema(fields)


def table_config(chunk_rows: Mapping[str, int], target_fragment_rows: int) -> dict[str, str]:
    """Returns the table config that is written once, at creation."""
    config = {_PYLANCE: lance.__version__, _TARGET_ROWS: str(target_fragment_rows)}
    for stage, rows in chunk_rows.items():
        config[f"{_CHUNK_ROWS}.{stage}" if stage else _CHUNK_ROWS] = str(rows)
    return config


def chunk_rows(ds: lance.LanceDataset, stage: str) -> int:
    """Returns how many row ids one chunk of `stage` covers in this table."""
    config = ds.config()
    return int(config.get(f"{_CHUNK_ROWS}.{stage}") or config.get(_CHUNK_ROWS) or CHUNK_ROWS)


def target_fragment_rows(ds: lance.LanceDataset) -> int:
    """Returns how many rows a full fragment of this table has."""
    return int(ds.config().get(_TARGET_ROWS, 1 << 20))


def configured(ds: lance.LanceDataset) -> bool:
    """Tells whether the table's settings were written: creation takes two commits."""
    return _PYLANCE in ds.config()


def check_writer(ds: lance.LanceDataset) -> None:
    """Refuses to write a table that another pylance writes.

    Raises:
        TableError: The table records another version than this process runs.
    """
    recorded = ds.config().get(_PYLANCE, lance.__version__)
    if recorded != lance.__version__:
        raise TableError(
            f"the table is written with pylance {recorded}, this process runs {lance.__version__}",
            where=str(ds.uri),
            fix=f"install pylance=={recorded}, in every image that writes this lake",
        )
