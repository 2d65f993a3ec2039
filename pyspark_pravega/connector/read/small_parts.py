"""Parts of many segments that one task reads: asked for together, and few batches made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from pyspark_pravega.client import SegmentPart
from pyspark_pravega.serde.codec import Batch, arrow_batch

_SMALL_BYTES = 256 << 10
"""A larger part is read by itself, with several requests under way."""
_GROUP_BYTES = 1 << 20
_MOST_PARTS, _FIRST_PARTS, _GROWTH = 64, 1, 4
_FEW_ROWS, _MERGED_ROWS = 1024, 16_384
_FEW_BYTES, _MERGED_BYTES = 64 << 10, 1 << 20


def groups(parts: Sequence[SegmentPart]) -> Iterator[Sequence[SegmentPart]]:
    """Parts that are asked for together. Who wants a few rows only doesn't wait for many: the first group is one part.

    Args:
        parts: in the order in which they are read.
    """
    group: list[SegmentPart] = []
    size, most = 0, _FIRST_PARTS
    for part in parts:
        if group and (len(group) == most or part.size > _SMALL_BYTES or size + part.size > _GROUP_BYTES):
            yield group
            group, size, most = [], 0, min(_GROWTH * most, _MOST_PARTS)
        group.append(part)
        # Nothing joins a large one.
        size += part.size if part.size <= _SMALL_BYTES else _GROUP_BYTES
    if group:
        yield group


def merged(batches: Iterable[Batch], most_rows: int = _MERGED_ROWS) -> Iterator[Batch]:
    """The same rows in fewer batches: each takes the JVM and the worker some time, however small it is.

    Args:
        batches: of one schema, but for texts and bytes that are views of something; those stay as they are.
        most_rows: how many rows a batch has at most.
    """
    some: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        own = _small(batch)
        if some and (own is None or rows + own.num_rows > min(most_rows, _MERGED_ROWS) or size > _MERGED_BYTES):
            yield _joined(some)
            some, rows, size = [], 0, 0
        if own is None:
            yield batch
        else:
            some.append(own)
            rows, size = rows + own.num_rows, size + own.nbytes
    if some:
        yield _joined(some)


def _small(batch: Batch) -> pa.RecordBatch | None:
    if batch.num_rows > _FEW_ROWS:
        return None
    own = arrow_batch(batch)
    return None if _has_views(own.schema) or own.nbytes > _FEW_BYTES else own


def _has_views(schema: pa.Schema) -> bool:
    return any(_is_view(field.type) for field in schema)


def _is_view(kind: pa.DataType) -> bool:
    if kind in (pa.binary_view(), pa.string_view()):
        return True
    return any(_is_view(kind.field(at).type) for at in range(kind.num_fields))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches() or batches[:1]
    return joined
