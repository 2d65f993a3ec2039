"""JSON events: `0x01 | int32 encoding id | UTF-8 text`, or the bare text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde.codec import batch_of, first_bad, subschema
from pyspark_pravega.serde.encodings import EncodingSource, Known, WriterSchema, with_header, without_headers
from pyspark_pravega.serde.json import read as json_read
from pyspark_pravega.serde.json import write as json_write
from pyspark_pravega.serde.schemas import json as json_schema
from pyspark_pravega.serde.types import arrow_safe, fit


class JsonCodec:
    """Events in JSON, whose properties are a table's columns. Those that the table doesn't have are passed over.

    A text can't begin with 0x01, so events with and without headers may be mixed.

    Args:
        schema_text: the table's JSON Schema.
        spark_schema: the table's columns, as `json_to_spark(schema_text)` gives them.
        encodings: looks encoding ids up.
        write_encoding_id: the id for what is written; None: without header.
    """

    def __init__(
        self,
        schema_text: str,
        spark_schema: StructType,
        encodings: EncodingSource,
        write_encoding_id: int | None = None,
    ) -> None:
        self.text = schema_text
        self.encodings = encodings
        self.write_id = write_encoding_id
        self._schema = to_arrow_schema(arrow_safe(spark_schema), timezone="UTC")
        self._prepare()

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("text", "encodings", "write_id", "_schema")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def _prepare(self) -> None:
        self.object = json_read.table_of(json_schema.parse(self.text))
        self._known_encodings = Known(self.encodings, self.check)

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return self._schema

    def check(self, _encoding_id: int, _schema: WriterSchema) -> None:
        """Do nothing: texts tell by themselves what they hold."""

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        schema = subschema(self._schema, columns)
        if not columns:
            return batch_of([], schema, len(payloads))
        try:
            return self._decode(payloads, schema)
        except BadEventError as error:
            # Headers are looked at before bodies are.
            raise first_bad(lambda events: self._decode(events, schema), payloads, error) from error.__cause__

    def _decode(self, payloads: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        plain, ids, present = self._known_encodings.plain(payloads)
        converters = json_read.columns(self.object, schema.names)
        values: list[list[Any]] = [[] for _ in converters]
        for row, body in enumerate(without_headers(plain, present).to_pylist()):
            try:
                value = json_read.parse(body)
                if not isinstance(value, dict):
                    raise json_read.UnfitError("it isn't a JSON object")
                for (key, convert), of_column in zip(converters, values, strict=True):
                    of_column.append(convert(value.get(key)))
            except json_read.UnfitError as error:
                encoding_id = int(ids[row]) if present[row] else None
                raise BadEventError(str(error), index=row, encoding_id=encoding_id) from None
        arrays = [pa.array(of_column, type=field.type) for of_column, field in zip(values, schema, strict=True)]
        return batch_of(arrays, schema, len(payloads))

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        bodies = json_write.texts(self.object, fit(batch, self._schema))
        return pa.array(with_header(bodies, self.write_id, self._known_encodings), type=pa.binary())
