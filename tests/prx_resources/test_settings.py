"""Settings: defaults without a file, typos refused, overrides per source, lanes."""

from __future__ import annotations

from pathlib import Path

import pytest

from prx_resources.catalog import parse_manifest
from prx_resources.errors import ManifestError
from prx_resources.settings import Settings


def write(home: Path, text: str) -> Settings:
    (home / "settings.yaml").write_text(text)
    return Settings.load(home)


def test_defaults_without_a_file(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path)
    assert settings.lake == str(tmp_path / "lake")
    assert settings == write(tmp_path, "version: 1\n")
    assert (settings.captions.lane, settings.labels.lane) == ("cpu", "cpu")


def test_lake_may_lie_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "big-disk"
    assert write(tmp_path, f"lake: {elsewhere}\n").lake == str(elsewhere)
    with pytest.raises(ManifestError, match="isn't a local path"):
        write(tmp_path, "lake: s3://bucket/lake\n")


def test_own_engine_runs_in_the_paid_lane(tmp_path: Path) -> None:
    settings = write(tmp_path, "captions: {engine: 'my.engines:Captioner'}\n")
    assert (settings.captions.lane, settings.labels.lane) == ("paid", "cpu")


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("captoins: {}\n", "unknown key 'captoins'", "did you mean 'captions'?"),
        ("captions: {modle: x}\n", "`captions`: unknown key 'modle'", "did you mean 'model'?"),
        ("captions: {engine: mesured}\n", "no engine 'mesured'", "did you mean 'measured'?"),
        ("export: {quality: 0}\n", "`export.quality`", "correct `export.quality`"),
        ("skip: {profiles: {default: {allow: [takedown]}}}\n", "skip.profiles", "correct"),
        ("skip: {profiles: {}}\n", "skip.profiles", "correct"),
        ("max_cost_per_run: -1\n", "`max_cost_per_run`", "correct"),
    ],
)
def test_mistakes_are_refused(tmp_path: Path, text: str, what: str, fix: str) -> None:
    with pytest.raises(ManifestError) as refused:
        write(tmp_path, text)
    assert what in refused.value.what
    assert fix in refused.value.fix
    assert refused.value.where == str(tmp_path / "settings.yaml")


def test_overrides_change_one_source_only(tmp_path: Path) -> None:
    settings = write(tmp_path, "captions: {model: base, prompt: Describe.}\n")
    manifest = parse_manifest(
        "name: birds\nkind: folder\nuri: /data/birds\n"
        "overrides: {captions: {prompt: Name the bird.}, hashes: {flat_std: 2}}\n",
        "birds.yaml",
    )
    own = settings.for_source(manifest)
    assert (own.captions.model, own.captions.prompt) == ("base", "Name the bird.")
    assert own.hashes.flat_std == 2
    assert own.export == settings.export
    assert settings.captions.prompt == "Describe."
