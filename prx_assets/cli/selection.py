"""What a request to run stages picks, and in which runs it has to be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prx_resources.errors import UnknownError
from prx_resources.strict_yaml import did_you_mean

if TYPE_CHECKING:
    import dagster as dg

    from prx_assets.explain import Cell


@dataclass(frozen=True)
class Request:
    """What is to be run.

    Attributes:
        assets: Names; empty for all.
        sources: Names of catalogued sources.
        only: `missing`, `stale` or `failed`: only what is in that state.
        with_global: Whether an empty `assets` includes the global stages.
        config: The launchpad's config for every stage.
    """

    assets: Sequence[str]
    sources: Sequence[str]
    only: str | None = None
    with_global: bool = True
    config: dict[str, Any] | None = None


def check_assets(assets: Sequence[str], known: Sequence[str]) -> None:
    """Refuses names that no asset has.

    Raises:
        UnknownError: No such asset; names the nearest one.
    """
    for name in assets:
        if name not in known:
            raise UnknownError(
                f"no asset {name!r}", where="prx materialize", fix=did_you_mean(name, known)
            )


def in_state(cells: Sequence[Cell], stage: str, source: str, only: str) -> bool:
    """Tells whether a stage of a source is picked by `--missing`, `--stale` or `--failed`."""
    of_source = {cell.stage: cell.state for cell in cells if cell.source == source}
    state = of_source.get(stage)
    # What stands behind a chosen stage comes with it: its run ended with that stage, too.
    if state == "blocked":
        return only in ("missing", "stale") or "failed" in of_source.values()
    return state == only or (only == "stale" and state == "missing")


def in_order(defs: dg.Definitions, stages: Sequence[str]) -> list[list[str]]:
    """Splits stages, upstream first, into runs that keep their order.

    Within a run Dagster orders a stage after another only if all stages between them are in the
    run too.
    """
    graph = defs.resolve_asset_graph()
    runs: list[dict[str, set[str]]] = []
    for stage in stages:
        above = {key.to_user_string() for key in graph.get_ancestor_asset_keys(_key(stage))}
        parents = {key.to_user_string() for key in graph.get(_key(stage)).parent_keys}
        # For each stage of the current run: those of the run that Dagster knows to come before.
        current = runs[-1] if runs else {}
        known = set().union(*({name, *current[name]} for name in parents & set(current)))
        if not runs or not above & set(current) <= known:
            runs.append({})
            known = set()
        runs[-1][stage] = known
    return [list(run) for run in runs]


def _key(stage: str) -> dg.AssetKey:
    import dagster as dg

    return dg.AssetKey(stage)
