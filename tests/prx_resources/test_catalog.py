"""The catalog refuses what a person could get wrong, and says what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from prx_resources.catalog import Catalog, SourceManifest, parse_manifest
from prx_resources.errors import ManifestError, RefusedError, UnknownError
from prx_resources.lake import Lake

FOLDER = "version: 1\nname: birds\nkind: folder\nuri: /data/birds\n"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(Lake(str(tmp_path)))


def manifest(text: str = FOLDER) -> SourceManifest:
    return parse_manifest(text, "birds.yaml")


def test_manifest_survives_the_catalog(catalog: Catalog) -> None:
    text = (
        "name: shop\nkind: parquet\nuri: /data/shop\npriority: 3\nweight: 0.5\n"
        "columns: {image: jpg, metadata: [sku, price]}\n"
        "overrides: {captions: {prompt: Name the product.}, export: {quality: 95}}\n"
    )
    before = manifest(text)
    assert catalog.add(before)
    assert catalog.load("shop") == before
    assert catalog.names() == ["shop"]


def test_same_manifest_twice_is_no_change_and_another_is_refused(catalog: Catalog) -> None:
    assert catalog.add(manifest())
    assert not catalog.add(manifest())
    with pytest.raises(RefusedError, match="another manifest"):
        catalog.add(manifest(FOLDER + "priority: 1\n"))


def test_edited_manifest_counts(catalog: Catalog, tmp_path: Path) -> None:
    catalog.add(manifest())
    (tmp_path / "catalog/birds.yaml").write_text(FOLDER + "priority: 7\n")
    assert catalog.load("birds").priority == 7
    (tmp_path / "catalog/birds.yaml").write_text(FOLDER.replace("birds", "cats"))
    with pytest.raises(ManifestError, match="says 'cats'"):
        catalog.load("birds")


def test_removed_source_is_unknown_and_its_name_free(catalog: Catalog) -> None:
    catalog.add(manifest())
    catalog.remove("birds")
    assert catalog.names() == []
    with pytest.raises(UnknownError, match="no source 'birds'"):
        catalog.remove("birds")
    assert catalog.add(manifest(FOLDER + "priority: 1\n"))


def test_unknown_source_gets_the_nearest_name(catalog: Catalog) -> None:
    catalog.add(manifest())
    with pytest.raises(UnknownError) as refused:
        catalog.load("brids")
    assert "did you mean 'birds'?" in refused.value.fix


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        (FOLDER + "priorty: 1\n", "unknown key 'priorty'", "did you mean 'priority'?"),
        (FOLDER + "overrides: {caption: {}}\n", "'caption'", "did you mean 'captions'?"),
        (
            FOLDER + "overrides: {captions: {engine: vllm}}\n",
            "`captions.engine` can't be overridden",
            "settings.yaml",
        ),
        (FOLDER + "overrides: {export: {qualty: 1}}\n", "`export.qualty`", "'quality'"),
        (FOLDER + "overrides: {export: {quality: 101}}\n", "`quality`", "correct `quality`"),
        (FOLDER + "columns: {caption: text}\n", "a folder has no `columns`", "remove them"),
        (FOLDER + "name: cats\n", "the key 'name' stands twice", "correct that line"),
        (FOLDER + "weight: .nan\n", "`weight`", "correct `weight`"),
        (FOLDER + "version: 2\n", "stands twice", "correct that line"),
        (FOLDER.replace("version: 1", "version: 2"), "`version`", "correct `version`"),
        (FOLDER.replace("birds\nkind", "../x\nkind"), "can't name a source", "1-48 lower-case"),
        (FOLDER.replace("birds\nkind", "all\nkind"), "can't name a source", "not 'all'"),
        (FOLDER.replace("/data", "data"), "isn't an absolute local path", "full path"),
        (FOLDER.replace("/data", "s3://b"), "isn't an absolute local path", "full path"),
        (FOLDER.replace("folder", "foldr"), "`kind`", "correct `kind`"),
        (FOLDER.replace("folder", "parquet"), "which column holds the image", "columns: {image"),
        (FOLDER.replace("uri: /data/birds\n", ""), "`uri`", "add `uri`"),
        ("- a\n- b\n", "must hold `key: value` lines", "README"),
        ("a: [1\n", "not valid YAML", "correct that line"),
    ],
)
def test_mistakes_are_refused(text: str, what: str, fix: str) -> None:
    with pytest.raises(ManifestError) as refused:
        manifest(text)
    assert what in refused.value.what
    assert fix in refused.value.fix
    assert "birds" in refused.value.where
