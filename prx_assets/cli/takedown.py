"""`prx takedown`: an image, and every copy of it, never trains again."""

from __future__ import annotations

import click

from prx_assets.cli import output
from prx_assets.cli.workspace import Workspace


@click.command()
@click.argument("image_ids", nargs=-1, required=True, metavar="IMAGE_ID...")
@click.option("--reason", default="requested", show_default=True, help="Kept with the request.")
@click.pass_context
def takedown(context: click.Context, image_ids: tuple[str, ...], reason: str) -> None:
    """Take images down by IMAGE_ID (`<source>/<key>`), with their whole duplicate groups.

    The request is written at once and stays for ever, also when the source is removed and added
    again. The next skip-list leaves the images out.
    """
    from prx_assets.perceptual_hashes.asset import build_spec
    from prx_assets.takedown_requests.request import request_takedowns

    workspace: Workspace = context.obj["workspace"]
    with workspace.instance() as instance:
        spec = build_spec(workspace.settings)
        found, new = request_takedowns(workspace.lake, image_ids, reason, instance, spec)
    lines = (f"{one.image_id}  content {(one.content_sha256 or '')[:16]}" for one in found)
    text = "\n".join(dict.fromkeys(lines))
    # A flat or undecodable picture has no hash by which other copies of it could be known.
    hashed = {one.content_sha256 for one in found if one.phash is not None}
    unknown = any(one.content_sha256 not in hashed for one in found)
    copies = "byte-identical copies" if unknown else "copies"
    output.emit(
        [{"image_id": one.image_id, "content_sha256": one.content_sha256} for one in found],
        f"{text}\n{new} new requests of {len(found)}; {copies} of these pictures are covered too",
        next_command="prx materialize duplicates skip_lists training_config",
    )
