"""How the columns of a key become the bytes of a key-value table's key, and back.

A key is its columns one after another, each with the same number of bytes in all keys:

| type | bytes |
|---|---|
| BOOLEAN | 1: 0 or 1 |
| TINYINT, SMALLINT, INT, BIGINT | 1, 2, 4, 8: two's complement, big-endian, as Java's ByteBuffer puts them |
| DATE | 4: days since 1970, as INT |
| TIMESTAMP, TIMESTAMP_NTZ | 8: microseconds since 1970, as BIGINT |
| DECIMAL(p, s) | 8 where p is at most 18, else 16: the unscaled value, as integers |
| STRING, VARCHAR, CHAR | UTF-8, then zeros |
| BINARY | as they are |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import ConfigurationError, EventDecodeError, EventEncodeError
from pyspark_pravega.frames.ragged import numbers
from pyspark_pravega.serde.types import CHAR_VARCHAR, arrow_safe, cast
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)
from pyspark_pravega.values import number

Octets = npt.NDArray[np.uint8]

TEXT_BYTES = 64
"""Of a STRING column in a key, unless the table says otherwise."""
_INTEGERS: dict[type[DataType], int] = {
    BooleanType: 1,
    ByteType: 1,
    ShortType: 2,
    IntegerType: 4,
    DateType: 4,
    LongType: 8,
    TimestampType: 8,
    TimestampNTZType: 8,
}
_MOST_DIGITS_OF_8_BYTES = 18
_NAMED: dict[str, DataType] = {
    "BOOLEAN": BooleanType(),
    "TINYINT": ByteType(),
    "BYTE": ByteType(),
    "SMALLINT": ShortType(),
    "SHORT": ShortType(),
    "INT": IntegerType(),
    "INTEGER": IntegerType(),
    "BIGINT": LongType(),
    "LONG": LongType(),
    "DATE": DateType(),
    "TIMESTAMP": TimestampType(),
    "TIMESTAMP_NTZ": TimestampNTZType(),
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "DECIMAL": DecimalType(10, 0),
}
_COLUMN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))\s+(?P<kind>\w+)\s*(?:\((?P<sizes>[\d,\s]*)\))?\s*"
)


_BYTES = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`\s*|(?P<plain>[^=,]*))=(?P<width>[^,]*)(?:,|$)")


@dataclass(frozen=True)
class KeyColumn:
    """A column of a key."""

    field: StructField
    width: int
    """Bytes in every key."""

    @property
    def name(self) -> str:
        """The column's name."""
        return self.field.name


class KeyLayout:
    """The columns of a key, and where their bytes are. Can be pickled."""

    def __init__(self, columns: Sequence[KeyColumn]) -> None:
        """Lay a key out.

        Args:
            columns: its columns, in the order of their bytes.
        """
        self.columns = tuple(columns)
        self.width = sum(column.width for column in columns)
        """Bytes of a whole key."""
        self.names = [column.name for column in columns]
        fields = [StructField(c.name, c.field.dataType, False, c.field.metadata) for c in columns]
        self.schema = arrow_safe(StructType(fields))
        self.arrow = to_arrow_schema(self.schema, timezone="UTC")

    @classmethod
    def of(cls, fields: Sequence[StructField], given: Mapping[str, int], *, total: int | None = None) -> KeyLayout:
        """Lay out the key of a table.

        Args:
            fields: its columns.
            given: bytes of texts and BINARY columns, as far as the table says them.
            total: bytes of a whole key, where the table is there; one column of no fixed length takes what is left.

        Raises:
            ConfigurationError: a type can't be in a key, or the lengths don't add up.
        """
        open_ended = [f.name for f in fields if _fixed(f) is None and f.name not in given]
        unknown = [name for name in given if name not in {f.name for f in fields if _fixed(f) is None}]
        if unknown:
            raise ConfigurationError(
                f'"key-bytes" says how many bytes texts and BINARY columns of a key have; "{unknown[0]}" is no such '
                f"column of the key ({', '.join(f.name for f in fields)})"
            )
        rest = None
        if total is not None and len(open_ended) == 1:
            rest = total - sum(_fixed(f) or given.get(f.name, 0) for f in fields)
        columns = []
        for field in fields:
            width = _fixed(field) or given.get(field.name)
            if width is None:
                width = rest if rest is not None and rest > 0 else _usual(field)
            columns.append(KeyColumn(field, width))
        layout = cls(columns)
        if total is not None and layout.width != total:
            widths = ", ".join(f"{c.name} {c.width}" for c in columns)
            raise ConfigurationError(
                f"the columns of the key have {layout.width} bytes ({widths}), and the table's keys have {total}: name "
                'other types, or say how many bytes texts have with "key-bytes"'
            )
        return layout

    def encode(self, batch: pa.RecordBatch) -> list[bytes]:
        """The keys of rows.

        Args:
            batch: rows, with the key's columns among theirs.

        Raises:
            EventEncodeError: a value is null, or doesn't fit.
        """
        octets = np.empty((batch.num_rows, self.width), np.uint8)
        start = 0
        for column, field in zip(self.columns, self.arrow, strict=True):
            values = batch.column(column.name)
            if values.null_count:
                raise EventEncodeError(f'column "{column.name}" is in the primary key, and can\'t be null')
            end = start + column.width
            octets[:, start:end] = _octets(cast(values, field.type, column.name), column)
            start = end
        joined = octets.tobytes()
        return [joined[at : at + self.width] for at in range(0, len(joined), self.width)]

    def decode(self, keys: Sequence[bytes], columns: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of keys.

        Args:
            keys: whole keys.
            columns: the wanted columns, all of them the key's.

        Raises:
            EventDecodeError: a key isn't of such columns.
        """
        octets = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), self.width)
        key_columns, start = {}, 0
        for column, field in zip(self.columns, self.arrow, strict=True):
            if column.name in columns:
                part = np.ascontiguousarray(octets[:, start : start + column.width])
                key_columns[column.name] = _values(part, column, field.type)
            start += column.width
        return key_columns

    def prefix(self, columns: int) -> KeyLayout:
        """The first columns of the key as a layout of their own.

        Args:
            columns: how many.
        """
        return KeyLayout(self.columns[:columns])


def parse_columns(text: str) -> list[StructField]:
    """The columns of a key, as a property names them: `id BIGINT, code STRING`.

    Args:
        text: names and types, separated by commas.

    Raises:
        ConfigurationError: it isn't so, or a type can't be in a key.
    """
    fields = []
    for part in _parts(text):
        match = _COLUMN.fullmatch(part)
        kind = None if match is None else _type(match["kind"].upper(), match["sizes"])
        if match is None or kind is None:
            raise ConfigurationError(
                f'"key-columns" must name columns and their types, as \'id BIGINT, code STRING\'; "{part.strip()}" is '
                f"none: types of keys are {', '.join(sorted(_NAMED))}, VARCHAR(n) and CHAR(n)"
            )
        name = match["plain"] or match["quoted"].replace("``", "`")
        fields.append(StructField(name, kind, False))
    if len({field.name.lower() for field in fields}) < len(fields):
        raise ConfigurationError(f'"key-columns" names a column twice: {text}')
    return fields


def parse_bytes(text: str) -> dict[str, int]:
    """Bytes of columns, as a property says them: `code=16, name=40`.

    Args:
        text: the property.

    Raises:
        ConfigurationError: it isn't so.
    """
    given = {}
    position = 0
    while text[position:].strip():
        match = _BYTES.match(text, position)
        if match is None:
            raise ConfigurationError(f'"key-bytes" must be as \'code=16, name=40\', not "{text}"')
        name = match["plain"].strip() if match["quoted"] is None else match["quoted"].replace("``", "`")
        given[name] = number("key-bytes", match["width"].strip(), least=1, most=256)
        position = match.end()
    return given


def _parts(text: str) -> list[str]:
    """A list's parts: commas within backticks or brackets separate nothing."""
    return re.findall(r"(?:`(?:[^`]|``)*`|\([^)]*\)|[^,])+", text)


def _type(name: str, sizes: str | None) -> DataType | None:
    """None where there is no such type that a key can have."""
    given = [int(size) for size in (sizes or "").split(",") if size.strip()]
    if name == "DECIMAL" and 1 <= len(given) <= 2:
        return DecimalType(given[0], given[1] if len(given) > 1 else 0)
    if name in ("VARCHAR", "CHAR") and len(given) == 1:
        return VarcharType(given[0]) if name == "VARCHAR" else CharType(given[0])
    return None if given else _NAMED.get(name)


def _fixed(field: StructField) -> int | None:
    """The bytes of a column whose type says how many it has, else None.

    Raises:
        ConfigurationError: such a column can't be in a key.
    """
    kind = field.dataType
    if isinstance(kind, DecimalType):
        return 8 if kind.precision <= _MOST_DIGITS_OF_8_BYTES else 16
    collated = isinstance(kind, StringType) and kind.collation not in (None, "UTF8_BINARY")
    if type(kind) in _INTEGERS:
        return _INTEGERS[type(kind)]
    if collated or not isinstance(kind, StringType | CharType | VarcharType | BinaryType):
        raise ConfigurationError(
            f'column "{field.name}" of type {kind.simpleString()} can\'t be in the key of a key-value table: take '
            "integers, decimals, booleans, dates, timestamps, strings (without a collation) or BINARY"
        )
    return None


def _usual(field: StructField) -> int:
    """The bytes of a text or BINARY column of which nothing is said.

    Raises:
        ConfigurationError: a BINARY column.
    """
    kind = field.dataType
    if isinstance(kind, BinaryType):
        raise ConfigurationError(
            f'column "{field.name}" is BINARY and in the key, and all keys have the same number of bytes: say how many '
            f"it has, TBLPROPERTIES ('key-bytes' = '{field.name}=16')"
        )
    if isinstance(kind, CharType | VarcharType):
        return 4 * int(kind.length)
    bounded = re.search(r"\((\d+)\)", str((field.metadata or {}).get(CHAR_VARCHAR, "")))
    return 4 * int(bounded[1]) if bounded else TEXT_BYTES


def _octets(values: pa.Array, column: KeyColumn) -> Octets:
    """The bytes of a column, a row of them for each value."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _padded(values.cast(pa.binary()), column, is_text=pa.types.is_string(kind))
    if pa.types.is_decimal(kind):
        octets: Octets = numbers(values.buffers()[1], np.uint8).reshape(-1, 16)[values.offset :][: len(values)]
        return octets[:, column.width - 1 :: -1]
    if pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif not pa.types.is_integer(kind):
        values = values.view(pa.int32() if column.width == 4 else pa.int64())
    integers = values.to_numpy(zero_copy_only=False)
    big_endian: Octets = integers.astype(f">i{column.width}").view(np.uint8)
    return big_endian.reshape(-1, column.width)


def _padded(values: pa.Array, column: KeyColumn, *, is_text: bool) -> Octets:
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False)
    fits = lengths <= column.width if is_text else lengths == column.width
    if not fits.all():
        at = int(np.argmin(fits))
        shown = values[at].as_py().decode() if is_text else values[at].as_py().hex()
        raise EventEncodeError(
            f'"{shown}" in column "{column.name}" has {int(lengths[at])} bytes, and '
            + (
                f'the key has place for {column.width}: make the table with more, "key-bytes" = "{column.name}=..."'
                if is_text
                else f"keys have exactly {column.width}"
            )
        )
    if not len(values):
        return np.empty((0, column.width), np.uint8)
    plain = values.to_pylist()
    if is_text and any(b"\0" in value for value in plain):
        raise EventEncodeError(
            f'a value of column "{column.name}" holds the letter U+0000, with which texts in a key are filled up'
        )
    octets: Octets = np.frombuffer(b"".join(value.ljust(column.width, b"\0") for value in plain), np.uint8)
    return octets.reshape(-1, column.width)


def _values(octets: Octets, column: KeyColumn, kind: pa.DataType) -> pa.Array:
    """The values of a column's bytes."""
    rows = len(octets)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        data = octets.tobytes()
        parts = [data[at : at + column.width] for at in range(0, rows * column.width, column.width)]
        if pa.types.is_binary(kind):
            return pa.array(parts, kind)
        try:
            return pa.array([part.rstrip(b"\0") for part in parts], pa.binary()).cast(kind)
        except pa.ArrowInvalid:
            raise EventDecodeError(
                f'keys of the table are no UTF-8 in column "{column.name}": another type may fit, or BINARY'
            ) from None
    if pa.types.is_decimal(kind):
        wide = np.empty((rows, 16), np.uint8)
        wide[:, : column.width] = octets[:, ::-1]
        wide[:, column.width :] = np.where(octets[:, :1] & 0x80, 0xFF, 0)
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(wide.tobytes())])
    integers = octets.view(f">i{column.width}").reshape(-1).astype(f"<i{column.width}")
    if pa.types.is_boolean(kind):
        return pa.array(integers != 0)
    return pa.array(integers).view(kind) if not pa.types.is_integer(kind) else pa.array(integers, kind)
