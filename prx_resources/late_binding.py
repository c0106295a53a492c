"""Tying computed values to the rows of the version that they are committed upon."""

from __future__ import annotations

from collections.abc import Sequence

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from prx_resources.columns import SET_ASIDE_FIELDS, STAGE_GROUPS, ColumnGroup
from prx_resources.contract import text_digest
from prx_resources.errors import InvariantError

Mask = npt.NDArray[np.bool_]
WHOLE_GROUPS = (
    tuple(field.name for field in SET_ASIDE_FIELDS),
    *(group.names for group in STAGE_GROUPS.values()),
)


def bind(ds: lance.LanceDataset, group: ColumnGroup | Sequence[str], values: pa.Table) -> pa.Table:
    """Returns those of `values` that fit the table and would change it, sorted by `_rowaddr`.

    Empty on a version that holds them all: so a commit is read back.
    """
    names, stage = column_names(group), group if isinstance(group, ColumnGroup) else None
    extra = [stage.input_of] if stage is not None and stage.input_of is not None else []
    ids = pc.unique(values["_rowid"])
    now = ds._take_rows(ids, columns=["_rowid", "_rowaddr", "content_sha256", *names, *extra])
    at = pc.index_in(values["_rowid"], value_set=now["_rowid"].combine_chunks())
    values = values.select(["_rowid", "content_sha256", *names]).filter(pc.is_valid(at))
    now = now.take(pc.drop_null(at))
    fits = _same(values["content_sha256"], now["content_sha256"])
    if stage is not None and stage.input is not None and stage.input_of is not None:
        fits &= _same(values[stage.input], digests(now[stage.input_of]))
    values, now = values.filter(pa.array(fits)), now.filter(pa.array(fits))
    _, last = np.unique(values["_rowid"].to_numpy()[::-1], return_index=True)
    kept = pa.array(values.num_rows - 1 - last)
    values, now = values.take(kept), now.take(kept)
    changed = np.zeros(values.num_rows, dtype=bool)
    for name in names:
        cast = values[name].cast(now.schema.field(name).type)
        values = values.set_column(values.schema.get_field_index(name), name, cast)
        changed |= ~_same(cast, now[name])
    bound = values.append_column("_rowaddr", now["_rowaddr"])
    return bound.filter(pa.array(changed)).sort_by("_rowaddr")


def column_names(group: ColumnGroup | Sequence[str]) -> tuple[str, ...]:
    """Returns the names of a whole group of columns.

    Raises:
        InvariantError: They aren't one.
    """
    names = group.names if isinstance(group, ColumnGroup) else tuple(group)
    if set(names) not in [set(whole) for whole in WHOLE_GROUPS]:
        raise InvariantError(
            f"{', '.join(names)} is not a whole group of columns",
            fix=f"write one of these together: {'; '.join(map(', '.join, WHOLE_GROUPS))}",
        )
    return names


def digests(texts: pa.ChunkedArray) -> pa.Array:
    """Returns the digest of each text, null for null."""
    return pa.array(
        [None if text is None else text_digest(text) for text in texts.to_pylist()], pa.string()
    )


def _same(left: pa.ChunkedArray, right: pa.ChunkedArray | pa.Array) -> Mask:
    equal = pc.fill_null(pc.equal(left, right), False)
    # NaN isn't equal to itself: such a value would count as never written.
    both_null = pc.and_(pc.is_null(left, nan_is_null=True), pc.is_null(right, nan_is_null=True))
    mask: Mask = pc.or_(equal, both_null).to_numpy(zero_copy_only=False).astype(bool)
    return mask
