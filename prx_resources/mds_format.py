"""MDS shards as bytes: what Streaming's `MDSWriter` writes, byte for byte, without importing it.

Importing Streaming brings torch and transformers: 5 s and 0.7 GB in every worker of an export, for
a format of a few lines. A test compares the bytes with `MDSWriter`'s. A shard is

```
uint32 n | uint32 offsets[n + 1] from the file's start | configuration as JSON | n samples
```

and a sample the uint32 sizes of its columns of variable size, then all columns' bytes; columns are
in the order of their names, numbers little-endian.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import accumulate

from prx_resources.contract import Json
from prx_resources.errors import InvariantError

HASH = "sha256"
"""The hash that an index holds of every shard; Streaming checks it with `validate_hash`."""

SIZES: dict[str, int | None] = {"int": 8, "jpeg": None, "str": None}
"""The encodings used here, with their size in bytes if it is fixed."""


def encode_shard(
    columns: Mapping[str, str], samples: Sequence[Mapping[str, object]], basename: str
) -> tuple[Json, bytes]:
    """Returns a shard's description for an `index.json`, and its bytes.

    Args:
        columns: Names and encodings.
        samples: At least one; keys that are no columns are left out. A `jpeg` is bytes: Streaming
            would save an image object again, at another quality.
        basename: Name of the shard's file.

    Raises:
        InvariantError: A value isn't what its column holds, or the shard is 4 GiB or more.
    """
    names = sorted(columns)
    config = {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [HASH],
        "size_limit": None,
        "column_names": names,
        "column_encodings": [columns[name] for name in names],
        "column_sizes": [SIZES[columns[name]] for name in names],
    }
    text = json.dumps(config, sort_keys=True).encode()
    bodies = [_sample(columns, names, sample) for sample in samples]
    start = 4 + 4 * (len(bodies) + 1) + len(text)
    offsets = list(accumulate((len(body) for body in bodies), initial=start))
    if offsets[-1] >= 1 << 32:
        raise InvariantError(
            f"a shard of {len(bodies)} samples has {offsets[-1]:,} bytes; its offsets have 32 bits",
            where=basename,
            fix="set a smaller export.shard_bytes",
        )
    head = b"".join(_uint32(value) for value in (len(bodies), *offsets))
    data = b"".join((head, text, *bodies))
    raw = {
        "basename": basename,
        "bytes": len(data),
        "hashes": {HASH: hashlib.sha256(data).hexdigest()},
    }
    return {"samples": len(bodies), "raw_data": raw, "zip_data": None, **config}, data


def read_sample(shard: Json, data: bytes, index: int) -> dict[str, bytes]:
    """Returns the encoded columns of one sample.

    Args:
        shard: The shard's description.
        data: The shard's bytes.
        index: Which sample.
    """
    place = 4 * (1 + index)
    at = int.from_bytes(data[place : place + 4], "little")
    sizes = []
    for size in shard["column_sizes"]:
        if size is None:
            size = int.from_bytes(data[at : at + 4], "little")
            at += 4
        sizes.append(size)
    ends = list(accumulate(sizes, initial=at))
    return {
        name: data[begin:end]
        for name, begin, end in zip(shard["column_names"], ends, ends[1:], strict=False)
    }


def _sample(
    columns: Mapping[str, str], names: Sequence[str], sample: Mapping[str, object]
) -> bytes:
    values = [_encode(name, columns[name], sample[name]) for name in names]
    sizes = [
        _uint32(len(value))
        for name, value in zip(names, values, strict=True)
        if SIZES[columns[name]] is None
    ]
    return b"".join((*sizes, *values))


def _encode(name: str, encoding: str, value: object) -> bytes:
    match encoding, value:
        case "int", int():
            return value.to_bytes(8, "little", signed=True)
        case "str", str():
            return value.encode()
        case "jpeg", bytes():
            return value
    raise InvariantError(
        f"a sample's {name!r} is {type(value).__name__}, its column holds {encoding}"
    )


def _uint32(value: int) -> bytes:
    return value.to_bytes(4, "little")
