from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx_assets.skip_lists.compile import BIT, Decisions, Inputs, Policy, reason_names
from prx_assets.skip_lists.gather import DUPLICATES_SCHEMA, ROWS_SCHEMA
from prx_assets.skip_lists.spec import ALWAYS
from prx_resources import takedowns
from prx_resources.errors import InvariantError, ManifestError

SAMPLES = pa.schema(
    [
        ("image_id", pa.string()),
        ("content_sha256", pa.string()),
        ("caption_digest", pa.string()),
        ("order", pa.int64()),
    ]
)
SIGNATURE = bytes(range(48))


@dataclass(frozen=True)
class Picture:
    """One image, well through every stage; a test says what is different about it."""

    name: str
    content: str = ""
    caption: str | None = "c"
    label: str | None = "visual"
    label_input: str | None = "c"
    gates: str | None = None
    phash: int | None = 1
    signature: bytes = SIGNATURE
    flat: bool = False
    group: str | None = None
    rank: int = 0
    covered: bool = True
    eligible: bool = True
    exported: tuple[tuple[str, str], ...] | None = None
    """(content, caption digest) of its samples, oldest first; by default one, up to date."""

    @property
    def row(self) -> dict[str, Any]:
        return {
            "image_id": self.name,
            "content_sha256": self.content or self.name,
            "caption_gates": self.gates,
            "label": self.label,
            "label_input": self.label_input,
            "phash": self.phash,
            "signature": self.signature,
            "phash_flat": self.flat,
            "caption_digest": self.caption,
        }

    @property
    def samples(self) -> list[dict[str, Any]]:
        exported = ((self.content or self.name, "c"),) if self.exported is None else self.exported
        return [
            {"image_id": self.name, "content_sha256": content, "caption_digest": caption}
            for content, caption in exported
        ]


def inputs(
    pictures: Iterable[Picture], requests: Iterable[dict[str, Any]] = (), **more: Any
) -> Inputs:
    pictures = list(pictures)
    samples = [sample for picture in pictures for sample in picture.samples]
    groups = [
        {**picture.row, "group": picture.group, "rank": picture.rank}
        for picture in pictures
        if picture.covered and picture.phash is not None
    ]
    now = datetime.now(UTC)
    asked = [{"source": "s", "requested_at": now, "image_id": "-", **row} for row in requests]
    return Inputs(
        samples=pa.Table.from_pylist(
            [{**sample, "order": number} for number, sample in enumerate(samples)], SAMPLES
        ),
        rows=pa.Table.from_pylist(
            [picture.row for picture in pictures if picture.eligible], ROWS_SCHEMA
        ),
        duplicates=pa.Table.from_pylist(
            [{name: row[name] for name in DUPLICATES_SCHEMA.names} for row in groups],
            DUPLICATES_SCHEMA,
        ),
        takedowns=pa.Table.from_pylist(asked, takedowns.SCHEMA),
        **more,
    )


def reasons(found: Inputs, policy: Policy | None = None) -> list[str]:
    masks = Decisions(found).masks(policy or Policy())
    names: list[str] = reason_names(masks).to_pylist()
    return names


A = Picture("s/a")
B = Picture("s/b", phash=2)


def test_a_picture_that_went_through_every_stage_is_kept() -> None:
    assert reasons(inputs([A, B])) == ["", ""]


@pytest.mark.parametrize(
    ("picture", "reason"),
    [
        (replace(A, label="text"), "text"),
        (replace(A, label="nsfw"), "nsfw"),
        (replace(A, label=None, label_input=None), "undecided"),
        (replace(A, label="something else"), "undecided"),
        (replace(A, label_input="of another caption"), "undecided"),
        (replace(A, caption="new", label_input="new"), "undecided"),
        (replace(A, caption=None, label=None), "undecided"),
        (replace(A, phash=None), "undecided"),
        (replace(A, covered=False), "undecided"),
        (replace(A, eligible=False), "vanished"),
        (replace(A, exported=(("old content", "c"),)), "vanished"),
        (replace(A, exported=(("s/a", "c"), ("s/a", "c"))), "superseded"),
    ],
)
def test_each_reason(picture: Picture, reason: str) -> None:
    assert reasons(inputs([picture, B]))[0] == reason
    assert reasons(inputs([picture, B]))[-1] == ""


def test_a_new_caption_supersedes_the_old_sample_once_it_is_exported() -> None:
    picture = replace(A, caption="new", label_input="new", exported=(("s/a", "c"), ("s/a", "new")))
    assert reasons(inputs([picture])) == ["superseded", ""]


def test_a_caption_that_comes_back_finds_its_sample() -> None:
    # It isn't exported a second time, so the newer sample is the one of no use.
    picture = replace(A, exported=(("s/a", "c"), ("s/a", "other"), ("old content", "c")))
    assert reasons(inputs([picture])) == ["", "superseded", "superseded"]


def test_of_two_samples_the_one_with_the_rows_content_stays() -> None:
    picture = replace(A, exported=(("s/a", "c"), ("old content", "c")))
    assert reasons(inputs([picture])) == ["", "superseded"]


def test_only_blocking_gates_skip() -> None:
    pictures = [replace(A, gates="words,loop"), replace(B, gates="words")]
    policy = Policy(blocking_gates=frozenset({"loop", "refusal"}))
    assert reasons(inputs(pictures), policy) == ["caption_gate", ""]
    allowing = Policy(frozenset({"caption_gate"}), frozenset({"loop"}))
    assert reasons(inputs(pictures), allowing) == ["", ""]


def test_people_skip_by_image_id() -> None:
    found = inputs([A, B], manual=["s/b", "s/unknown"])
    assert reasons(found) == ["", "manual"]
    assert reasons(found, Policy(frozenset({"manual"}))) == ["", ""]


def group(*changes: dict[str, Any]) -> list[Picture]:
    return [
        replace(Picture(f"s/{rank}", group="s/0", rank=rank), **change)
        for rank, change in enumerate(changes)
    ]


def test_the_first_ranked_copy_stays() -> None:
    assert reasons(inputs(group({}, {}, {}))) == ["", "duplicate", "duplicate"]
    assert reasons(inputs(group({}, {})), Policy(frozenset({"duplicate"}))) == ["", ""]


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ({"label": "text"}, "text,duplicate"),
        ({"label": None}, "duplicate,undecided"),
        ({"caption": None, "label": None}, "duplicate,undecided"),
        ({"eligible": False}, "vanished"),
        ({"gates": "loop"}, "duplicate,caption_gate"),
        ({"exported": ()}, None),
    ],
)
def test_an_unfit_first_copy_leaves_its_place_to_the_next(
    first: dict[str, Any], reason: str | None
) -> None:
    policy = Policy(blocking_gates=frozenset({"loop"}))
    found = reasons(inputs(group(first, {}, {})), policy)
    if reason is None:
        # Fit but not exported yet: it is still the copy to keep.
        assert found == ["duplicate", "duplicate"]
    else:
        assert found == [reason, "", "duplicate"]


def test_an_allowed_label_may_be_the_kept_copy() -> None:
    pictures = group({"label": "text"}, {"label": "text"})
    assert reasons(inputs(pictures)) == ["text", "text"]
    assert reasons(inputs(pictures), Policy(frozenset({"text"}))) == ["", "duplicate"]


def test_a_takedown_covers_the_whole_group() -> None:
    pictures = [*group({}, {}, {}), replace(B, name="s/other")]
    found = reasons(inputs(pictures, [{"image_id": "s/1"}]))
    assert found == ["takedown-twin", "takedown", "takedown-twin", ""]


@pytest.mark.parametrize(
    "request_",
    [
        {"content_sha256": "s/0"},
        {"phash": 1, "signature": bytes(byte + 12 for byte in SIGNATURE)},
    ],
)
def test_a_takedown_outlives_its_source(request_: dict[str, Any]) -> None:
    # The image that was asked for is in no table any more; its copies are found all the same.
    found = reasons(inputs(group({}, {"phash": 9}), [{"image_id": "gone/x", **request_}]))
    assert all("takedown" in reason for reason in found)


@pytest.mark.parametrize(
    "request_",
    [
        {"phash": 1, "signature": bytes(byte + 13 for byte in SIGNATURE)},
        {"phash": 3, "signature": SIGNATURE},
        {"phash": 1},
        {"content_sha256": None, "phash": None},
    ],
)
def test_a_takedown_covers_nothing_else(request_: dict[str, Any]) -> None:
    assert reasons(inputs([A], [request_])) == [""]


def test_flat_pictures_look_all_alike_and_are_not_twins() -> None:
    look = {"phash": 1, "signature": SIGNATURE}
    assert reasons(inputs([replace(A, flat=True)], [look])) == [""]


def test_a_twin_is_found_through_a_member_that_is_no_row() -> None:
    pictures = group({"eligible": False}, {})
    found = reasons(inputs(pictures, [{"image_id": "s/0"}]))
    assert found == ["takedown,vanished", "takedown-twin"]


def test_no_profile_may_allow_what_always_skips() -> None:
    for reason in ALWAYS:
        with pytest.raises(ManifestError, match=reason):
            Policy(frozenset({reason}))


def test_nothing_known_skips_everything() -> None:
    found = inputs([A, B])
    bare = replace(found, rows=found.rows.slice(0, 0), duplicates=found.duplicates.slice(0, 0))
    assert reasons(bare) == ["vanished", "vanished"]
    assert reasons(replace(found, samples=found.samples.slice(0, 0))) == []


def test_a_doubled_image_id_is_refused() -> None:
    found = inputs([A, B])
    doubled = replace(found, rows=pa.concat_tables([found.rows, found.rows]))
    with pytest.raises(InvariantError, match="twice"):
        Decisions(doubled)


PICTURES = st.builds(
    Picture,
    name=st.just(""),
    caption=st.sampled_from(["c", "d", None]),
    label=st.sampled_from(["visual", "visual", "text", "nsfw", None]),
    label_input=st.sampled_from(["c", "c", "d", None]),
    gates=st.sampled_from([None, "loop", "words"]),
    phash=st.sampled_from([1, 1, 2, None]),
    flat=st.booleans(),
    group=st.sampled_from([None, "g", "h"]),
    covered=st.sampled_from([True, True, False]),
    eligible=st.sampled_from([True, True, False]),
    exported=st.sampled_from([None, None, (), (("x", "c"),)]),
)


@given(
    st.lists(PICTURES, max_size=12),
    st.sets(st.integers(0, 11), max_size=2),
    st.sets(st.sampled_from(["text", "nsfw", "duplicate", "manual", "caption_gate"])),
)
def test_whatever_happens_only_decided_pictures_are_kept_and_one_of_a_group(
    drawn: list[Picture], asked: set[int], allow: set[str]
) -> None:
    pictures = [replace(picture, name=f"s/{n}", rank=n) for n, picture in enumerate(drawn)]
    found = inputs(pictures, [{"image_id": f"s/{number}"} for number in asked])
    policy = Policy(frozenset(allow), frozenset({"loop"}))
    masks = Decisions(found).masks(policy)
    by_name = {picture.name: picture for picture in pictures}
    ids = found.samples["image_id"].to_pylist()
    kept = [by_name[name] for name, mask in zip(ids, masks, strict=True) if mask == 0]
    taken_groups = {by_name[f"s/{n}"].group for n in asked if f"s/{n}" in by_name} - {None}
    for picture in kept:
        assert picture.eligible
        assert picture.covered
        assert picture.phash is not None
        assert picture.caption == picture.label_input == "c"
        assert picture.label in policy.labels
        assert "caption_gate" in allow or picture.gates != "loop"
        assert picture.name not in {f"s/{number}" for number in asked}
        taken = [p for p in pictures if p.group == picture.group and p.covered and p.phash]
        assert picture.group not in taken_groups or not {p.name for p in taken} & {
            f"s/{number}" for number in asked
        }
    groups = [picture.group for picture in kept if picture.group]
    assert "duplicate" in allow or len(groups) == len(set(groups))


def test_reason_names_spell_every_bit() -> None:
    masks = np.array([0, BIT["text"], BIT["text"] | BIT["undecided"]], np.uint16)
    assert reason_names(masks).to_pylist() == ["", "text", "text,undecided"]
