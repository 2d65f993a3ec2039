"""Avro events: `0x01 | int32 encoding id | datum`, or the bare datum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_pravega.errors import ConfigurationError, SchemaError, SchemaNotFoundError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.framing import header_ids
from pyspark_pravega.frames.ragged import Bytes, Ints, binary_array
from pyspark_pravega.serde import compression
from pyspark_pravega.serde.avro.cursor import PAD, Cursor, DatumError
from pyspark_pravega.serde.avro.resolve import READING
from pyspark_pravega.serde.avro.write import Encode, record_writer
from pyspark_pravega.serde.codec import batch_of, subschema
from pyspark_pravega.serde.encodings import HEADER_SIZE, EncodingSource, header
from pyspark_pravega.serde.schemas import avro as avro_schema
from pyspark_pravega.serde.types import arrow_safe
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.types import StructType

_Columns = Callable[[Cursor], dict[str, pa.Array]]


class AvroCodec:
    """Events in Avro, decoded by the schema each was written with and resolved to the table's.

    Args:
        schema_text: the table's Avro schema.
        spark_schema: the table's columns, as `avro_to_spark(schema_text)` gives them; they may be a selection.
        encodings: looks encoding ids up.
        write_encoding_id: the id for what is written; None: for reading only, when events have headers.
        header: whether events have headers. Without, all are in the table's schema.

    Raises:
        SchemaError: the schema isn't Avro, or isn't that of the columns.
        EventEncodeError: it is to be written, and the columns aren't all of its fields.
    """

    def __init__(
        self,
        schema_text: str,
        spark_schema: StructType,
        encodings: EncodingSource,
        write_encoding_id: int | None = None,
        header: bool = True,
    ) -> None:
        self._text = schema_text
        self.encodings = encodings
        self.write_id = write_encoding_id
        self.header = header
        self._schema = to_arrow_schema(arrow_safe(spark_schema), timezone="UTC")
        self._prepare()
        # What doesn't go together shall be known before a job starts.
        READING.resolve_record(self.reader, self.reader, self._schema)
        if write_encoding_id is not None:
            record_writer(self.reader, self._schema)

    def __getstate__(self) -> dict[str, Any]:
        attributes = ("_text", "encodings", "write_id", "header", "_schema")
        return {name: self.__dict__[name] for name in attributes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def _prepare(self) -> None:
        self.reader = avro_schema.table_record(avro_schema.parse(self._text))
        self._writers: dict[int, tuple[avro_schema.AvroType, str]] = {}
        self._plans: dict[tuple[int | None, tuple[str, ...]], tuple[_Columns, str]] = {}
        self._write: tuple[Encode, bytes, str] | None = None

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return self._schema

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        schema = subschema(self._schema, columns)
        if not columns or not len(payloads):
            return batch_of([pa.array([], type=field.type) for field in schema], schema, len(payloads))
        data, offsets = _padded(*binary_array(payloads))
        bad_event: BadEventError | None = None
        while bad_event is None or bad_event.index:
            # Columns are decoded one after another: before a bad event may lie one that is bad in a later column.
            among = offsets if bad_event is None else offsets[: bad_event.index + 1]
            try:
                batch = self._decode(data, among, schema)
            except BadEventError as error:
                bad_event = error
                continue
            if bad_event is None:
                return batch
            break
        raise bad_event

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        if self._write is None:
            self._write = self._writer()
        write, head, codec = self._write
        bodies = write(batch)
        if not codec:
            return bodies
        packed = [head + compression.compress(codec, body) for body in bodies.to_pylist()]
        return pa.array(packed, type=pa.binary())

    def _writer(self) -> tuple[Encode, bytes, str]:
        """How to encode: the datums' writer, the header, and the codec of what is between the two."""
        if not self.header:
            return record_writer(self.reader, self._schema), b"", ""
        if self.write_id is None:
            raise ConfigurationError("this Avro codec was made for reading only: it has no encoding id to write")
        schema, codec = self.written_with(self.write_id)
        head = header(self.write_id)
        return record_writer(schema, self._schema, b"" if codec else head), head, codec

    def written_with(self, encoding_id: int) -> tuple[avro_schema.AvroType, str]:
        """The schema and the codec of an encoding id; looked up once."""
        schema_and_codec = self._writers.get(encoding_id)
        if schema_and_codec is None:
            source = self.encodings.writer_schema(encoding_id)
            compression.check(source.codec)
            schema_and_codec = avro_schema.table_record(avro_schema.parse(source.schema_text)), source.codec
            self._writers[encoding_id] = schema_and_codec
        return schema_and_codec

    def _plan(self, encoding_id: int | None, schema: pa.Schema) -> tuple[_Columns, str]:
        key = (encoding_id, tuple(schema.names))
        plan = self._plans.get(key)
        if plan is None:
            writer, codec = (self.reader, "") if encoding_id is None else self.written_with(encoding_id)
            plan = self._plans[key] = READING.resolve_record(writer, self.reader, schema), codec
        return plan

    def _decode(self, data: Bytes, offsets: Ints, schema: pa.Schema) -> pa.RecordBatch:
        rows = np.arange(len(offsets) - 1, dtype=np.int64)
        if not self.header:
            return self._decode_group(data, offsets, rows, None, schema)
        ids, present = header_ids(data, offsets)
        if not present.all():
            index = int(np.argmin(present))
            raise BadEventError(
                "it doesn't begin with 0x01 and an encoding id; was it written without the schema registry?",
                index=index,
            )
        distinct = np.unique(ids)
        if len(distinct) == 1:
            return self._decode_group(data, offsets, rows, int(distinct[0]), schema)
        groups = [np.flatnonzero(ids == one) for one in distinct]
        batches = [
            self._decode_group(data, offsets, group, int(one), schema)
            for group, one in zip(groups, distinct, strict=True)
        ]
        inverse = np.empty(len(rows), dtype=np.int64)
        inverse[np.concatenate(groups)] = rows
        order = pa.array(inverse)
        return batch_of(
            [pa.concat_arrays([batch.column(i) for batch in batches]).take(order) for i in range(len(schema))],
            schema,
            len(rows),
        )

    def _decode_group(
        self, data: Bytes, offsets: Ints, rows: Ints, encoding_id: int | None, schema: pa.Schema
    ) -> pa.RecordBatch:
        """Decode those events of a batch that have one encoding id (None: no header)."""
        try:
            plan, codec = self._plan(encoding_id, schema)
        except (SchemaError, SchemaNotFoundError) as error:
            raise BadEventError(str(error), index=int(rows[0]), encoding_id=encoding_id) from error
        skipped = 0 if encoding_id is None else HEADER_SIZE
        starts, ends = offsets[rows] + skipped, offsets[rows + 1]
        try:
            if codec:
                data, starts, ends = _decompressed(data, starts, ends, rows, codec)
            cursor = Cursor(data, starts, ends, rows)
            arrays = plan(cursor)
            _check_consumed(cursor, padded=bool(codec))
        except DatumError as error:
            raise BadEventError(error.reason, index=error.row, encoding_id=encoding_id) from None
        return batch_of([arrays[name] for name in schema.names], schema, len(rows))


def _padded(data: Bytes, offsets: Ints) -> tuple[Bytes, Ints]:
    """The events' part of a buffer, with room for whole words around it."""
    low, high = int(offsets[0]), int(offsets[-1])
    padding = np.zeros(PAD, dtype=np.uint8)
    return np.concatenate([padding, data[low:high], padding]), offsets - (low - PAD)


def _decompressed(data: Bytes, starts: Ints, ends: Ints, rows: Ints, codec: str) -> tuple[Bytes, Ints, Ints]:
    bodies = [b"\0" * PAD]
    for start, end, row in zip(starts.tolist(), ends.tolist(), rows.tolist(), strict=True):
        try:
            bodies.append(compression.decompress(codec, data[start:end].tobytes()))
        except ValueError as error:
            raise DatumError(row, f"its body, of the codec {codec}, can't be decompressed: {error}") from None
    offsets = np.cumsum([len(body) for body in bodies], dtype=np.int64)
    bodies.append(b"\0" * PAD)
    return np.frombuffer(b"".join(bodies), dtype=np.uint8), offsets[:-1].copy(), offsets[1:].copy()


def _check_consumed(cursor: Cursor, *, padded: bool) -> None:
    wrong = cursor.position != cursor.end
    if not wrong.any():
        return
    if padded:
        for i in np.flatnonzero(wrong).tolist():
            # The official serializers compress their whole buffer, with the zeros behind the datum.
            wrong[i] = cursor.data[cursor.position[i] : cursor.end[i]].any()
        if not wrong.any():
            return
    raise cursor.fail(wrong, "there are bytes behind its last field; was it written with another schema?")
