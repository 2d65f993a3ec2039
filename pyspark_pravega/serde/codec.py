"""What every format offers: whole Arrow batches in, whole Arrow batches out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from pyspark_pravega.errors import EventDecodeError


class Codec(Protocol):
    """Turns events into rows and back. Codecs can be pickled: they travel to executors."""

    @property
    def schema(self) -> pa.Schema:
        """All of the table's columns, as `to_arrow_schema(spark_schema, timezone="UTC")` gives them."""
        ...

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """Decode events.

        Args:
            payloads: an Arrow binary array of events without their stream frames, without nulls.
            columns: the wanted columns.

        Returns:
            A batch of those columns in that order, a row for each event. With no columns it has none, and
            still as many rows (see `batch_of`); the events aren't looked at then.

        Raises:
            BadEventError: an event can't be decoded; it is the first such one.
            SchemaError: the schema an event was written with doesn't resolve to the table's.
        """
        ...

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Encode rows.

        Args:
            batch: the rows; columns are matched by name, and may be in another time zone or a narrower type.

        Returns:
            An Arrow binary array of events without stream frames.

        Raises:
            EventEncodeError: a value doesn't fit its column, or null stands in a column that isn't nullable.
        """
        ...


class BadEventError(EventDecodeError):
    """An event that can't be decoded, and which one it is.

    Args:
        reason: what is wrong with it.
        index: its position among the payloads.
        encoding_id: the id in its header, None when it has none.
    """

    def __init__(self, reason: str, *, index: int, encoding_id: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index
        self.encoding_id = encoding_id

    def __str__(self) -> str:
        encoding = "" if self.encoding_id is None else f" (encoding {self.encoding_id})"
        return f"event {self.index} of the batch{encoding} can't be decoded: {self.reason}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _bad_event, (self.reason, self.index, self.encoding_id)


def first_bad(decode: Callable[[pa.Array], object], payloads: pa.Array, found: BadEventError) -> BadEventError:
    """The first bad event, where what was found bad may have others before it.

    Args:
        decode: decodes events, or raises BadEventError.
        payloads: the events.
        found: a bad one among them.
    """
    while found.index:
        try:
            decode(payloads.slice(0, found.index))
        except BadEventError as earlier:
            found = earlier
        else:
            break
    return found


def batch_of(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch that keeps its number of rows even without columns.

    Args:
        arrays: the columns.
        schema: their schema.
        rows: the number of rows.

    Returns:
        The batch. A batch without columns can be sent over Arrow IPC and keeps its `num_rows`, but selecting
        from it or converting it through Python lists loses them.
    """
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def subschema(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The fields of some columns, in the order asked for.

    Args:
        schema: all columns.
        columns: names of some of them.

    Returns:
        Their schema.

    Raises:
        KeyError: there's no such column.
    """
    return pa.schema([schema.field(name) for name in columns])


def _bad_event(reason: str, index: int, encoding_id: int | None) -> BadEventError:
    return BadEventError(reason, index=index, encoding_id=encoding_id)
