"""The `prx` command: the same platform as the Dagster UI, from a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from prx_assets.cli import output
from prx_assets.cli.demo import demo
from prx_assets.cli.dev import dev, ray
from prx_assets.cli.doctor import doctor
from prx_assets.cli.materialize import materialize
from prx_assets.cli.sources import source
from prx_assets.cli.status import status
from prx_assets.cli.takedown import takedown
from prx_assets.cli.try_image import try_images
from prx_assets.cli.workspace import Workspace
from prx_resources.environment import prx_home
from prx_resources.errors import PrxError, StoreRefused
from prx_resources.object_store import disk_full

INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--home", type=click.Path(path_type=Path), help="PRX_HOME; default: $PRX_HOME or .prx"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.option("--debug", is_flag=True, help="Print tracebacks.")
@click.pass_context
def prx(context: click.Context, home: Path | None, as_json: bool, debug: bool) -> None:
    """Text-to-image data sets: source files in, MDS shards and skip-lists out."""
    workspace = Workspace((home or prx_home()).absolute())
    context.obj = {"workspace": workspace, "json": as_json, "debug": debug}


for command in (demo, dev, doctor, source, materialize, status, try_images, takedown, ray):
    prx.add_command(command)


def main() -> None:
    """Runs `prx` and exits: 0 fine, 1 failed, 2 usage, 3 refused."""
    sys.exit(run(options_first(sys.argv[1:])))


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    debug = "--debug" in arguments
    try:
        code = prx.main(args=arguments, prog_name="prx", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except PrxError as error:
        if debug:
            raise
        return output.refuse(error)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "prx"
        message = error.format_message().rstrip(".")
        click.echo(f"error: {message} ({command})\n  fix: {command} --help", err=True)
        return 2
    except click.ClickException as error:
        click.echo(f"error: {error.format_message()} (prx)\n  fix: prx --help", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped; finished chunks are kept, and the same command goes on", err=True)
        return INTERRUPTED
    except OSError as error:
        if debug:
            raise
        return output.refuse(_from_os(error))


def _from_os(error: OSError) -> PrxError:
    place = str(error.filename or "")
    if disk_full(error):
        return StoreRefused("the disk is full", where=place, fix="free space, then run it again")
    reason = error.strerror or str(error)
    return PrxError(reason, where=place, fix="check that path and its permissions")


def options_first(arguments: list[str]) -> list[str]:
    """Lets the group's options stand anywhere, as people type them: `prx status --json`."""
    first: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word in ("--json", "--debug") or word.startswith("--home="):
            first.append(word)
        elif word == "--home":
            first += [word, *(value for value in [next(words, None)] if value is not None)]
        else:
            rest.append(word)
    return [*first, *rest]
