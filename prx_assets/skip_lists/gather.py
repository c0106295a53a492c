"""Reading what the lists are compiled from: shards, image tables, duplicates, take-downs."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prx_assets.image.eligibility import ELIGIBLE
from prx_assets.skip_lists.bind import Export
from prx_assets.skip_lists.compile import Inputs
from prx_assets.skip_lists.spec import SkipListsSpec
from prx_resources import lance_table, mds_tree, takedowns
from prx_resources.contract import text_digest
from prx_resources.lake import Lake
from prx_resources.mds_format import HASH
from prx_resources.skip_list import ShardKey

_ROW_COLUMNS = [
    "image_id",
    "content_sha256",
    "caption_gates",
    "label",
    "label_input",
    "phash",
    "signature",
    "phash_flat",
]
ROWS_SCHEMA = pa.schema(
    [
        ("image_id", pa.string()),
        ("content_sha256", pa.string()),
        ("caption_gates", pa.string()),
        ("label", pa.string()),
        ("label_input", pa.string()),
        ("phash", pa.uint64()),
        ("signature", pa.binary(48)),
        ("phash_flat", pa.bool_()),
        ("caption_digest", pa.string()),
    ]
)
DUPLICATES_SCHEMA = pa.schema(
    [
        ("image_id", pa.string()),
        ("group", pa.string()),
        ("rank", pa.int32()),
        ("phash", pa.uint64()),
        ("content_sha256", pa.string()),
    ]
)


def gather(lake: Lake, spec: SkipListsSpec) -> tuple[Export, Inputs]:
    """Reads the exports and everything that is known about their samples."""
    export = read_export(lake, spec.exports)
    rows = pa.concat_tables(
        [ROWS_SCHEMA.empty_table(), *(read_rows(lake, source) for source in sorted(spec.exports))]
    )
    inputs = Inputs(
        samples=export.samples,
        rows=rows,
        duplicates=read_duplicates(lake),
        takedowns=takedowns.read(lake.takedowns_uri),
        manual=read_manual(lake),
        signature_tolerance=spec.signature_tolerance,
    )
    return export, inputs


def read_export(lake: Lake, exports: dict[str, str]) -> Export:
    """Returns the live shards and samples of each source's current export."""
    shards: list[ShardKey] = []
    tables = [_SAMPLES.empty_table()]
    for source, export_fp in sorted(exports.items()):
        for leaf in mds_tree.live_leaves(lake.store, source, export_fp):
            name = leaf.prefix.removeprefix("mds/")
            first = len(shards)
            shards += [
                ShardKey(name, one.basename, one.bytes, {HASH: one.sha256}, one.samples)
                for one in mds_tree.live_shards(lake.store, leaf)
            ]
            tables.append(_numbered(mds_tree.live_samples(lake.store, leaf), shards[first:], first))
    return Export(tuple(shards), pa.concat_tables(tables))


_SAMPLES = pa.schema(
    [
        ("shard", pa.int32()),
        ("index", pa.uint32()),
        ("image_id", pa.string()),
        ("content_sha256", pa.string()),
        ("caption_digest", pa.string()),
        ("order", pa.int64()),
    ]
)


def _numbered(samples: pa.Table, shards: list[ShardKey], first: int) -> pa.Table:
    names = pa.array([shard.basename for shard in shards], pa.string())
    number = pc.add(pc.index_in(samples["shard"], value_set=names), first)
    # A sample of a shard that isn't live stays null here, and `bind` refuses it.
    columns = {name: samples[name] for name in _SAMPLES.names if name in samples.column_names}
    order = pa.array(np.arange(samples.num_rows, dtype=np.int64))
    table = pa.table({**columns, "shard": pc.fill_null(number, -1), "order": order})
    return table.select(_SAMPLES.names).cast(_SAMPLES)


def read_rows(lake: Lake, source: str) -> pa.Table:
    """Returns a source's eligible rows as `compile.Inputs.rows` wants them."""
    uri = lake.images_uri(source)
    if not lance_table.exists(uri):
        return ROWS_SCHEMA.empty_table()
    scanner = lance_table.open_published(uri).scanner(
        columns=[*_ROW_COLUMNS, "caption"], filter=ELIGIBLE
    )
    batches = []
    # Captions are the bulk of these columns: each batch's are dropped once digested.
    for batch in scanner.to_batches():
        digests = [
            None if text is None else text_digest(text) for text in batch["caption"].to_pylist()
        ]
        table = pa.table({name: batch[name] for name in _ROW_COLUMNS})
        batches.append(table.append_column("caption_digest", pa.array(digests, pa.string())))
    return pa.concat_tables(
        [ROWS_SCHEMA.empty_table(), *(table.cast(ROWS_SCHEMA) for table in batches)]
    )


def read_duplicates(lake: Lake) -> pa.Table:
    """Returns the table of duplicates; empty if there is none, and then nothing is covered."""
    if not Path(lake.duplicates_uri).exists():
        return DUPLICATES_SCHEMA.empty_table()
    table = lance.dataset(lake.duplicates_uri).to_table(columns=DUPLICATES_SCHEMA.names)
    return table.cast(DUPLICATES_SCHEMA)


def read_manual(lake: Lake) -> list[str]:
    """Returns the image ids that people skip: lines of text files; `#` starts a remark."""
    lines = [
        line.partition("#")[0].strip()
        for key in lake.store.list(lake.manual_skips_prefix)
        # Some editors begin a file with a mark that would be part of the first id.
        for line in lake.store.get(key).decode("utf-8-sig").splitlines()
    ]
    return sorted({line for line in lines if line})
