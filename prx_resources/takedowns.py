"""Take-down requests: one global, append-only table outside any source.

A request keeps what is needed to recognise the picture later: its id, content, perceptual hash and
colour signature. So it holds for copies in other sources, and after its source was removed and
added again. Nothing here deletes; a person who wants a request undone asks the table's keeper.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from prx_resources.errors import ConflictError

SCHEMA = pa.schema(
    [
        pa.field("image_id", pa.string(), nullable=False),
        pa.field("content_sha256", pa.string()),
        pa.field("phash", pa.uint64()),
        pa.field("signature", pa.binary(48)),
        pa.field("reason", pa.string()),
        pa.field("requested_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("source", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Takedown:
    """One request.

    Attributes:
        image_id: The picture's id.
        source: The source it was found in.
        content_sha256: Of the source's bytes; None if unknown.
        phash: Perceptual hash; None if unknown or the picture is flat (flat pictures share it).
        signature: Mean RGB of a 4x4 grid; None together with `phash`.
        reason: Who asked and why, for people.
        requested_at: When.
    """

    image_id: str
    source: str
    content_sha256: str | None = None
    phash: int | None = None
    signature: bytes | None = None
    reason: str = ""
    requested_at: datetime | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What the request matches on; two requests of one key are the same."""
        return self.image_id, self.content_sha256, self.phash, self.signature


def read(uri: str) -> pa.Table:
    """Returns all requests (`SCHEMA`); an empty table if nobody asked yet."""
    import lance

    if not Path(uri).exists():
        return SCHEMA.empty_table()
    return lance.dataset(uri).to_table()


def put(uri: str, requests: Sequence[Takedown]) -> int:
    """Adds the requests that aren't there yet and returns how many those were.

    Raises:
        ConflictError: Others kept writing the table.
    """
    known = {(*row.values(),) for row in read(uri).select(_KEY).to_pylist()}
    new = list({request.key: request for request in requests if request.key not in known}.values())
    if not new:
        return 0
    now = datetime.now(UTC)
    rows = [{**asdict(request), "requested_at": request.requested_at or now} for request in new]
    _append(uri, pa.Table.from_pylist(rows, schema=SCHEMA))
    return len(new)


def digest(uri: str) -> str:
    """Returns 16 hex digits over what the requests match on: the table's data version."""
    rows = read(uri).select(_KEY).to_pylist()
    lines = {repr((*row.values(),)) for row in rows}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


_KEY = ["image_id", "content_sha256", "phash", "signature"]


def _append(uri: str, table: pa.Table) -> None:
    import lance

    for _ in range(20):
        mode = "append" if Path(uri).exists() else "create"
        try:
            lance.write_dataset(table, uri, mode=mode, data_storage_version="2.2")
            return
        except OSError as error:
            # Two first requests at once: the loser of the creation appends.
            if mode == "append" and "onflict" not in str(error):
                raise
    raise ConflictError("others kept writing the take-downs", where=uri, fix="run it again")
