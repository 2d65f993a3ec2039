"""What the plain codecs that decode one event after another have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde.codec import batch_of, or_first_bad, subschema
from pyspark_pravega.serde.encodings import EncodingSource, Known, WriterSchema, with_header, without_headers
from pyspark_pravega.serde.types import arrow_safe, fit
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.types import StructType

ReadRow = Callable[[bytes, int | None], Sequence[Any]]
"""Makes a row's values of an event's body and its encoding id, or raises UnfitError."""


class UnfitError(Exception):
    """A body isn't of its format, or a value isn't what the schema says; its argument is the reason."""


class OneByOneCodec(ABC):
    """Events are `0x01 | int32 encoding id | body`, or bare bodies; no body begins with 0x01, so both may be mixed."""

    _made_of: ClassVar[tuple[str, ...]] = ()
    """Attributes that travel with the codec, beside those of this class; the others are made of them."""

    def __init__(self, columns: StructType, encodings: EncodingSource, write_id: int | None = None) -> None:
        """Settle what all of them have.

        Args:
            columns: the table's columns.
            encodings: looks encoding ids up.
            write_id: the encoding id for what is written; None: without header.
        """
        self.encodings, self.write_id = encodings, write_id
        self._schema = to_arrow_schema(arrow_safe(columns), timezone="UTC")
        self._prepare()

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in (*self._made_of, "encodings", "write_id", "_schema")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def _prepare(self) -> None:
        self._known_encodings = Known(self.encodings, self.check)

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return self._schema

    def check(self, _encoding_id: int, _schema: WriterSchema) -> None:  # noqa: B027
        """Do nothing: by themselves bodies tell what they hold. Others raise SchemaError of what they can't read."""

    @abstractmethod
    def _reader(self, names: Sequence[str]) -> ReadRow:
        """How to read some columns."""

    @abstractmethod
    def _bodies(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        """The bodies of rows that have the table's own types."""

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        schema = subschema(self._schema, columns)
        if not columns:
            return batch_of([], schema, len(payloads))
        # Headers are looked at before bodies are.
        return or_first_bad(lambda events: self._decode(events, schema), payloads)

    def _decode(self, payloads: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        plain, ids, present = self._known_encodings.plain(payloads)
        read = self._reader(schema.names)
        rows: list[Sequence[Any]] = []
        for row, body in enumerate(without_headers(plain, present).to_pylist()):
            encoding_id = int(ids[row]) if present[row] else None
            try:
                rows.append(read(body, encoding_id))
            except UnfitError as error:
                raise BadEventError(str(error), index=row, encoding_id=encoding_id) from None
        columns = zip(*rows, strict=True) if rows else [()] * len(schema)
        arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
        return batch_of(arrays, schema, len(payloads))

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        bodies = self._bodies(fit(batch, self._schema))
        return pa.array(with_header(bodies, self.write_id, self._known_encodings), type=pa.binary())
