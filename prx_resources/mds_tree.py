"""The tree of MDS leaves: immutable parts, numbered lists of live parts, merged indexes.

```
<lake>/mds/<source>/<export_fp>/<level>/<ar>/
    p0000/shard.00000.mds ...   written once
    p0000/samples.parquet       SAMPLES_SCHEMA: which image each sample of the part is
    p0000/index.json            the part alone, as Streaming wants it; its last object
    parts/000001.json           the numbered lists of live parts; the highest counts
    index.json                  all live parts' shards, derived from the list: what trainers read
```

A part that no list names is the rest of a crash. A leaf's list changes under the leaf's lease.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from prx_resources.contract import Json, fingerprint
from prx_resources.errors import TableError
from prx_resources.mds_format import HASH
from prx_resources.object_store import ObjectStore, latest_pointer

SAMPLES_SCHEMA = pa.schema(
    [
        pa.field("part", pa.string(), nullable=False),
        # As in the leaf's merged index: `p0000/shard.00000.mds`.
        pa.field("shard", pa.string(), nullable=False),
        pa.field("index", pa.uint32(), nullable=False),
        pa.field("image_id", pa.string(), nullable=False),
        pa.field("content_sha256", pa.string(), nullable=False),
        pa.field("caption_digest", pa.string(), nullable=False),
    ]
)
"""One row per sample, in the order in which Streaming numbers them."""

LIST_KEY = re.compile(
    r"mds/(?P<source>[^/]+)/(?P<export_fp>[^/]+)/(?P<level>\d+)/(?P<ar>\d+\.\d{3})/parts/\d+\.json"
)


@dataclass(frozen=True)
class Part:
    """A live part, as a leaf's list names it.

    Attributes:
        name: Folder below the leaf: `p0000`.
        index_sha256: Hash of the part's `index.json`, which holds the hashes of its shards.
        samples: Number of samples.
        bytes: Bytes of its shards.
    """

    name: str
    index_sha256: str
    samples: int
    bytes: int


@dataclass(frozen=True)
class Leaf:
    """One bucket of one export of one source.

    Attributes:
        prefix: Key prefix in the lake: `mds/<source>/<export_fp>/<level>/<ar>`.
        source: The source's name.
        export_fp: Identity of the export.
        level: Resolution level in pixels.
        ar: Name of the aspect-ratio folder: `1.000`.
        parts: The live parts, in order.
        list_number: Number of the list that names them; 0 before the first one.
    """

    prefix: str
    source: str
    export_fp: str
    level: int
    ar: str
    parts: tuple[Part, ...] = ()
    list_number: int = 0

    @property
    def samples(self) -> int:
        """Number of live samples."""
        return sum(part.samples for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes of the live shards."""
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True)
class Shard:
    """A live shard: what a skip-list binds to.

    Attributes:
        part: Folder below the leaf: `p0000`.
        basename: As in the leaf's merged index: `p0000/shard.00000.mds`.
        bytes: Size of the file.
        sha256: Hash of the file.
        samples: Number of samples.
    """

    part: str
    basename: str
    bytes: int
    sha256: str
    samples: int


def open_leaf(store: ObjectStore, source: str, export_fp: str, level: int, ar: str) -> Leaf:
    """Returns a leaf as its highest list describes it; without parts if there is none yet."""
    prefix = f"mds/{source}/{export_fp}/{level}/{ar}"
    latest = latest_pointer(store, f"{prefix}/parts")
    number, data = latest or (0, b'{"parts": []}')
    parts = tuple(Part(**part) for part in json.loads(data)["parts"])
    return Leaf(prefix, source, export_fp, level, ar, parts, number)


def live_leaves(
    store: ObjectStore, source: str | None = None, export_fp: str | None = None
) -> Iterator[Leaf]:
    """Yields every leaf that has live parts, sorted by its prefix.

    Args:
        store: The lake's store.
        source: Only this source's leaves.
        export_fp: Only this export's leaves; wants `source`.
    """
    below = "/".join(part for part in ("mds", source, export_fp if source else None) if part)
    found = (LIST_KEY.fullmatch(key) for key in store.list(below))
    places = {match.group("source", "export_fp", "level", "ar") for match in found if match}
    for place_source, place_fp, level, ar in sorted(places):
        if export_fp not in (None, place_fp):
            continue
        leaf = open_leaf(store, place_source, place_fp, int(level), ar)
        if leaf.parts:
            yield leaf


def live_shards(store: ObjectStore, leaf: Leaf) -> tuple[Shard, ...]:
    """Returns the shards of a leaf's live parts, in the order of the merged index."""
    return tuple(
        Shard(
            part=part.name,
            basename=f"{part.name}/{raw['basename']}",
            bytes=raw["bytes"],
            sha256=raw["hashes"][HASH],
            samples=info["samples"],
        )
        for part in leaf.parts
        for info in _part_shards(store, leaf, part)
        for raw in (info["raw_data"],)
    )


def live_samples(store: ObjectStore, leaf: Leaf) -> pa.Table:
    """Returns `SAMPLES_SCHEMA` rows of a leaf's live samples, in Streaming's order."""
    tables = [
        pq.read_table(io.BytesIO(get(store, f"{leaf.prefix}/{part.name}/samples.parquet")))
        for part in leaf.parts
    ]
    return pa.concat_tables(
        [SAMPLES_SCHEMA.empty_table(), *(t.cast(SAMPLES_SCHEMA) for t in tables)]
    )


def data_version(export_fp: str, leaves: Iterable[Leaf]) -> str:
    """Returns the digest of an export's live parts."""
    parts = sorted(
        [leaf.level, leaf.ar, part.name, part.index_sha256]
        for leaf in leaves
        for part in leaf.parts
    )
    return fingerprint({"export_fp": export_fp, "parts": parts})


def merged_index(store: ObjectStore, leaf: Leaf) -> bytes:
    """Returns the leaf's `index.json` as its live parts make it."""
    shards = [
        {**info, "raw_data": {**info["raw_data"], "basename": f"{part.name}/{basename}"}}
        for part in leaf.parts
        for info in _part_shards(store, leaf, part)
        for basename in (info["raw_data"]["basename"],)
    ]
    return index_bytes(shards)


def index_is_current(store: ObjectStore, leaf: Leaf) -> bool:
    """Tells whether the leaf's `index.json` is what its list says; a crash may have left it."""
    try:
        return store.get(f"{leaf.prefix}/index.json") == merged_index(store, leaf)
    except KeyError:
        return False


def _part_shards(store: ObjectStore, leaf: Leaf, part: Part) -> list[Json]:
    data = get(store, f"{leaf.prefix}/{part.name}/index.json")
    if hashlib.sha256(data).hexdigest() != part.index_sha256:
        raise TableError(
            "a live part's index.json was changed",
            where=f"{leaf.prefix}/{part.name}",
            fix="restore it, or remove the export's folder and run mds_shards again",
        )
    shards: list[Json] = json.loads(data)["shards"]
    return shards


def index_bytes(shards: Sequence[Json]) -> bytes:
    """Returns an `index.json` of these shards."""
    return json.dumps({"version": 2, "shards": list(shards)}, sort_keys=True).encode()


def get(store: ObjectStore, key: str) -> bytes:
    """Returns an object of a live part.

    Raises:
        TableError: It is missing.
    """
    try:
        return store.get(key)
    except KeyError:
        raise TableError(
            "an object of a live part is missing",
            where=key,
            fix="restore it, or remove the export's folder and run mds_shards again",
        ) from None
