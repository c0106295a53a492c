"""Recording take-downs: find the images, write the table, tell Dagster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prx_assets.perceptual_hashes.hasher import Hasher
from prx_assets.perceptual_hashes.spec import PerceptualHashesSpec
from prx_resources import lance_table, takedowns
from prx_resources.catalog import Catalog
from prx_resources.contract import check_source_name
from prx_resources.errors import UnknownError
from prx_resources.lake import Lake
from prx_resources.takedowns import Takedown

if TYPE_CHECKING:
    import dagster as dg
    from lance import LanceDataset

_COLUMNS = ["image_id", "content_sha256", "phash", "signature", "phash_flat"]


def request_takedowns(
    lake: Lake,
    image_ids: Sequence[str],
    reason: str,
    instance: dg.DagsterInstance,
    spec: PerceptualHashesSpec | None = None,
) -> tuple[list[Takedown], int]:
    """Records a request for each image, or for none of them.

    Args:
        lake: The lake.
        image_ids: `<source>/<key>` each.
        reason: Kept with the requests, for people.
        instance: Told the table's new digest, so that skip-lists follow.
        spec: How images are hashed; None for the defaults.

    Returns:
        The requests, and how many of them are new.

    Raises:
        UnknownError: One of the images isn't in its source's table.
        RefusedError: One of the ids names no possible source.
    """
    found = [
        request
        for image_id in dict.fromkeys(image_ids)
        for request in _find(lake, image_id, reason, spec)
    ]
    new = takedowns.put(lake.takedowns_uri, found)
    from prx_assets.takedown_requests.asset import report_takedowns

    report_takedowns(instance, takedowns.digest(lake.takedowns_uri))
    return found, new


def _find(
    lake: Lake, image_id: str, reason: str, spec: PerceptualHashesSpec | None
) -> list[Takedown]:
    """Returns a request for each picture of this id: doubled keys that were set aside have it too.

    Which of them a person saw nobody knows, and it may become the one in use.
    """
    source, _, key = image_id.partition("/")
    check_source_name(source)
    Catalog(lake).load(source)
    # The latest version, not the published one: a row may be asked for before its stage is done.
    ds = lance_table.open_latest(lake.images_uri(source))
    wanted = lance_table.is_in("image_id", [image_id])
    rows = ds.to_table(columns=_COLUMNS, filter=wanted, with_row_id=True).to_pylist()
    if not key or not rows:
        raise UnknownError(
            f"no image {image_id!r}",
            where=lake.images_uri(source),
            fix="copy the id from the table or a training sample: <source>/<key>",
        )
    hasher = Hasher(spec or PerceptualHashesSpec())
    requests = [_request(source, _hashed(ds, row, hasher), reason) for row in rows]
    return list({request.key: request for request in requests}.values())


def _hashed(ds: LanceDataset, row: dict[str, Any], hasher: Hasher) -> dict[str, Any]:
    """Fills the hash of a row that has none yet.

    Copies are known by it alone, and the row may be gone before its stage comes to it.
    """
    if row["phash"] is not None:
        return row
    for batch in lance_table.read_images(ds, [row["_rowid"]], ["image_id"]):
        return {**row, **vars(hasher.hash(batch["image"][0].as_py()))}
    return row


def _request(source: str, row: dict[str, Any], reason: str) -> Takedown:
    flat = row["phash_flat"] is not False
    return Takedown(
        image_id=row["image_id"],
        source=source,
        content_sha256=row["content_sha256"],
        phash=None if flat else row["phash"],
        signature=None if flat else row["signature"],
        reason=reason,
    )
