"""JSON events without a schema: each is one document of any kind, in one column of type VARIANT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.serde import variant
from pyspark_pravega.serde.json import parse
from pyspark_pravega.serde.one_by_one import OneByOneCodec, ReadRow


class DocumentCodec(OneByOneCodec):
    """A JSON value as a VARIANT, in a table of one column."""

    def _reader(self, _names: Sequence[str]) -> ReadRow:
        def read(body: bytes, _encoding_id: int | None) -> Sequence[Any]:
            value, metadata = variant.of_json(parse(body))
            return [{"value": value, "metadata": metadata}]

        return read

    def _bodies(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        column = rows.column(0)
        name = self._schema.names[0]
        if column.null_count:
            raise EventEncodeError(
                f'column "{name}" holds NULL, and an event is a document: '
                "write parse_json('null') for the document null"
            )
        assert isinstance(column, pa.StructArray)
        values, names = (column.field(part).to_pylist() for part in ("value", "metadata"))
        try:
            return [variant.to_json(*both).encode() for both in zip(values, names, strict=True)]
        except variant.MalformedVariantError as error:
            raise EventEncodeError(f'a VARIANT in column "{name}" can\'t be written as JSON: {error}') from None
