"""What every format offers: whole Arrow batches in, whole Arrow batches out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from pyspark_pravega.frames.bad_events import BadEventError


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


class NativeBatch(Protocol):
    """A batch of the native module's, which pyarrow doesn't know yet: to tell it of each column isn't free, and a batch
    that is laid into memory doesn't need it."""

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        ...

    def to_arrow(self) -> pa.RecordBatch:
        """The batch as pyarrow's, without a copy."""
        ...

    def lay(self, memory: pa.Array, small: int) -> int | None:
        """Lay it into memory, as the native module's `lay` does.

        Args:
            memory: a uint8 array over memory that may be written to.
            small: a batch of no more bytes isn't written.

        Returns:
            How many bytes it takes, written or not; None when it can't be laid out as it is.
        """
        ...


Batch: TypeAlias = pa.RecordBatch | NativeBatch


def arrow_batch(batch: Batch) -> pa.RecordBatch:
    """A batch as pyarrow's, without a copy.

    Args:
        batch: pyarrow's, or the native module's.
    """
    return batch if isinstance(batch, pa.RecordBatch) else batch.to_arrow()


def takes_views(codec: Codec) -> bool:
    """Whether a codec decodes views of a buffer (`pa.binary_view()`), too; others take payloads only.

    Args:
        codec: decodes.
    """
    return bool(getattr(codec, "takes_views", False))


def decode_to_views(codec: Codec, payloads: pa.Array, columns: Sequence[str]) -> Batch:
    """As `codec.decode`, but columns of texts and bytes may be views of the payloads' memory.

    Args:
        codec: decodes.
        payloads: events, or views of them where the codec takes views.
        columns: the wanted columns.

    Returns:
        The rows, as a batch of pyarrow's or of the native module's. Columns of type string may be `pa.string_view()`
        instead, and those of type binary `pa.binary_view()`.

    Raises:
        BadEventError: an event can't be decoded; it is the first such one.
        SchemaError: the schema an event was written with doesn't resolve to the table's.
    """
    decode: Callable[[pa.Array, Sequence[str]], Batch] = getattr(codec, "decode_to_views", codec.decode)
    return decode(payloads, columns)


def or_first_bad(decode: Callable[[pa.Array], pa.RecordBatch], payloads: pa.Array) -> pa.RecordBatch:
    """Decode events, where what is found bad may have other bad events before it.

    Args:
        decode: decodes events, or raises BadEventError.
        payloads: the events.

    Returns:
        What `decode` makes of them.

    Raises:
        BadEventError: an event can't be decoded; it is the first such one.
    """
    try:
        return decode(payloads)
    except BadEventError as error:
        bad_event = error
    while bad_event.index:
        try:
            decode(payloads.slice(0, bad_event.index))
        except BadEventError as earlier:
            bad_event = earlier
        else:
            break
    raise bad_event


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
