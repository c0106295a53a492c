"""The catalog: one manifest per source in the lake, the only truth about sources."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from prx_resources.contract import check_source_name
from prx_resources.errors import ManifestError, RefusedError, UnknownError
from prx_resources.lake import Lake
from prx_resources.settings import OVERRIDABLE, Settings
from prx_resources.strict_yaml import Refusal, StrictModel, did_you_mean, dump, read

Kind = Literal["folder", "parquet", "webdataset"]
DEFAULT_GLOBS: dict[str, str] = {
    "folder": "**/*",
    "parquet": "**/*.parquet",
    "webdataset": "**/*.tar",
}


class SourceColumns(StrictModel):
    """Which column (parquet) or JSON field (tar) of the source holds what.

    Attributes:
        id: A key that is unique in the source; without it the content's hash is the key.
        image: Encoded image bytes.
        caption: The caption the source ships.
        embedding: A vector of fixed length.
        metadata: Columns kept as JSON.
    """

    id: str | None = None
    image: str | None = None
    caption: str | None = None
    embedding: str | None = None
    metadata: tuple[str, ...] = ()


class SourceManifest(StrictModel):
    """What is known about one source.

    Attributes:
        version: Version of the file's format.
        name: Partition key, `[a-z0-9][a-z0-9-]{0,47}`.
        kind: `folder` (image files, captions in `.txt` beside them), `parquet` (a column with
            encoded bytes) or `webdataset` (tars).
        uri: Absolute path of the folder that holds the files.
        glob: Which files below `uri`; by default all that the kind reads.
        columns: Where values are; not for `folder`.
        priority: Of equal copies in two sources the one with the higher priority stays.
        weight: How often each of its samples is drawn in an epoch, on average.
        licence: For people.
        notes: For people.
        overrides: Settings that differ for this source: section -> key -> value.
    """

    version: Literal[1] = 1
    name: str
    kind: Kind
    uri: str
    glob: str = ""
    columns: SourceColumns = SourceColumns()
    priority: int = 0
    weight: float = Field(default=1.0, gt=0)
    licence: str = ""
    notes: str = ""
    overrides: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        try:
            return check_source_name(name)
        except RefusedError as error:
            raise Refusal(error.what, error.fix) from None

    @field_validator("uri")
    @classmethod
    def _uri(cls, uri: str) -> str:
        if "://" in uri or not PurePath(uri).is_absolute():
            raise Refusal(f"{uri!r} isn't an absolute local path", "give the folder's full path")
        return uri

    @field_validator("overrides")
    @classmethod
    def _overrides(cls, overrides: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for section, values in overrides.items():
            if section not in OVERRIDABLE:
                hint = did_you_mean(section, OVERRIDABLE)
                raise Refusal(f"{section!r} can't be overridden by a source", hint)
            for key in values:
                if key == "engine":
                    raise Refusal(
                        f"`{section}.engine` can't be overridden by a source",
                        "set it in settings.yaml: an engine's lane belongs to the asset",
                    )
                if key not in OVERRIDABLE[section]:
                    hint = did_you_mean(key, OVERRIDABLE[section])
                    raise Refusal(f"unknown key `{section}.{key}`", hint)
        return overrides

    @model_validator(mode="after")
    def _kind_fits(self) -> Self:
        if self.kind == "folder" and self.columns != SourceColumns():
            raise Refusal(
                "a folder has no `columns`",
                "remove them: captions come from the .txt file beside an image",
            )
        if self.kind == "parquet" and self.columns.image is None:
            raise Refusal(
                "a parquet source must say which column holds the image bytes",
                "add `columns: {image: <column>}`",
            )
        Settings().for_source(self)
        return self

    @property
    def files(self) -> str:
        """The glob that selects the source's files."""
        return self.glob or DEFAULT_GLOBS[self.kind]

    def to_yaml(self) -> str:
        """Returns the manifest as the catalog keeps it."""
        return f"version: {self.version}\n{dump(self)}"


class Catalog:
    """The manifests of one lake.

    Args:
        lake: Where they lie.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def names(self) -> list[str]:
        """Returns the names of all catalogued sources, sorted."""
        keys = self._lake.store.list("catalog")
        return sorted(PurePath(key).stem for key in keys if key.endswith(".yaml"))

    def load(self, name: str) -> SourceManifest:
        """Returns a source's manifest.

        Raises:
            UnknownError: The catalog has no such source.
            ManifestError: Its file was edited and is wrong now.
        """
        key = self._lake.catalog_key(check_source_name(name))
        try:
            data = self._lake.store.get(key)
        except KeyError:
            hint = did_you_mean(name, self.names()) if self.names() else "the catalog is empty"
            raise UnknownError(
                f"no source {name!r} in the catalog",
                where=self._lake.uri(key),
                fix=f"{hint}; add one: prx source add {name} --folder PATH",
            ) from None
        manifest = read(SourceManifest, _text(data, self._lake.uri(key)), self._lake.uri(key))
        if manifest.name != name:
            raise ManifestError(
                f"`name`: the file of {name!r} says {manifest.name!r}",
                where=self._lake.uri(key),
                fix=f"write `name: {name}`; to rename a source, remove it and add it again",
            )
        return manifest

    def add(self, manifest: SourceManifest) -> bool:
        """Adds a source; returns False if this very manifest is already there.

        Raises:
            RefusedError: Another manifest has the name.
        """
        key = self._lake.catalog_key(manifest.name)
        if self._lake.store.put_if_absent(key, manifest.to_yaml().encode()):
            return True
        if self.load(manifest.name) == manifest:
            return False
        raise RefusedError(
            f"the source {manifest.name!r} is in the catalog with another manifest",
            where=self._lake.uri(key),
            fix="edit that file, or choose another name",
        )

    def remove(self, name: str) -> None:
        """Removes a source's manifest; its table and export stay.

        Raises:
            UnknownError: The catalog has no such source.
        """
        key = self._lake.catalog_key(check_source_name(name))
        if not self._lake.store.exists(key):
            self.load(name)
        self._lake.store.delete(key)


def parse_manifest(text: str, where: str) -> SourceManifest:
    """Returns the manifest in a file that a person wrote.

    Raises:
        ManifestError: It is wrong; names the key and what to do.
    """
    return read(SourceManifest, text, where)


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ManifestError("not UTF-8 text", where=where, fix="save it as UTF-8") from None
