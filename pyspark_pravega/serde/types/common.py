"""What the type mappings of all formats share."""

from __future__ import annotations

import re

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.serde.schemas.avro import SPARK_TYPE as SPARK_TYPE
from pyspark_pravega.spark.types import (
    ArrayType,
    CharType,
    DataType,
    DayTimeIntervalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimeType,
    VarcharType,
)

CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata key under which Spark keeps that a string column is CHAR or VARCHAR."""
MAX_PRECISION = 38
MAX_TIME_PRECISION = 6
_UNITS = ("day", "hour", "minute", "second")
_INTERVAL = re.compile(rf"interval ({'|'.join(_UNITS)})(?: to ({'|'.join(_UNITS)}))?")
_TIME = re.compile(r"time\(([0-6])\)")

_INSTEAD = {
    "YearMonthIntervalType": "INT with a number of months (Spark can't hand such intervals to Python)",
    "CalendarIntervalType": "BIGINT with a number of microseconds",
    "TimeType": "TIME(6), or BIGINT with nanoseconds after midnight",
    "NullType": "a column of some type that holds nulls (CAST(NULL AS STRING))",
    "GeometryType": "BINARY with the WKB (ST_AsBinary)",
    "GeographyType": "BINARY with the WKB (ST_AsBinary)",
    "UserDefinedType": "the columns it is made of",
}


def arrow_safe(schema: StructType) -> StructType:
    """The schema with CHAR and VARCHAR as the strings that Spark and Arrow handle them as.

    Args:
        schema: columns.

    Returns:
        Columns whose type string is kept in the metadata, as Spark's analyser does.
    """
    return StructType([replaced(field) for field in schema.fields])


def replaced(field: StructField) -> StructField:
    """A column as `arrow_safe` makes it."""
    plain = _without_lengths(field.dataType)
    if plain == field.dataType:
        return field
    metadata = {**field.metadata, CHAR_VARCHAR: field.dataType.simpleString()}
    return StructField(field.name, plain, field.nullable, metadata)


def kept_lengths(field: StructField) -> str | None:
    """The text that a schema keeps of a column with CHAR or VARCHAR in it; None for other columns.

    A struct needs none, because its fields have theirs: so the text holds after a change within the struct, too.
    """
    if isinstance(field.dataType, StructType):
        return None
    text: str | None = replaced(field).metadata.get(CHAR_VARCHAR)
    return text


def with_lengths(kind: DataType, own_lengths: str | None) -> str | None:
    """A column's type with the lengths of CHAR and VARCHAR, as Spark's metadata has it; None where it has none.

    Args:
        kind: the type with STRING in place of CHAR and VARCHAR; the fields of structs have their metadata.
        own_lengths: what the schema keeps of the column.
    """
    if not isinstance(kind, StructType):
        return own_lengths
    if not any(CHAR_VARCHAR in field.metadata for field in kind.fields):
        return None
    texts = (f"{_quoted(f.name)}:{f.metadata.get(CHAR_VARCHAR) or f.dataType.simpleString()}" for f in kind.fields)
    return f"struct<{','.join(texts)}>"


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name) else "`" + name.replace("`", "``") + "`"


def is_text(kind: DataType, path: str) -> bool:
    """Whether a type is STRING, CHAR or VARCHAR.

    Raises:
        UnsupportedTypeError: it is a string with a collation, which no format keeps.
    """
    if isinstance(kind, (CharType, VarcharType)):
        return True
    if not isinstance(kind, StringType):
        return False
    if kind != StringType():
        raise UnsupportedTypeError(
            f'column "{path}" has a collation ({kind.simpleString()}); use STRING without one, and collate in queries'
        )
    return True


def unsupported(kind: DataType, path: str, format_name: str) -> UnsupportedTypeError:
    """The error for a column whose type a format can't hold, with what to use instead.

    Args:
        kind: its type.
        path: the column.
        format_name: the format, as in "written as Avro".
    """
    instead = next((_INSTEAD[base.__name__] for base in type(kind).__mro__ if base.__name__ in _INSTEAD), None)
    hint = f"; use {instead}" if instead else ""
    return UnsupportedTypeError(
        f'column "{path}" is of type {kind.simpleString().upper()}, which can\'t be written as {format_name}{hint}'
    )


def spark_name(kind: DataType) -> str | None:
    """How a type that is kept as a number is told in a schema: `interval day to second`, `time(6)`; None for others."""
    if isinstance(kind, DayTimeIntervalType):
        return kind.simpleString()
    if isinstance(kind, TimeType) and kind.precision <= MAX_TIME_PRECISION:
        return kind.simpleString()
    return None


def named_type(name: str | None) -> DataType | None:
    """The type that `spark_name` tells; None for other names."""
    match = _INTERVAL.fullmatch(name or "")
    if match and (match[2] is None or _UNITS.index(match[1]) < _UNITS.index(match[2])):
        return DayTimeIntervalType(_UNITS.index(match[1]), _UNITS.index(match[2] or match[1]))
    match = _TIME.fullmatch(name or "")
    return TimeType(int(match[1])) if match else None


def is_plain_key(kind: DataType) -> bool:
    """Whether a type is that of the keys that all formats have: STRING, CHAR or VARCHAR."""
    return isinstance(kind, (CharType, VarcharType)) or kind == StringType()


def entry_of(key: DataType, value: DataType, nullable: bool) -> StructType:
    """The struct that stands for an entry of a map that is kept as an array.

    Args:
        key: the type of its keys.
        value: the type of its values.
        nullable: whether values may be null.
    """
    return StructType([StructField("key", key, False), StructField("value", value, nullable)])


def map_of(entry: StructType) -> MapType | None:
    """The map whose entries are such structs; None when they aren't what `entry_of` makes."""
    if entry.fieldNames() != ["key", "value"] or entry[0].nullable:
        return None
    return MapType(entry[0].dataType, entry[1].dataType, entry[1].nullable)


class Names:
    """The names of one record's fields so far: Spark takes those that differ in case for the same."""

    def __init__(self, path: str, what: str = "columns") -> None:
        """Begin a record.

        Args:
            path: the record, with a dot behind it.
            what: what the fields are called in messages.
        """
        self._path, self._what = path, what
        self._names: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Take a name.

        Raises:
            UnsupportedTypeError: there was one that differs at most in case.
        """
        twin = self._names.get(name.lower())
        if twin is not None:
            raise UnsupportedTypeError(
                f'{self._what} "{self._path}{twin}" and "{self._path}{name}" differ at most in case; Spark takes '
                "them for the same: rename one"
            )
        self._names[name.lower()] = name


def sanitised(name: str) -> str:
    """A name with `_` for what identifiers of Avro and Protobuf can't hold."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return plain if plain and not plain[0].isdigit() else f"_{plain}"


def _without_lengths(kind: DataType) -> DataType:
    if isinstance(kind, (CharType, VarcharType)):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_without_lengths(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_without_lengths(kind.keyType), _without_lengths(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, StructType):
        return StructType(
            [StructField(f.name, _without_lengths(f.dataType), f.nullable, f.metadata) for f in kind.fields]
        )
    return kind
