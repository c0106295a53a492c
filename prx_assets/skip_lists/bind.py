"""From one decision per sample to a list that is bound to shards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prx_resources.errors import InvariantError
from prx_resources.skip_list import ShardKey, SkipList


@dataclass(frozen=True)
class Export:
    """Every live shard and sample of the exports in question.

    Attributes:
        shards: In any order.
        samples: One row per sample: `shard` (int32, number in `shards`), `index` (uint32, number
            in the shard), `image_id`, `content_sha256`, `caption_digest`, `order` (int64).
    """

    shards: tuple[ShardKey, ...]
    samples: pa.Table

    @property
    def sources(self) -> list[str]:
        """Names of the sources, sorted."""
        return sorted({_source(shard) for shard in self.shards})

    def source_of_sample(self) -> NDArray[np.int64]:
        """Returns each sample's number in `sources`."""
        number = {source: place for place, source in enumerate(self.sources)}
        of_shard = np.array([number[_source(shard)] for shard in self.shards], np.int64)
        found: NDArray[np.int64] = of_shard[self.samples["shard"].to_numpy()]
        return found


def _source(shard: ShardKey) -> str:
    return shard.leaf.split("/")[0]


def bind(export: Export, masks: NDArray[np.uint16]) -> SkipList:
    """Returns the list that skips every sample with a reason.

    Args:
        export: The shards and samples.
        masks: Reasons per sample of `export.samples`; 0 keeps it.

    Raises:
        InvariantError: The samples known aren't exactly those of the shards.
    """
    shard = export.samples["shard"].to_numpy().astype(np.int64)
    index = export.samples["index"].to_numpy().astype(np.int64)
    sizes = np.array([key.samples for key in export.shards], np.int64)
    starts = np.cumsum(sizes) - sizes
    place = starts[shard] + index if len(shard) else shard
    total = int(sizes.sum())
    fits = len(place) == total and (shard >= 0).all() and (index < sizes[shard]).all()
    if not fits or len(np.unique(place)) != total:
        raise InvariantError(
            "the samples recorded for the export aren't those of its shards",
            fix="run mds_shards again; nothing was published",
        )
    skipped = np.zeros(total, np.bool_)
    skipped[place] = masks != 0
    parts = np.split(skipped, starts[1:]) if len(sizes) else []
    return SkipList.build(
        (key, np.flatnonzero(flags)) for key, flags in zip(export.shards, parts, strict=True)
    )
