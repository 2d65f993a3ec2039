"""JSON events without a schema: each is one document of any kind, in one column of type VARIANT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde import variant
from pyspark_pravega.serde.codec import batch_of, first_bad, subschema
from pyspark_pravega.serde.encodings import EncodingSource, Known, WriterSchema, with_header, without_headers
from pyspark_pravega.serde.json import read as json_read
from pyspark_pravega.serde.types import fit


class DocumentCodec:
    """A JSON value as a VARIANT. Events with and without headers may be mixed.

    Args:
        columns: the one column, of type VARIANT.
        encodings: looks encoding ids up.
        write_id: the encoding id of what is written; None: without header.
    """

    def __init__(self, columns: StructType, encodings: EncodingSource, write_id: int | None = None) -> None:
        self._schema = to_arrow_schema(columns, timezone="UTC")
        self._encodings, self._write_id = encodings, write_id
        self._known_encodings = Known(encodings, _no_check)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_schema", "_encodings", "_write_id")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._known_encodings = Known(self._encodings, _no_check)

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return self._schema

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        schema = subschema(self._schema, columns)
        if not columns:
            return batch_of([], schema, len(payloads))
        try:
            return self._decode(payloads, schema)
        except BadEventError as bad_event:
            raise first_bad(lambda events: self._decode(events, schema), payloads, bad_event) from bad_event.__cause__

    def _decode(self, payloads: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        plain, ids, present = self._known_encodings.plain(payloads)
        values, names = [], []
        for row, body in enumerate(without_headers(plain, present).to_pylist()):
            try:
                value, metadata = variant.of_json(json_read.parse(body))
            except json_read.UnfitError as error:
                encoding_id = int(ids[row]) if present[row] else None
                raise BadEventError(str(error), index=row, encoding_id=encoding_id) from None
            values.append(value)
            names.append(metadata)
        kind = schema.field(0).type
        parts = {"value": pa.array(values, pa.binary()), "metadata": pa.array(names, pa.binary())}
        fields = [kind.field(i) for i in range(kind.num_fields)]
        documents = pa.StructArray.from_arrays([parts[field.name] for field in fields], fields=fields)
        return batch_of([documents], schema, len(payloads))

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        column = fit(batch, self._schema).column(0)
        name = self._schema.names[0]
        if column.null_count:
            raise EventEncodeError(
                f'column "{name}" holds NULL, and an event is a document: '
                "write parse_json('null') for the document null"
            )
        assert isinstance(column, pa.StructArray)
        values, names = (column.field(part).to_pylist() for part in ("value", "metadata"))
        try:
            bodies = [variant.to_json(*both).encode() for both in zip(values, names, strict=True)]
        except variant.MalformedVariantError as error:
            raise EventEncodeError(f'a VARIANT in column "{name}" can\'t be written as JSON: {error}') from None
        return pa.array(with_header(bodies, self._write_id, self._known_encodings), type=pa.binary())


def _no_check(_encoding_id: int, _schema: WriterSchema) -> None:
    """Texts tell by themselves what they hold."""
