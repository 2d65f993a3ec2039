"""Columns of types that a format has no place for, kept as columns of types that it has.

The codecs of the formats know a few types; here the others are made of them: intervals and times are numbers, maps with
keys that aren't strings are lists of entries, VARIANT is JSON text. docs/types.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames import framing
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde import variant
from pyspark_pravega.serde.codec import Codec, batch_of, or_first_bad, subschema, takes_views
from pyspark_pravega.serde.json import parse
from pyspark_pravega.serde.one_by_one import UnfitError
from pyspark_pravega.serde.types import arrow_safe, entry_of, fit, with_children
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimeType,
    VariantType,
)

_DAY_MICROS = 86_400_000_000


def stored_columns(columns: StructType, *, is_map: Callable[[DataType], bool], variant_is_text: bool) -> StructType:
    """The columns as a format's codec knows them.

    Args:
        columns: the table's columns.
        is_map: whether the format has maps with such keys.
        variant_is_text: whether VARIANT is kept as JSON text; else the format keeps its bytes itself.

    Returns:
        Columns of the same names; equal to the given ones when the codec knows all types.
    """

    def stored(kind: DataType) -> DataType:
        if isinstance(kind, (DayTimeIntervalType, TimeType)):
            return LongType()
        if isinstance(kind, VariantType):
            return StringType() if variant_is_text else kind
        if isinstance(kind, ArrayType):
            return ArrayType(stored(kind.elementType), kind.containsNull)
        if isinstance(kind, MapType):
            key, value = stored(kind.keyType), stored(kind.valueType)
            if is_map(kind.keyType):
                return MapType(key, value, kind.valueContainsNull)
            return ArrayType(entry_of(key, value, kind.valueContainsNull), False)
        if isinstance(kind, StructType):
            return StructType([StructField(f.name, stored(f.dataType), f.nullable, f.metadata) for f in kind.fields])
        return kind

    codec_columns = stored(columns)
    assert isinstance(codec_columns, StructType)
    return codec_columns


class StoredCodec:
    """A codec for columns that another codec knows by other types.

    Args:
        inner: the codec of the stored columns.
        columns: the table's columns.
    """

    def __init__(self, inner: Codec, columns: StructType) -> None:
        self.inner = inner
        self._schema = to_arrow_schema(arrow_safe(columns), timezone="UTC")

    @property
    def takes_views(self) -> bool:
        """Whether `decode` takes views of a buffer, too."""
        return takes_views(self.inner)

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return self._schema

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        schema = subschema(self._schema, columns)
        if not columns:
            return self.inner.decode(payloads, columns)
        return or_first_bad(lambda events: self._decode(events, schema), payloads)

    def _decode(self, payloads: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        batch = self.inner.decode(payloads, schema.names)
        try:
            return _converted(batch, schema)
        except UnfitError:
            for row in range(batch.num_rows):
                try:
                    _converted(batch.slice(row, 1), schema)
                except UnfitError as error:
                    encoding_id = framing.encoding_ids(payloads.slice(row, 1))[0].as_py()
                    raise BadEventError(str(error), index=row, encoding_id=encoding_id) from None
            raise

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        try:
            return self.inner.encode(_converted(fit(batch, self._schema), self.inner.schema))
        except UnfitError as error:
            raise EventEncodeError(str(error)) from None


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [convert(batch.column(field.name), field.type, field.name) for field in schema]
    return batch_of(arrays, schema, batch.num_rows)


def convert(array: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    """A column as it is stored, from what it is in the table, or the other way round.

    Args:
        array: the column.
        kind: the type to make of it.
        path: the column, for messages.

    Raises:
        UnfitError: a value has no counterpart.
    """
    source, types = array.type, pa.types
    if source == kind:
        return array
    if types.is_duration(source) or types.is_duration(kind):
        return array.cast(kind)
    if types.is_time(source):
        return _micros(array, path)
    if types.is_time(kind):
        return _time(array, kind, path)
    if types.is_string(source):
        return pa.array([_of_text(one, path) for one in array.to_pylist()], type=kind)
    if types.is_string(kind):
        return pa.array([_to_text(one, path) for one in array.to_pylist()], type=kind)
    return with_children(array, kind, path, convert)


def _micros(array: pa.Array, path: str) -> pa.Array:
    nanos = array.cast(pa.int64())
    if pc.any(pc.not_equal(pc.subtract(nanos, pc.multiply(pc.divide(nanos, 1000), 1000)), 0)).as_py():
        raise UnfitError(f'a time in column "{path}" is finer than a microsecond')
    return pc.divide(nanos, 1000)


def _time(array: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    wrong = pc.or_(pc.less(array, 0), pc.greater_equal(array, _DAY_MICROS))
    if pc.any(wrong).as_py():
        micros = array.filter(wrong)[0].as_py()
        raise UnfitError(f'the time in "{path}", {micros} microseconds after midnight, is out of the range of TIME')
    return pc.multiply(array, 1000).cast(kind)


def _of_text(text: str | None, path: str) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value, metadata = variant.of_json(parse(text.encode()))
    except UnfitError as error:
        raise UnfitError(f'the value of "{path}" can\'t be a VARIANT: {error}') from None
    return {"value": value, "metadata": metadata}


def _to_text(value: dict[str, Any] | None, path: str) -> str | None:
    if value is None:
        return None
    if value["value"] == variant.NULL:
        raise UnfitError(
            f"column \"{path}\" holds a VARIANT null, as parse_json('null') makes it, "
            "which JSON can't tell from NULL: write NULL instead"
        )
    try:
        return variant.to_json(value["value"], value["metadata"])
    except variant.MalformedVariantError as error:
        raise UnfitError(f'a VARIANT in column "{path}" can\'t be written as JSON: {error}') from None
