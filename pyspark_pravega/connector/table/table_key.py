"""Tables with keys: each event is what happened to the row of one key.

An event holds a row, and a field that says whether the row is there from then on or is deleted. So the table's rows are
the last events of its keys, without those that delete. The events themselves stay what they are: a stream that is only
ever appended to.

The key's columns, or some of them, make the routing key, too: all events of a key lie in one segment and its
successors, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.connector.table.flat_keys import flat_key, shown_key
from pyspark_pravega.connector.table.properties import (
    DELETE,
    DELETE_VALUES,
    DELETED_ROW_COLUMN,
    OPERATION_COLUMN,
    PRIMARY_KEY,
    ROW_COLUMN,
    UPSERT_VALUE,
    TableProperties,
)
from pyspark_pravega.errors import ConfigurationError, EventEncodeError, UnsupportedOperationError, did_you_mean
from pyspark_pravega.serde.codec import Codec, subschema
from pyspark_pravega.serde.formats import REGISTERED
from pyspark_pravega.spark.types import (
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
    TimestampType,
    VarcharType,
)
from pyspark_pravega.values import listed, names_of

OPERATION = "_operation"
"""The field of an event that says what happened to its row, in tables that are made here: null where the row was
written, so that the events of writers who don't know it are rows."""
LOG = "$log"
"""Behind the name of a table with a key: its events, as they are."""
CHANGES = "$changes"
"""Behind the name of a table: what its versions have changed, where SQL has no CHANGES."""
COMPACTED = "=="
"""Its value where a compaction has written a row once more, as it was when the compaction began, or an overwrite under
isolation level snapshot in place of what it has read: all other events are newer, wherever they lie. It is short, as
each row of a compacted table has it, and no word of anybody else's."""
DELETED = "_deleted"
"""The column of a batch that is to be written, which tells what rows are deleted."""

KEY_TYPES: tuple[type[DataType], ...] = (
    StringType,
    CharType,
    VarcharType,
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    DateType,
    TimestampType,
    DecimalType,
)
"""Types whose values have one text each: routing keys are made of them, and keys of them and of structs of them."""


@dataclass(frozen=True, kw_only=True)
class TableKey:
    """What makes an event a change of a row."""

    columns: tuple[str, ...]
    """The columns of the key, in their order."""
    event_schema: StructType
    """All fields of the events, among them those that aren't columns of the table."""
    operation: str | None = None
    """The field that says what happened; None: each event is a row that is there."""
    deletes: tuple[str, ...] = (DELETE,)
    """Its values that delete, as texts; the first one is written."""
    upsert: str | None = None
    """Its value that is written with a row."""
    row: str | None = None
    """The field that holds the row; None: the event itself is the row."""
    deleted_row: str | None = None
    """The field that holds the row that an event deletes; None: it is where other rows are, too."""

    @property
    def is_written(self) -> bool:
        """Whether rows can be written as such events; change records are only read."""
        return self.row is None

    @property
    def fields(self) -> list[str]:
        """The fields of an event that tell its key and what happened."""
        of_row = list(self.columns) if self.row is None else [self.row]
        more = [name for name in (self.operation, self.deleted_row) if name is not None]
        return [*of_row, *more]


def key_of(properties: TableProperties, events: StructType, stream: object) -> tuple[TableKey, StructType] | None:
    """A table's key, and the columns that the table then has.

    Args:
        properties: the table's properties.
        events: the fields of its events.
        stream: the stream, for messages.

    Returns:
        None for a table without a key.

    Raises:
        ConfigurationError: a field isn't there, or is of a type that can't be what the property says.
    """
    if properties.primary_key is None:
        return None
    row = _field(properties.row_column, events, ROW_COLUMN, stream)
    deleted_row = _field(properties.deleted_row_column, events, DELETED_ROW_COLUMN, stream)
    operation = _field(properties.operation_column, events, OPERATION_COLUMN, stream)
    if operation is None and row is None and OPERATION in events.fieldNames():
        operation = events[OPERATION]
    columns = events
    if row is not None:
        for name, column in ((ROW_COLUMN, row), (DELETED_ROW_COLUMN, deleted_row)):
            if column is not None and not isinstance(column.dataType, StructType):
                raise ConfigurationError(
                    f'"{name}" of stream "{stream}": "{column.name}" is {column.dataType.simpleString()}, and no '
                    "struct with the columns of a row"
                )
        assert isinstance(row.dataType, StructType)
        columns = row.dataType
    shown = [field for field in columns if row is not None or operation is None or field.name != operation.name]
    key = _checked_columns(properties.primary_key, StructType(shown), stream)
    schema = StructType([StructField(f.name, f.dataType, f.nullable and f.name not in key, f.metadata) for f in shown])
    deletes, upsert = properties.delete_values, properties.upsert_value
    if COMPACTED in (*deletes, upsert):
        raise ConfigurationError(
            f'"{DELETE_VALUES}" and "{UPSERT_VALUE}" of stream "{stream}" can\'t be "{COMPACTED}": so compactions mark '
            "what they write"
        )
    found_key = TableKey(
        columns=key,
        event_schema=events,
        operation=None if operation is None else operation.name,
        deletes=deletes,
        upsert=upsert,
        row=None if row is None else row.name,
        deleted_row=None if deleted_row is None else deleted_row.name,
    )
    return found_key, schema


def event_fields(schema: StructType, properties: TableProperties) -> StructType:
    """The fields of the events of a table that is made with a key.

    Args:
        schema: the table's columns.
        properties: the table's properties; the key's columns are in their own spelling.

    Raises:
        ConfigurationError: they contradict each other, or a column has the name of a field that is added.
    """
    key = properties.primary_key or ()
    fields = [StructField(f.name, f.dataType, f.nullable and f.name not in key, f.metadata) for f in schema]
    row, deleted_row, operation = (
        None if name is None else name.strip()
        for name in (properties.row_column, properties.deleted_row_column, properties.operation_column)
    )
    names = [name for name in (row, deleted_row, operation if row else operation or OPERATION) if name is not None]
    there = [*names, *(schema.fieldNames() if row is None else ())]
    twice = next((name for name in names if [one.lower() for one in there].count(name.lower()) > 1), None)
    if twice is not None:
        raise ConfigurationError(
            f'a table with a key can\'t have a column "{twice}": the events have a field of this name that says '
            "what happened to a row"
        )
    structs = [StructField(name, StructType(fields), True) for name in (row, deleted_row) if name is not None]
    said = [StructField(name, StringType(), True) for name in names if name not in (row, deleted_row)]
    events = StructType([*(fields if row is None else ()), *structs, *said])
    key_and_schema = key_of(properties, events, "")
    assert key_and_schema is not None
    check_meaning(key_and_schema[0])
    return events


def check_meaning(key: TableKey, stream: object = "") -> None:
    """Refuse a key with which an event would mean nothing, or two things.

    Args:
        key: the table's.
        stream: the stream, for messages.

    Raises:
        ConfigurationError: it is such a one.
    """
    of_stream = f' of stream "{stream}"' if stream else ""
    if not key.deletes:
        raise ConfigurationError(f'"{DELETE_VALUES}"{of_stream} must name texts, separated by commas')
    if key.upsert in key.deletes:
        raise ConfigurationError(
            f'"{UPSERT_VALUE}"{of_stream} can\'t be "{key.upsert}", which is among "{DELETE_VALUES}": '
            "each event would delete its row; give another one"
        )
    if key.deleted_row is not None and key.row is None:
        raise ConfigurationError(
            f'"{DELETED_ROW_COLUMN}"{of_stream} goes with "{ROW_COLUMN}", the field of other rows: set both'
        )


def check_key(text: str, schema: StructType, table_format: str, stream: object = "") -> tuple[str, ...]:
    """The columns of a key that a table is to have.

    Args:
        text: the property.
        schema: the table's columns.
        table_format: its format.
        stream: the stream, for messages.

    Raises:
        ConfigurationError: a column isn't there, or can't be a key's.
        UnsupportedOperationError: the format has no fields.
    """
    if table_format not in REGISTERED:
        raise UnsupportedOperationError(
            f"a table of format {table_format} can't have a primary key: its events need a field that says what "
            f"happened to a row, so take one of {', '.join(REGISTERED)}"
        )
    return _checked_columns(names_of(text), schema, stream)


def _checked_columns(names: Sequence[str], schema: StructType, stream: object) -> tuple[str, ...]:
    known = {name.lower(): name for name in schema.fieldNames()}
    of_stream = f' of stream "{stream}"' if stream else ""
    if not names:
        raise ConfigurationError(f'"{PRIMARY_KEY}"{of_stream} must name columns, separated by commas')
    columns = []
    for name in names:
        column = known.get(name.lower())
        if column is None:
            hint = did_you_mean(name, schema.fieldNames())
            raise ConfigurationError(f'"{PRIMARY_KEY}"{of_stream}: "{name}" is not a column{hint}')
        if column in columns:
            raise ConfigurationError(f'"{PRIMARY_KEY}"{of_stream} names column "{column}" twice')
        kind = schema[column].dataType
        if not _is_of_keys(kind):
            raise ConfigurationError(
                f'"{PRIMARY_KEY}"{of_stream}: column "{column}" of type {kind.simpleString()} can\'t be in a key: take '
                "strings (without a collation), integers, decimals, booleans, dates, timestamps, or structs of them"
            )
        columns.append(column)
    if not _with_texts(columns, schema):
        raise ConfigurationError(
            f'"{PRIMARY_KEY}"{of_stream} names structs only: add a column that is none, of which routing keys are made'
        )
    return tuple(columns)


def _is_of_keys(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return len(kind) > 0 and all(_is_of_keys(field.dataType) for field in kind)
    collated = isinstance(kind, StringType) and kind.collation not in (None, "UTF8_BINARY")
    return isinstance(kind, KEY_TYPES) and not collated


def _with_texts(columns: Sequence[str], schema: StructType) -> list[str]:
    return [name for name in columns if isinstance(schema[name].dataType, KEY_TYPES)]


def routing_key_of(columns: Sequence[str], schema: StructType) -> str:
    """The routing key of a table with a key, where none is given: its columns that aren't structs.

    Args:
        columns: those of the key.
        schema: the table's columns.
    """
    return listed(_with_texts(columns, schema))


def _field(name: str | None, events: StructType, property_name: str, stream: object) -> StructField | None:
    if name is None:
        return None
    for field in events:
        if field.name.lower() == name.strip().lower():
            return field
    hint = did_you_mean(name, events.fieldNames())
    raise ConfigurationError(f'"{property_name}" of stream "{stream}": the events have no field "{name}"{hint}')


class ChangeCodec:
    """Encodes rows as events that say what happened to them."""

    def __init__(self, codec: Codec, key: TableKey, *, with_deletions: bool = False) -> None:
        """Wrap a codec.

        Args:
            codec: encodes all fields of the events.
            key: the table's; it is one that rows are written to.
            with_deletions: whether batches tell which rows are deleted, in a column `DELETED`; else all are there from
                then on.
        """
        self._codec, self._key, self._with_deletions = codec, key, with_deletions

    @property
    def key(self) -> TableKey:
        """The table's."""
        return self._key

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        codec = self._codec.schema
        return subschema(codec, [name for name in codec.names if name != self._key.operation])

    def compacting(self) -> ChangeCodec:
        """The same for rows that are written once more by a compaction.

        Raises:
            UnsupportedOperationError: the events can't tell that.
        """
        field = self._key.operation
        if field is None or not pa.types.is_string(self._codec.schema.field(field).type):
            raise UnsupportedOperationError(
                "the table can't be compacted: its events have no field of texts that says what happened to a row"
            )
        return ChangeCodec(self._codec, replace(self._key, upsert=COMPACTED))

    @property
    def may_mark(self) -> bool:
        """Whether `compacting` is no riddle to others who read the events: the field is null in those of rows."""
        field = self._key.operation
        if field is None or self._key.upsert is not None:
            return False
        return bool(pa.types.is_string(self._codec.schema.field(field).type))

    @property
    def marks(self) -> bool:
        """Whether rows are written as older than all other events, wherever these lie."""
        return self._key.upsert == COMPACTED

    def telling(self) -> ChangeCodec:
        """The same for batches that tell which rows are deleted."""
        return ChangeCodec(self._codec, self._key, with_deletions=True)

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See `Codec.decode`."""
        return self._codec.decode(payloads, columns)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See `Codec.encode`."""
        for column in self._key.columns:
            for name, values in flat_key(column, batch.column(column)) if column in batch.schema.names else ():
                if values.null_count:
                    raise EventEncodeError(f'column "{shown_key(name)}" is in the primary key, and can\'t be null')
        field = self._key.operation
        if field is None:
            return self._codec.encode(batch)
        if field in batch.schema.names:
            raise EventEncodeError(f'the table has no column "{field}": DELETE and MERGE say which rows are deleted')
        kind = self._codec.schema.field(field).type
        operations = pa.repeat(pa.scalar(self._key.upsert, pa.string()), batch.num_rows)
        if self._with_deletions:
            deleted = batch.column(DELETED)
            operations = pc.if_else(deleted, pa.scalar(self._key.deletes[0]), operations)
            batch = batch.drop_columns([DELETED])
        return self._codec.encode(batch.append_column(field, operations.cast(kind)))
