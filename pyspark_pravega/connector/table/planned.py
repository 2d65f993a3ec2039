"""What a query was planned with, held against what the table has become: by its columns, and by events of schemas that
are later than the plan's."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.connector.table.encodings import RegistryEncodings, looks_checked
from pyspark_pravega.errors import GroupNotFoundError, NotFoundError, SchemaNotFoundError, TableChangedError
from pyspark_pravega.frames import framing
from pyspark_pravega.serde import lenient
from pyspark_pravega.serde.encodings import distinct
from pyspark_pravega.serde.formats import AVRO, FORMATS, REGISTERED, Schema, registered_schema
from pyspark_pravega.serde.lenient import DROP_MALFORMED, FAIL_FAST
from pyspark_pravega.spark.types import ArrayType, DataType, MapType, StructType

if TYPE_CHECKING:
    from pyspark_pravega.connector.table.definition import TableDefinition

_AGAIN = "make the DataFrame again, or start the streaming query again: it goes on where it is"


def check_planned(
    stream: Stream, planned: StructType, columns: Collection[str], now: StructType, *, decoded: bool = False
) -> None:
    """Refuse to read a table whose columns aren't those any more that a query was planned with.

    A column that was added is nothing to the query, nor one that can't be null any more. Of those that it doesn't read
    it may still count on one thing: `count(v)` and `v IS NULL` don't read a column that was NOT NULL.

    Args:
        stream: the table's.
        planned: the table's columns, as the query was planned with them.
        columns: which of them the query reads, and other names than the table's.
        now: the table's columns.
        decoded: whether rows come as they were planned, so that fields which were added to structs don't matter.

    Raises:
        TableChangedError: they aren't.
    """
    changed = list(_differences(planned, columns, now, decoded=decoded))
    there = set(now.fieldNames()) - set(planned.fieldNames())
    changed += [f'column "{name}" is one of the table\'s own' for name in columns if name in there]
    if changed:
        raise changed_table(stream, "; ".join(changed))


def check_field_ids(before: TableDefinition, now: TableDefinition, columns: Collection[str]) -> None:
    """Refuse to read a table in which another column has come by the name of one that a query reads.

    Args:
        before: the table, as the query was planned with it.
        now: what it has become.
        columns: those that the query reads.

    Raises:
        TableChangedError: there is such a column.
    """
    if before.registered is None or now.registered is None or before.registered == now.registered:
        return
    if before.format not in FORMATS or now.format not in FORMATS:
        return
    own, later = (
        registered_schema(schema.serialization_format, schema.type, schema.schema_data)
        for schema, _ in (before.registered, now.registered)
    )
    _check_field_ids(now.stream, own, later, columns)


def schema_read(definition: TableDefinition, planned: StructType | None) -> str:
    """The schema with whose columns a query reads, `TableDefinition.schema_name`.

    Args:
        definition: what the stream is as a table.
        planned: the table's columns, as the query was planned with them; None where nothing was planned before.
    """
    if planned is None or _names_in(definition.schema) <= _names_in(planned):
        return definition.schema_name
    # The table has more by now: it was an earlier one.
    return definition.schema_name and f"{definition.schema_name.rpartition(' ')[0]} -1"


def _names_in(columns: DataType) -> frozenset[str]:
    """The names of columns and of fields within them, each with those that it is in."""
    if isinstance(columns, StructType):
        within = {f"{field.name}/{name}" for field in columns for name in _names_in(field.dataType)}
        return frozenset({*columns.fieldNames(), *within})
    if isinstance(columns, ArrayType):
        return _names_in(columns.elementType)
    if isinstance(columns, MapType):
        return _names_in(columns.keyType) | _names_in(columns.valueType)
    return frozenset()


def changed_table(stream: Stream, what: str) -> TableChangedError:
    """The error of a query whose table has changed.

    Args:
        stream: the table's.
        what: how it has changed.
    """
    return TableChangedError(
        f'the table of stream "{stream}" has changed since this query was planned: {what}. Nothing was read of what '
        f"came with that; {_AGAIN}"
    )


def check_same_stream(client: Client, definition: TableDefinition, segment_ids: Collection[int]) -> bool:
    """Refuse to read segments by a definition of another stream, which had the name of theirs before.

    Args:
        client: the cluster.
        definition: what the stream is as a table.
        segment_ids: what is to be read.

    Returns:
        Whether the controller was asked: the segments are all of the definition's stream then.

    Raises:
        TableChangedError: they are of a stream that was made later.
    """
    known = definition.segments
    if not known or not segment_ids or not set(known).isdisjoint(segment_ids):
        return False
    try:
        client.controller.segment_ranges(definition.stream, [min(known)])
    except NotFoundError:
        raise changed_table(definition.stream, "it was dropped and made again") from None
    return True


@dataclass(frozen=True, kw_only=True)
class PlannedSchema:
    """The schema that a read was planned with. It can be pickled."""

    encodings: RegistryEncodings
    """Of the table's group."""
    format: str
    type: str
    """The schema's type, see `SchemaInfo`."""
    version: int
    """Its id in the group: that of a later schema is greater."""
    data: bytes
    """The schema itself, as of `SchemaInfo`."""
    columns: StructType
    """The fields of events."""
    read: frozenset[str]
    """Those that the query reads."""
    decoded: frozenset[str]
    """Those that are decoded for that."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Refuse events that are decoded in the `with` block of a schema that is later than the plan's, and that the
        plan has no right columns for.

        Raises:
            TableChangedError: there are such.
        """
        with looks_checked(self._check_later):
            yield

    def check_unseen(self, events: pa.Array) -> None:
        """The same of events that needn't be decoded, where it matters to those who count them.

        Args:
            events: events with headers, or views of them.

        Raises:
            TableChangedError: as `held`.
        """
        if all(field.nullable for field in self.columns):
            return
        for encoding_id in distinct(*framing.ids_of(events)):
            self._check_later(encoding_id)

    def _check_later(self, encoding_id: int) -> None:
        later = self._later(encoding_id)
        if later is None:
            return
        later_schema, own = (registered_schema(REGISTERED[self.format], self.type, data) for data in (later, self.data))
        now = later_schema.columns()
        there = set(now.fieldNames())
        # An event without a field that isn't read is read all the same, if that may be NULL.
        needed = {field.name for field in self.columns if field.name in there or not field.nullable}
        check_planned(self.encodings.stream, self.columns, self.read | (self.decoded & needed), now, decoded=True)
        _check_field_ids(self.encodings.stream, own, later_schema, self.read)

    def check_bad(self, events: pa.Array) -> None:
        """Tell events that can't be decoded from those of a later schema, by which they can be.

        Args:
            events: events that can't be decoded by the plan's schema.

        Raises:
            TableChangedError: one can be decoded by a later schema.
            RegistryUnavailableError: there may be one, and the registry doesn't answer.
        """
        ids = framing.encoding_ids(events)
        for encoding_id in ids.unique().to_pylist():
            later = self._newest() if encoding_id is None else self._later(encoding_id)
            if later is None:
                continue
            schema = registered_schema(REGISTERED[self.format], self.type, later)
            columns = schema.columns()
            of_id = events.filter(pa.array([one == encoding_id for one in ids.to_pylist()]))
            good = lenient.decode(schema.codec(columns, self.encodings), of_id, columns.fieldNames(), DROP_MALFORMED)
            if good.held.num_rows:
                raise changed_table(self.encodings.stream, "it has another schema, with which events were written")

    def _later(self, encoding_id: int) -> bytes | None:
        """The schema behind an encoding id, if it is one of the table's that is later than the plan's."""
        try:
            info = self.encodings.looked_up(encoding_id)
        except SchemaNotFoundError:
            return None
        is_later = info.version.id > self.version and info.schema.type == self.type
        return info.schema.schema_data if is_later else None

    def _newest(self) -> bytes | None:
        """The group's last schema, if it is later than the plan's: events without headers may be of it."""
        registry = shared_registry(self.encodings.settings)
        stream = self.encodings.stream
        if registry is None or self.format == AVRO:
            # An event of Avro without a header is none.
            return None
        try:
            history = registry.schemas(stream.scope, stream.name, self.type)
        except GroupNotFoundError:
            return None
        if not history or history[-1][1].id <= self.version:
            return None
        return history[-1][0].schema_data


def planned_schema(definition: TableDefinition, columns: Collection[str]) -> PlannedSchema | None:
    """The schema that a query's read is planned with.

    Args:
        definition: what the stream is as a table.
        columns: those that the query reads.

    Returns:
        None where events have no schema in the registry, or are in a custom format.
    """
    if definition.registered is None or definition.encodings is None:
        return None
    schema, version = definition.registered
    # In other modes than fail-fast events are decoded whole, and rows by keys are made of other fields, too.
    whole = definition.mode != FAIL_FAST or definition.key is not None
    fields = definition.event_schema
    return PlannedSchema(
        encodings=definition.encodings,
        format=definition.format,
        type=schema.type,
        version=version.id,
        data=schema.schema_data,
        columns=fields,
        read=frozenset(columns),
        decoded=frozenset(fields.fieldNames() if whole else columns),
    )


def _check_field_ids(stream: Stream, own: Schema, later: Schema, columns: Collection[str]) -> None:
    ids = later.field_ids()
    others = [
        ".".join(path)
        for path, own_id in own.field_ids().items()
        if path[0] in columns and ids.get(path, own_id) != own_id
    ]
    if others:
        names = ", ".join(f'"{name}"' for name in others)
        raise changed_table(stream, f"another column came in the place of {names}")


def _differences(planned: StructType, columns: Collection[str], now: StructType, *, decoded: bool) -> Iterator[str]:
    there = {field.name: field for field in now}
    for field in planned:
        other = there.get(field.name)
        if other is None:
            if field.name in columns:
                yield f'column "{field.name}" isn\'t there any more'
        elif other.nullable and not field.nullable:
            yield f'column "{field.name}" was NOT NULL, and can be NULL'
        elif field.name in columns and not _fits(field.dataType, other.dataType, decoded=decoded):
            was, is_now = field.dataType.simpleString(), other.dataType.simpleString()
            if was == is_now:
                yield f'column "{field.name}", {was}, can have NULLs within where it had none'
            else:
                yield f'column "{field.name}" was {was}, and is {is_now}'


def _fits(planned: DataType, now: DataType, *, decoded: bool) -> bool:
    """Whether values of a type can be read by code that was made for another one."""
    if isinstance(planned, StructType) and isinstance(now, StructType):
        there = {field.name: field for field in now}
        if not decoded and planned.fieldNames() != now.fieldNames():
            return False
        return all(
            field.name in there
            and field.nullable >= there[field.name].nullable
            and _fits(field.dataType, there[field.name].dataType, decoded=decoded)
            for field in planned
        )
    if isinstance(planned, ArrayType) and isinstance(now, ArrayType):
        loose = planned.containsNull >= now.containsNull
        return loose and _fits(planned.elementType, now.elementType, decoded=decoded)
    if isinstance(planned, MapType) and isinstance(now, MapType):
        keys = _fits(planned.keyType, now.keyType, decoded=decoded)
        loose = planned.valueContainsNull >= now.valueContainsNull
        return keys and loose and _fits(planned.valueType, now.valueType, decoded=decoded)
    return bool(planned == now)
