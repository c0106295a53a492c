"""Deciding which samples to skip. Tables in, one bit mask per sample out; knows no lake.

It fails closed: it starts from the samples, and one that no decision covers is skipped. Every step
works on whole columns, so that ten million samples take seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prx_assets.skip_lists.spec import ALLOWABLE, REASONS
from prx_assets.skip_lists.twins import Takedowns
from prx_resources.errors import InvariantError, ManifestError

Bools = NDArray[np.bool_]
Masks = NDArray[np.uint16]

BIT = {reason: np.uint16(1 << number) for number, reason in enumerate(REASONS)}
VISUAL = "visual"


@dataclass(frozen=True)
class Policy:
    """What a profile decides.

    Attributes:
        allow: Reasons that don't skip.
        blocking_gates: Caption gates whose failure skips.
    """

    allow: frozenset[str] = frozenset()
    blocking_gates: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if forbidden := sorted(self.allow - set(ALLOWABLE)):
            raise ManifestError(
                f"a profile can't allow {', '.join(forbidden)}",
                where="settings.yaml: skip.profiles",
                fix=f"allow only some of: {', '.join(ALLOWABLE)}",
            )

    @property
    def labels(self) -> list[str]:
        """Labels that may be trained on."""
        return [VISUAL, *(label for label in ("text", "nsfw") if label in self.allow)]


@dataclass(frozen=True)
class Inputs:
    """What is known when lists are compiled.

    Attributes:
        samples: One row per sample of every live shard: `image_id`, `content_sha256`,
            `caption_digest`, `order` (int64, larger = exported later).
        rows: Every eligible row of every source: `image_id`, `content_sha256`, `caption_digest`
            (null without caption), `caption_gates`, `label`, `label_input`, `phash`, `signature`,
            `phash_flat`.
        duplicates: One row per image that was compared: `image_id`, `content_sha256`, `phash`,
            `group` (null if alone), `rank` (0 = best).
        takedowns: `prx_resources.takedowns.SCHEMA`.
        manual: Image ids that a person skips.
        signature_tolerance: See `SkipListsSpec`.
    """

    samples: pa.Table
    rows: pa.Table
    duplicates: pa.Table
    takedowns: pa.Table
    manual: Sequence[str] = ()
    signature_tolerance: int = 12


class Decisions:
    """The join of all inputs, made once for all profiles."""

    def __init__(self, inputs: Inputs) -> None:
        samples, rows, duplicates = (
            table.combine_chunks() for table in (inputs.samples, inputs.rows, inputs.duplicates)
        )
        _check_unique(rows, "rows")
        _check_unique(duplicates, "duplicates")
        self.rows = rows
        self.row = _index_in(samples, rows)
        self.same_content = _equal(samples["content_sha256"], rows["content_sha256"], self.row)
        self.same_caption = self.same_content & _equal(
            samples["caption_digest"], rows["caption_digest"], self.row
        )
        labelled = self.same_caption & _equal(
            samples["caption_digest"], rows["label_input"], self.row
        )
        known = _is_in(rows["label"], [VISUAL, "text", "nsfw"])
        self.labelled = labelled & self._of_row(known)
        self.entry = _index_in(rows, duplicates)
        self.covered = _equal(
            rows["content_sha256"], duplicates["content_sha256"], self.entry
        ) & _equal(rows["phash"], duplicates["phash"], self.entry)
        self.hashed = _true(pc.is_valid(rows["phash"]))
        self.group, self.rank = _groups(duplicates, self.entry, self.covered)
        self.superseded = _superseded(samples, self.same_content, self.same_caption)
        self.manual = _is_in(samples["image_id"], list(inputs.manual))
        takedowns = Takedowns(inputs.takedowns, inputs.signature_tolerance)
        self.taken_down = takedowns.names(samples)
        self.row_taken_down = takedowns.twins(rows, duplicates, self.entry)

    def masks(self, policy: Policy) -> Masks:
        """Returns the reasons to skip each sample, as bits of `BIT`; 0 keeps it."""
        gated = self._gated(policy)
        label = self.rows["label"]
        decided = self.labelled & self._of_row(self.hashed & self.covered)
        found = {
            "text": self.labelled & self._of_row(_is_in(label, ["text"])),
            "nsfw": self.labelled & self._of_row(_is_in(label, ["nsfw"])),
            "duplicate": self.same_content & self._of_row(self._beaten(policy, gated)),
            "manual": self.manual,
            "caption_gate": self.same_caption & self._of_row(gated),
            "takedown": self.taken_down,
            "takedown-twin": self._of_row(self.row_taken_down) & ~self.taken_down,
            "superseded": self.superseded,
            "vanished": ~self.same_content & ~self.superseded,
            "undecided": self.same_content & ~self.superseded & ~decided,
        }
        masks = np.zeros(len(self.row), np.uint16)
        for reason, flags in found.items():
            if reason not in policy.allow:
                masks[flags] |= BIT[reason]
        return masks

    def _of_row(self, flags: Bools) -> Bools:
        """Spreads a flag of rows over the samples; False for samples without a row."""
        spread: Bools = np.append(flags, False)[self.row]
        return spread

    def _gated(self, policy: Policy) -> Bools:
        encoded = self.rows["caption_gates"].combine_chunks().dictionary_encode()
        blocked = [
            bool(policy.blocking_gates & set((gates or "").split(",")))
            for gates in encoded.dictionary.to_pylist()
        ]
        codes = encoded.indices.fill_null(len(blocked)).to_numpy(zero_copy_only=False)
        gated: Bools = np.array([*blocked, False])[codes]
        return gated

    def _beaten(self, policy: Policy, gated: Bools) -> Bools:
        """Rows of whose duplicate group another member is the kept copy."""
        rows = self.rows
        fit = _true(pc.equal(rows["label_input"], rows["caption_digest"]))
        fit &= _is_in(rows["label"], policy.labels) & self.covered & ~self.row_taken_down
        if "caption_gate" not in policy.allow:
            fit &= ~gated
        grouped = self.group >= 0
        candidates = np.flatnonzero(fit & grouped)
        best = np.full(int(self.group.max(initial=-1)) + 1, -1, np.int64)
        # Worst rank first, so that the best of each group is what remains.
        order = candidates[np.argsort(-self.rank[candidates], kind="stable")]
        best[self.group[order]] = order
        keeper = np.append(best, -1)[self.group]
        beaten: Bools = grouped & (keeper >= 0) & (keeper != np.arange(len(self.group)))
        return beaten


def reason_names(masks: Masks) -> pa.Array:
    """Returns the reasons of each mask as text, comma-separated: a dictionary array."""
    values, codes = np.unique(masks, return_inverse=True)
    names = [",".join(name for name in REASONS if value & BIT[name]) for value in values]
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32).reshape(-1), names)


def _groups(
    duplicates: pa.Table, entry: NDArray[np.int64], covered: Bools
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns group number (-1: alone or unknown) and rank of each row."""
    encoded = duplicates["group"].combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    ranks = duplicates["rank"].to_numpy(zero_copy_only=False).astype(np.int64)
    group = np.append(codes, -1)[entry]
    return np.where(covered, group, -1), np.append(ranks, 0)[entry]


def _superseded(samples: pa.Table, same_content: Bools, same_caption: Bools) -> Bools:
    """All but one sample of each image: the row's content, its caption, then the last one stays.

    The last isn't always the one of today's caption: a caption that comes back isn't exported anew.
    """
    code = samples["image_id"].combine_chunks().dictionary_encode().indices
    codes = code.to_numpy(zero_copy_only=False)
    order = samples["order"].to_numpy(zero_copy_only=False)
    ascending = np.lexsort((order, same_caption, same_content, codes))
    followed = np.zeros(len(codes), np.bool_)
    followed[ascending[:-1]] = codes[ascending[:-1]] == codes[ascending[1:]]
    return followed


def _index_in(left: pa.Table, right: pa.Table) -> NDArray[np.int64]:
    """Returns for each image of `left` its place in `right`, -1 if it isn't there."""
    found = pc.index_in(left["image_id"], value_set=right["image_id"].combine_chunks())
    return _numbers(pc.fill_null(found, -1))


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray, at: NDArray[np.int64]) -> Bools:
    """Tells where `left` equals `right[at]`; a null or missing value equals nothing."""
    places = pa.array(at, mask=at < 0)
    return _true(pc.equal(left, right.take(places)))


def _is_in(column: pa.ChunkedArray, values: Sequence[str]) -> Bools:
    return _true(pc.is_in(column, value_set=pa.array(values, pa.string())))


def _true(flags: pa.ChunkedArray) -> Bools:
    found: Bools = pc.fill_null(flags, False).to_numpy().astype(np.bool_)
    return found


def _numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    found: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    return found


def _check_unique(table: pa.Table, name: str) -> None:
    if pc.count_distinct(table["image_id"]).as_py() != table.num_rows:
        raise InvariantError(
            f"an image_id comes twice among the {name}",
            fix="materialize raw_images and duplicates again: doubled keys must be set aside",
        )
