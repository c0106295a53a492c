"""`prx source`: add sources to the catalog and list them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from prx_assets.cli import output
from prx_assets.cli.workspace import Workspace
from prx_resources.catalog import SourceManifest, parse_manifest
from prx_resources.errors import ManifestError, UsageError
from prx_resources.strict_yaml import did_you_mean, validate

_CAPTION_NAMES = ("caption", "text", "txt", "alt_text")


@click.group()
def source() -> None:
    """Add and list sources."""


@source.command()
@click.argument("name_or_manifest", metavar="NAME|MANIFEST.yaml")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of images (+ .txt, .json).")
@click.option("--parquet", type=click.Path(path_type=Path), help="Folder of Parquet files.")
@click.option("--wds", type=click.Path(path_type=Path), help="Folder of WebDataset tars.")
@click.option("--id", "id_column", help="Column with a key that is unique in the source.")
@click.option("--image", "image_column", help="Parquet column with image bytes.")
@click.option("--caption", "caption_column", help="Column with the source's captions.")
@click.option("--embedding", "embedding_column", help="Column with vectors.")
@click.option("--metadata", "metadata_columns", multiple=True, help="Column to keep (repeatable).")
@click.option("--priority", type=int, default=0, help="Of equal copies the higher one stays.")
@click.option("--weight", type=float, default=1.0, help="Mixing weight for training.")
@click.pass_context
def add(context: click.Context, /, name_or_manifest: str, **options: Any) -> None:
    """Put a source into the catalog, from options or from a manifest file."""
    workspace: Workspace = context.obj["workspace"]
    manifest = _manifest(name_or_manifest, options)
    files = add_source(workspace, manifest)
    output.emit(
        {"source": manifest.name, "kind": manifest.kind, "uri": manifest.uri, "files": files},
        f"{manifest.name}: {manifest.kind} source with {files:,} file{'' if files == 1 else 's'}"
        f" at {manifest.uri}",
        next_command=f"prx materialize --source {manifest.name}",
    )


@source.command(name="list")
@click.pass_context
def list_sources(context: click.Context) -> None:
    """List the catalogued sources."""
    catalog = context.obj["workspace"].catalog
    manifests = [catalog.load(name) for name in catalog.names()]
    rows = [(one.name, one.kind, one.priority, one.weight, one.uri) for one in manifests]
    output.emit(
        [one.model_dump(mode="json") for one in manifests],
        output.table(("source", "kind", "priority", "weight", "uri"), rows)
        if rows
        else "no sources yet",
        next_command="prx status" if rows else "prx source add NAME --folder PATH",
    )


def add_source(workspace: Workspace, manifest: SourceManifest) -> int:
    """Checks a source, writes it to the catalog and makes it a partition.

    Args:
        workspace: Where to.
        manifest: What to add; adding the same one again is fine.

    Returns:
        How many files it has now.

    Raises:
        SourceReadError: The place doesn't exist or holds no file of the kind.
        RefusedError: Another manifest has the name.
    """
    from prx_assets.raw_images.listing import digest, list_files
    from prx_assets.source_files import report_source_files
    from prx_resources.object_store import probe

    files = list_files(manifest.kind, manifest.uri, manifest.files)
    Path(workspace.settings.lake).mkdir(parents=True, exist_ok=True)
    probe(workspace.lake.store)
    with workspace.instance() as instance:
        workspace.catalog.add(manifest)
        report_source_files(instance, manifest.name, digest(files), len(files))
    return len(files)


def _manifest(name: str, options: dict[str, Any]) -> SourceManifest:
    places = {
        "folder": options["folder"],
        "parquet": options["parquet"],
        "webdataset": options["wds"],
    }
    given = {kind: place for kind, place in places.items() if place is not None}
    if name.endswith((".yaml", ".yml")):
        if given:
            raise UsageError(
                "a manifest file and --folder, --parquet or --wds say the same thing twice",
                where=name,
                fix="leave the options out",
            )
        return _from_file(Path(name))
    if len(given) != 1:
        raise UsageError(
            "say what kind of source it is, once",
            where=f"prx source add {name}",
            fix="give one of --folder, --parquet or --wds with a path",
        )
    ((kind, place),) = given.items()
    columns = _columns(kind, place, options)
    data = {
        "name": name,
        "kind": kind,
        "uri": str(place.absolute()),
        "priority": options["priority"],
        "weight": options["weight"],
        **({"columns": columns} if columns else {}),
    }
    return validate(SourceManifest, data, f"prx source add {name}")


def _from_file(path: Path) -> SourceManifest:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(
            f"the manifest can't be read: {error}", where=str(path), fix="check the path"
        ) from None
    return parse_manifest(text, str(path))


def _columns(kind: str, place: Path, options: dict[str, Any]) -> dict[str, Any]:
    columns = {
        "id": options["id_column"],
        "image": options["image_column"],
        "caption": options["caption_column"],
        "embedding": options["embedding_column"],
        "metadata": list(options["metadata_columns"]),
    }
    chosen = {key: value for key, value in columns.items() if value}
    if kind == "parquet":
        chosen = _from_schema(place, chosen)
    return chosen


def _from_schema(place: Path, chosen: dict[str, Any]) -> dict[str, Any]:
    """Refuses columns that the first file lacks; takes `image` and a caption by their usual name.

    An unreadable file is left to the stage, which names it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = next(iter(sorted(place.rglob("*.parquet"))), None)
    if first is None:
        return {"image": "image", **chosen}
    try:
        names = pq.read_schema(first).names
    except (OSError, pa.ArrowInvalid):
        return {"image": "image", **chosen}
    if "image" not in chosen:
        chosen["image"] = "image"
    if "caption" not in chosen:
        usual = [name for name in _CAPTION_NAMES if name in names]
        chosen |= {"caption": usual[0]} if usual else {}
    for key, value in chosen.items():
        for column in value if isinstance(value, list) else [value]:
            if column not in names:
                raise ManifestError(
                    f"the source has no column {column!r}",
                    where=str(first),
                    fix=f"--{key}: {did_you_mean(column, names)}",
                )
    return chosen
