"""Events as they are: one column with the payload, as bytes or as text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.framing import compact
from pyspark_pravega.serde.codec import batch_of, subschema
from pyspark_pravega.serde.types import fit

EVENT = "event"
"""The column that holds the payload."""
KEY_COLUMN = "routing_key"
"""Where rows say more than the event: the column that holds its routing key."""


class RawCodec:
    """The payload in one column `event BINARY NOT NULL`."""

    takes_views = True
    """`decode` takes views of a buffer, too."""

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return pa.schema([pa.field(EVENT, pa.binary(), nullable=False)])

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec; every event can be decoded."""
        arrays = [compact(payloads).cast(pa.binary())] * len(columns) if columns else []
        return batch_of(arrays, subschema(self.schema, columns), len(payloads))

    def decode_to_views(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See `decode_to_views` of codec.py."""
        schema = pa.schema([field.with_type(payloads.type) for field in subschema(self.schema, columns)])
        return batch_of([payloads for _ in columns], schema, len(payloads))

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        if batch.schema.names != [EVENT]:
            raise EventEncodeError(
                f'a stream without a schema takes one column "{EVENT}" of type BINARY, '
                f"not {', '.join(batch.schema.names) or 'none'}"
            )
        column = batch.column(0)
        if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
            raise EventEncodeError(
                f'column "{EVENT}" must be BINARY, not {column.type}; cast it (CAST({EVENT} AS BINARY))'
            )
        if column.null_count:
            raise EventEncodeError(f'column "{EVENT}" holds null, and is NOT NULL')
        return column


class StringCodec:
    """The payload as UTF-8 text in one column `event STRING NOT NULL`, as Pravega's UTF8StringSerializer writes it."""

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return pa.schema([pa.field(EVENT, pa.string(), nullable=False)])

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        arrays: list[pa.Array] = []
        if columns:
            try:
                arrays = [payloads.cast(pa.string())] * len(columns)
            except pa.ArrowInvalid:
                for index, payload in enumerate(payloads.to_pylist()):
                    try:
                        payload.decode()
                    except UnicodeDecodeError:
                        raise BadEventError("it isn't UTF-8", index=index) from None
                raise
        return batch_of(arrays, subschema(self.schema, columns), len(payloads))

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        return fit(batch, self.schema).column(0).cast(pa.binary())


class EventCodec:
    """The payload in a column `event` of type STRING or BINARY, whatever columns stand beside it; it only encodes."""

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return pa.schema([pa.field(EVENT, pa.binary(), nullable=False)])

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        return RawCodec().decode(payloads, columns)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        event = batch.select([EVENT])
        kind = event.column(0).type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return StringCodec().encode(event) if is_text else RawCodec().encode(event)
