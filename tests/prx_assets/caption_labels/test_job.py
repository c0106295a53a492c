from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from image_tables import add_images, png, rows

from prx_assets.caption_labels.job import work
from prx_assets.caption_labels.spec import CHECKS, STAGE, CaptionLabelsSpec
from prx_assets.runtime import Job
from prx_resources import lance_table
from prx_resources.column_stage import InlinePool
from prx_resources.columns import CAPTIONS
from prx_resources.contract import JobResult, JobSpec, text_digest
from prx_resources.lake import Lake
from prx_resources.lease import lease

RULES = CaptionLabelsSpec(engine="rules")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    add_images(lake, "pets", {"a": png("red"), "b": png("blue"), "c": png("white")})
    set_captions(lake, {"a": "A dog on a beach.", "b": "A screenshot of a form."})
    return lake


def set_captions(lake: Lake, captions: dict[str, str]) -> None:
    uri = lake.images_uri("pets")
    ds = lance_table.open_published(uri)
    table = ds.to_table(columns=["_rowid", "image_id", "content_sha256"])
    wanted = [image_id.split("/")[1] in captions for image_id in table["image_id"].to_pylist()]
    table = table.filter(pa.array(wanted))
    keys = [image_id.split("/")[1] for image_id in table["image_id"].to_pylist()]
    values = {
        "caption": [captions[key] for key in keys],
        "caption_model": ["test/1"] * len(keys),
        "caption_gates": [None] * len(keys),
        "caption_error": [None] * len(keys),
        "caption_fp": ["f" * 16] * len(keys),
    }
    table = table.append_column("input", table["content_sha256"])
    for field in CAPTIONS.fields:
        table = table.append_column(field, pa.array(values[field.name], field.type))
    with lease(lake.store, "images/pets", "test") as held:
        lance_table.publish(uri, lance_table.commit_columns(uri, CAPTIONS, table, held), held)


def run(lake: Lake, spec: CaptionLabelsSpec = RULES) -> JobResult:
    job_spec = JobSpec(
        stage=STAGE,
        source="pets",
        lake=lake.root,
        params=spec.params,
        ingredients=spec.ingredients(),
    )
    return work(Job(job_spec, Path(lake.root)), pool=InlinePool())


def test_rows_with_a_caption_get_a_label_that_knows_it(lake: Lake) -> None:
    result = run(lake)
    found = rows(lake, "pets", "label", "label_input", "label_model")
    assert found["a"] == {
        "label": "visual",
        "label_input": text_digest("A dog on a beach."),
        "label_model": "test-rules/1 (for tests only, not a classifier)",
    }
    assert found["b"]["label"] == "text"
    assert found["c"] == dict.fromkeys(found["c"])
    assert (result.rows_in, result.rows_out, result.done) == (2, 2, 2)
    assert {check.name for check in result.checks} == {name for name, *_ in CHECKS}
    assert all(check.passed for check in result.checks)


def test_the_report_counts_and_shows_each_label(lake: Lake) -> None:
    metadata = run(lake).metadata
    assert metadata["rows_by_label"].value == {"visual": 1, "text": 1, "nsfw": 0}
    assert [(row["label"], row["image_id"]) for row in metadata["samples"].value] == [
        ("visual", "pets/a"),
        ("text", "pets/b"),
    ]


def test_only_new_and_changed_captions_are_labelled(lake: Lake) -> None:
    first = run(lake)
    assert run(lake).done == 0
    set_captions(lake, {"a": "A nude figure.", "c": "A cat."})
    result = run(lake)
    assert result.done == 2
    assert result.data_version != first.data_version
    labels = {key: row["label"] for key, row in rows(lake, "pets", "label").items()}
    assert labels == {"a": "nsfw", "b": "text", "c": "visual"}


def test_the_built_in_labeller_runs_in_the_job(lake: Lake) -> None:
    run(lake, CaptionLabelsSpec())
    labels = {key: row["label"] for key, row in rows(lake, "pets", "label").items()}
    assert labels == {"a": "visual", "b": "text", "c": None}
