"""Looking for images: by the words of their original caption, by the nearness of a vector."""

from __future__ import annotations

from collections.abc import Sequence

import lance
import pyarrow as pa
from lance.query import FullTextQuery, MatchQuery, PhraseQuery

from prx_resources.errors import UnknownError

TEXT_COLUMN = "original_caption"
VECTOR_COLUMN = "embedding"
TEXT_INDEX = "original_caption_text"
VECTOR_INDEX = "embedding_vector"
METRIC = "cosine"

_IN_USE = "set_aside IS NULL"


def full_text(ds: lance.LanceDataset, query: str, k: int = 20) -> pa.Table:
    """Finds images whose original caption has words of `query`; in quotes, the very phrase.

    Words are compared whole and without case: there is no prefix search. Rows that were added
    since the index was built are found as well.

    Args:
        ds: A source's image table.
        query: Words, or a phrase in double quotes.
        k: How many to return at most.

    Returns:
        `image_id`, `original_caption`, `_score`, the best first.

    Raises:
        UnknownError: The captions aren't indexed.
    """
    if TEXT_INDEX not in index_names(ds):
        raise UnknownError(
            "the original captions aren't indexed", where=ds.uri, fix="materialize search_index"
        )
    scanner = ds.scanner(
        columns=["image_id", TEXT_COLUMN, "_score"],
        full_text_query=_parsed(query),
        filter=_IN_USE,
        prefilter=True,
        limit=k,
        disable_scoring_autoprojection=True,
    )
    return scanner.to_table().sort_by([("_score", "descending"), ("image_id", "ascending")])


def nearest(ds: lance.LanceDataset, vector: Sequence[float], k: int = 20) -> pa.Table:
    """Finds the images whose vectors are nearest to `vector` by cosine distance.

    Args:
        ds: A source's image table.
        vector: As long as the source's vectors.
        k: How many to return at most.

    Returns:
        `image_id`, `_distance` (0 for the same direction, up to 2), the nearest first.

    Raises:
        UnknownError: The source brings no vectors, or ones of another length.
    """
    dimension = vector_length(ds)
    if dimension != len(vector):
        found = f"vectors of {dimension} numbers" if dimension else "no vectors"
        raise UnknownError(
            f"the source has {found}, the query has {len(vector)}",
            where=ds.uri,
            fix="ask with a vector of the model that made the source's",
        )
    table = ds.to_table(
        columns=["image_id", "_distance"],
        nearest={
            "column": VECTOR_COLUMN,
            "q": pa.array(vector, pa.float32()),
            "k": k,
            "metric": METRIC,
            # Distances in an index are approximate: look at more and measure those exactly.
            "refine_factor": 10,
            "nprobes": 20,
        },
        filter=_IN_USE,
        prefilter=True,
    )
    return table.sort_by([("_distance", "ascending"), ("image_id", "ascending")])


def index_names(ds: lance.LanceDataset) -> set[str]:
    """Returns the names of the table's indexes."""
    return {index.name for index in ds.describe_indices()}


def vector_length(ds: lance.LanceDataset) -> int:
    """Returns the length of the source's vectors, 0 if it brings none."""
    place = ds.schema.get_field_index(VECTOR_COLUMN)
    return 0 if place < 0 else int(ds.schema.field(place).type.list_size)


def _parsed(query: str) -> FullTextQuery:
    text = query.strip()
    if len(text) > 2 and text[0] == text[-1] == '"':
        return PhraseQuery(text[1:-1], TEXT_COLUMN)
    return MatchQuery(text, TEXT_COLUMN)
