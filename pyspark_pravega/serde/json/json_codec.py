"""JSON events: `0x01 | int32 encoding id | UTF-8 text`, or the bare text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pyspark_pravega.serde.encodings import EncodingSource
from pyspark_pravega.serde.json import read as json_read
from pyspark_pravega.serde.json import write as json_write
from pyspark_pravega.serde.one_by_one import OneByOneCodec, ReadRow, UnfitError
from pyspark_pravega.serde.schemas import json as json_schema
from pyspark_pravega.spark.types import StructType


class JsonCodec(OneByOneCodec):
    """Events in JSON, whose properties are a table's columns. Those that the table doesn't have are passed over.

    Args:
        schema_text: the table's JSON Schema.
        spark_schema: the table's columns, as `json_to_spark(schema_text)` gives them.
        encodings: looks encoding ids up.
        write_encoding_id: the id for what is written; None: without header.
    """

    _made_of = ("text",)

    def __init__(
        self,
        schema_text: str,
        spark_schema: StructType,
        encodings: EncodingSource,
        write_encoding_id: int | None = None,
    ) -> None:
        self.text = schema_text
        super().__init__(spark_schema, encodings, write_encoding_id)

    def _prepare(self) -> None:
        super()._prepare()
        self.object = json_read.table_of(json_schema.parse(self.text))

    def _reader(self, names: Sequence[str]) -> ReadRow:
        converters = json_read.columns(self.object, names)

        def read(body: bytes, _encoding_id: int | None) -> Sequence[Any]:
            value = json_read.parse(body)
            if not isinstance(value, dict):
                raise UnfitError("it isn't a JSON object")
            return [convert(value.get(key)) for key, convert in converters]

        return read

    def _bodies(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        return json_write.texts(self.object, rows)
