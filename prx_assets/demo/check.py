"""Compares what became of the demo's images with `planted.yaml`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from prx_assets.demo.plant import pictures
from prx_assets.image import eligibility
from prx_assets.skip_lists.gather import read_duplicates, read_export
from prx_assets.skip_lists.publish import current, read_list, read_reasons
from prx_resources import lance_table
from prx_resources.errors import UnknownError
from prx_resources.lake import Lake

PLANTED = Path(__file__).parent / "planted.yaml"
_COLUMNS = ["image_id", "content_sha256", "set_aside", "width", "height", "label"]
_WHY = {eligibility.TOO_SMALL: "pixels", eligibility.OUTSIDE_ASPECT: "aspect"}


@dataclass(frozen=True)
class Difference:
    """An image whose fate isn't the planted one.

    Attributes:
        image: `<source>/<name>`.
        planted: What `planted.yaml` says.
        found: What the lake says.
    """

    image: str
    planted: str
    found: str


def differences(lake: Lake) -> list[Difference]:
    """Returns every image of the demo that didn't meet its fate.

    Raises:
        UnknownError: The demo hasn't run on this lake, or not to its end.
    """
    planted = yaml.safe_load(PLANTED.read_text(encoding="utf-8"))
    found = fates(lake)
    return [
        Difference(f"{source}/{name}", _text(wanted), _text(found[source].get(name)))
        for source, wanted_fates in planted.items()
        for name, wanted in wanted_fates.items()
        if found[source].get(name) != wanted
    ]


def fates(lake: Lake) -> dict[str, dict[str, dict[str, str]]]:
    """Returns what became of each demo image, in the form of `planted.yaml`."""
    made = pictures()
    for source in made:
        if not lance_table.exists(lake.images_uri(source)):
            raise UnknownError(
                f"the demo's source {source!r} has no table", where=lake.root, fix="prx demo"
            )
    rows = {source: _rows(lake, source) for source in made}
    exported = _exported(lake)
    skipped = {row["image_id"]: row["reasons"] for row in read_reasons(lake, "default").to_pylist()}
    kept_copies = _kept_copies(lake)
    names = {
        rows[source][_digest(one.data)]["image_id"]: f"{source}/{one.name}"
        for source, ones in made.items()
        for one in ones
        if _digest(one.data) in rows[source]
    }
    found: dict[str, dict[str, dict[str, str]]] = {source: {} for source in made}
    for source, ones in made.items():
        for one in ones:
            row = rows[source].get(_digest(one.data))
            if row is not None:
                fate = _fate(row, exported, skipped)
                if fate["fate"] == "duplicate":
                    kept = kept_copies.get(row["image_id"], "nothing")
                    # A picture that isn't of the demo stands under its own id.
                    fate["of"] = names.get(kept, kept)
                found[source][one.name] = fate
    return found


def _fate(row: dict[str, Any], exported: dict[str, str], skipped: dict[str, str]) -> dict[str, str]:
    if row["set_aside"]:
        return {"fate": "set_aside", "why": row["set_aside"]}
    size = eligibility.fate(row["width"], row["height"])
    if size != eligibility.USABLE:
        return {"fate": "ineligible", "why": _WHY[size]}
    reasons = skipped.get(row["image_id"])
    fate = reasons or "train"
    leaf = exported.get(row["image_id"], "not exported")
    return {"fate": fate, "leaf": leaf, "label": row["label"] or "none"}


def _rows(lake: Lake, source: str) -> dict[str, dict[str, Any]]:
    table = lance_table.open_published(lake.images_uri(source)).to_table(columns=_COLUMNS)
    return {row["content_sha256"]: row for row in table.to_pylist()}


def _exported(lake: Lake) -> dict[str, str]:
    """Returns image id -> `<level>/<ratio>` of every sample the current list was made for."""
    listed = read_list(lake, str(current(lake, "default")["list"]))
    leaves = {}
    exports = {shard.leaf.split("/")[0]: shard.leaf.split("/")[1] for shard in listed.shards}
    export = read_export(lake, exports)
    for sample in export.samples.select(["shard", "image_id"]).to_pylist():
        leaf = export.shards[sample["shard"]].leaf
        leaves[sample["image_id"]] = "/".join(leaf.split("/")[-2:])
    return leaves


def _kept_copies(lake: Lake) -> dict[str, str]:
    """Returns image id -> the id of the first-ranked member of its duplicate group."""
    rows = [row for row in read_duplicates(lake).to_pylist() if row["group"] is not None]
    rows.sort(key=lambda row: row["rank"])
    first: dict[str, str] = {}
    for row in rows:
        first.setdefault(row["group"], row["image_id"])
    return {row["image_id"]: first[row["group"]] for row in rows}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _text(fate: dict[str, str] | None) -> str:
    if fate is None:
        return "not in the table"
    return ", ".join(f"{key} {value}" for key, value in sorted(fate.items()))
