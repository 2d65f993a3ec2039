"""Schema resolution: from the schema an event was written with and the table's to readers.

Source: the Avro 1.12 specification, "Schema Resolution". More is taken than it demands: records and enums needn't
have the same name (a schema registry group holds one type anyway), and values of timestamps and decimals are
converted where the two schemas count in other units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from pyspark_pravega.errors import IncompatibleSchemaError
from pyspark_pravega.serde.avro import read as avro_read
from pyspark_pravega.serde.avro.blocks import ItemSize
from pyspark_pravega.serde.avro.step import entry_stepper, stepper
from pyspark_pravega.serde.schemas import avro

Made: TypeAlias = Any
"""What a Resolver's maker makes: a reader or skipper, or a plan of one."""

_NULL = avro.Primitive("null")
_SECOND_FRACTIONS = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}


class Resolver:
    """Resolves a writer's schema to the table's, and makes what reads so: readers of this process, or a native plan."""

    def __init__(self, make: Any) -> None:
        """Take the maker: `avro_read`, or what has functions of the same names."""
        self._make = make

    def resolve_record(
        self, writer: avro.AvroType, reader: avro.AvroType, columns: Iterable[pa.Field], path: str = ""
    ) -> Any:
        """The reader of a record's fields.

        Args:
            writer: the schema the events were written with.
            reader: the table's.
            columns: the wanted fields, by the reader's names.
            path: the record, for messages, with a dot behind it.

        Returns:
            A function from a cursor to the arrays by name.

        Raises:
            IncompatibleSchemaError: the writer's schema doesn't resolve to the table's.
        """
        if not isinstance(writer, avro.Record) or not isinstance(reader, avro.Record):
            raise IncompatibleSchemaError(
                f"events of type {avro.describe(writer)} can't be read as {avro.describe(reader)}; "
                "a table's events are records"
            )
        if not path and (not writer.name) != (not reader.name):
            written_as, read_as = (avro.describe(one if one.name else one.fields[0].type) for one in (writer, reader))
            raise IncompatibleSchemaError(f"events of type {written_as} can't be read as {read_as}")
        columns_by_name = {field.name: field for field in columns}
        by_writer_name: dict[str, avro.Field] = {}
        written = {field.avro_name for field in writer.fields}
        defaults: list[tuple[str, Made]] = []
        for field in reader.fields:
            if field.name not in columns_by_name:
                continue
            source = next((name for name in (field.avro_name, *field.aliases) if name in written), None)
            if source is not None:
                by_writer_name[source] = field
            else:
                defaults.append((field.name, self._default(field, columns_by_name[field.name], f"{path}{field.name}")))
        unknown = columns_by_name.keys() - {field.name for field in reader.fields}
        if unknown:
            raise IncompatibleSchemaError(
                f"the table's Avro schema has no field {', '.join(sorted(path + name for name in unknown))}"
            )
        fields: list[tuple[str | None, Made]] = []
        for theirs in writer.fields:
            ours = by_writer_name.get(theirs.avro_name)
            where = f"{path}{theirs.name}"
            if ours is None:
                fields.append((None, self.skip(theirs.type, where)))
            else:
                column = columns_by_name[ours.name]
                fields.append((ours.name, self.resolve(theirs.type, ours.type, column.type, column.nullable, where)))
        return self._make.record(fields, defaults)

    def resolve(
        self, writer: avro.AvroType, reader: avro.AvroType, kind: pa.DataType, nullable: bool, path: str
    ) -> Made:
        """The reader of a value.

        Args:
            writer: the type it was written as.
            reader: the type the table has.
            kind: the Arrow type to make.
            nullable: whether it may be null.
            path: the column, for messages.

        Returns:
            The reader.

        Raises:
            IncompatibleSchemaError: the types don't resolve.
        """
        if isinstance(writer, avro.Union):
            return self._union(writer, reader, kind, nullable, path)
        if isinstance(reader, avro.Union):
            branches = [branch for branch in reader.branches if branch != _NULL]
            if writer == _NULL and len(branches) < len(reader.branches):
                return self._make.null(kind) if nullable else self._make.refused(_null_refused(path))
            if len(branches) != 1:
                return self._member(writer, branches, kind, path)
            reader = branches[0]
        if isinstance(reader, avro.Recursive):
            of_record = isinstance(writer, (avro.Record, avro.Recursive)) and pa.types.is_struct(kind)
            value_reader = self._make.variant(writer, kind, path) if of_record else None
        else:
            writer = writer.definition if isinstance(writer, avro.Recursive) else writer
            value_reader = self._same_shape(writer, reader, kind, path)
        if value_reader is None:
            raise IncompatibleSchemaError(
                f'field "{path}" was written as {avro.describe(writer)}, which can\'t be read as '
                f"{avro.describe(reader)} ({kind})"
            )
        return value_reader

    def skip(self, writer: avro.AvroType, path: str) -> Made:
        """What passes over a value that nobody wants.

        Args:
            writer: the type it was written as.
            path: the field, for messages.

        Returns:
            The skipper.
        """
        if isinstance(writer, avro.Union):
            return self._make.skip_union([self.skip(branch, path) for branch in writer.branches], path)
        if isinstance(writer, avro.Record):
            return self._make.skip_record([self.skip(field.type, f"{path}.{field.name}") for field in writer.fields])
        if isinstance(writer, avro.Array):
            return self._make.skip_blocks([self.skip(writer.items, path)], item_size(writer.items), path)
        if isinstance(writer, avro.Map):
            items = [self._make.skip_bytes(None, path), self.skip(writer.values, path)]
            return self._make.skip_blocks(items, entry_size(writer), path)
        if isinstance(writer, avro.Fixed):
            return self._make.skip_bytes(writer.size, path)
        if isinstance(writer, avro.Enum):
            return self._make.skip_number
        if isinstance(writer, avro.Recursive):
            return self._make.skip_recursive(writer, path)
        if writer.kind in ("int", "long"):
            return self._make.skip_number
        if writer.kind == "null":
            return self._make.skip_nothing
        sizes = {"boolean": 1, "float": 4, "double": 8}
        return self._make.skip_bytes(sizes.get(writer.kind), path)

    def _union(self, writer: avro.Union, reader: avro.AvroType, kind: pa.DataType, nullable: bool, path: str) -> Made:
        takes_null = reader == _NULL or (isinstance(reader, avro.Union) and _NULL in reader.branches)
        branches: list[Made] = []
        for branch in writer.branches:
            if branch == _NULL:
                branches.append(
                    self._make.null(kind) if nullable and takes_null else self._make.refused(_null_refused(path))
                )
                continue
            branches.append(self._resolve_late(branch, reader, kind, nullable, path))
        return self._make.union(branches, path)

    def _member(self, writer: avro.AvroType, branches: Sequence[avro.AvroType], kind: pa.DataType, path: str) -> Made:
        """A value for a union of several types: the first branch of the same type, or else the first that takes it."""
        if not pa.types.is_struct(kind):
            raise IncompatibleSchemaError(f'field "{path}" is a union of several types, and the column is {kind}')
        same = [i for i, branch in enumerate(branches) if _same_type(writer, branch)]
        for i in (*same, *range(len(branches))):
            try:
                member = self.resolve(writer, branches[i], kind.field(i).type, True, f"{path}.{kind.field(i).name}")
            except IncompatibleSchemaError:
                continue
            return self._make.member(kind, i, member)
        names = ", ".join(map(avro.describe, branches))
        raise IncompatibleSchemaError(
            f'field "{path}" was written as {avro.describe(writer)}, which is none of {names}'
        )

    def _resolve_late(
        self, writer: avro.AvroType, reader: avro.AvroType, kind: pa.DataType, nullable: bool, path: str
    ) -> Made:
        """As `resolve`, but where types don't resolve only an event that has such a value is bad."""
        try:
            return self.resolve(writer, reader, kind, nullable, path)
        except IncompatibleSchemaError as error:
            return self._make.refused(str(error))

    def _same_shape(self, writer: avro.AvroType, reader: avro.AvroType, kind: pa.DataType, path: str) -> Made | None:
        if isinstance(writer, avro.Record):
            if not isinstance(reader, avro.Record) or not pa.types.is_struct(kind):
                return None
            fields = [kind.field(i) for i in range(kind.num_fields)]
            return self._make.struct(kind, self.resolve_record(writer, reader, fields, f"{path}."))
        if isinstance(writer, avro.Array):
            if not isinstance(reader, avro.Array) or not pa.types.is_list(kind):
                return None
            inner = kind.value_field
            item = self._resolve_late(writer.items, reader.items, inner.type, inner.nullable, f"{path}.element")
            return self._make.array(kind, item, item_size(writer.items), path)
        if isinstance(writer, avro.Map):
            if not isinstance(reader, avro.Map) or not pa.types.is_map(kind):
                return None
            inner = kind.item_field
            value = self._resolve_late(writer.values, reader.values, inner.type, inner.nullable, f"{path}.value")
            return self._make.mapping(kind, self._make.text(f"{path}.key"), value, entry_size(writer), path)
        if isinstance(writer, avro.Enum):
            if not pa.types.is_string(kind):
                return None
            if isinstance(reader, avro.Enum):
                return self._make.enum(writer.symbols, reader.symbols, reader.default, path)
            return self._make.enum(writer.symbols, None, None, path) if _is(reader, "string") else None
        if isinstance(writer, (avro.Recursive, avro.Union)):
            return None
        return self._scalar(writer, reader, kind, path)

    def _scalar(
        self, writer: avro.Primitive | avro.Fixed, reader: avro.AvroType, kind: pa.DataType, path: str
    ) -> Made | None:
        if isinstance(writer, avro.Fixed) or writer.kind in ("bytes", "string"):
            return self._bytes(writer, reader, kind, path)
        if writer.kind == "boolean":
            return self._make.boolean(path) if _is(reader, "boolean") and pa.types.is_boolean(kind) else None
        if writer.kind in ("int", "long"):
            return self._number(writer, reader, kind, path)
        if writer.kind == "float":
            fits = _is(reader, "float", "double") and pa.types.is_floating(kind)
            return self._make.floating(kind, 4, path) if fits else None
        if writer.kind == "double":
            fits = _is(reader, "double") and pa.types.is_float64(kind)
            return self._make.floating(kind, 8, path) if fits else None
        return None

    def _number(self, writer: avro.Primitive, reader: avro.AvroType, kind: pa.DataType, path: str) -> Made | None:
        promotions = ("int", "long", "float", "double") if writer.kind == "int" else ("long", "float", "double")
        if not isinstance(reader, avro.Primitive) or reader.kind not in promotions:
            return None
        of_int = writer.kind == "int"
        if pa.types.is_timestamp(kind):
            # The unit is the writer's, where it says one.
            unit = _unit(writer.logical) or _unit(reader.logical)
            if unit is None or unit > 10**6:
                return None
            return self._make.numbers(kind, of_int=of_int, factor=10**6 // unit, path=path)
        if _unit(writer.logical) and _unit(reader.logical) and _unit(writer.logical) != _unit(reader.logical):
            return None
        plain = pa.types.is_signed_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
        if plain or (pa.types.is_date32(kind) and reader.logical == "date"):
            return self._make.numbers(kind, of_int=of_int, path=path)
        return None

    def _bytes(
        self, writer: avro.Primitive | avro.Fixed, reader: avro.AvroType, kind: pa.DataType, path: str
    ) -> Made | None:
        size = writer.size if isinstance(writer, avro.Fixed) else None
        if isinstance(writer, avro.Fixed):
            if isinstance(reader, avro.Fixed) and reader.size != writer.size:
                return None
            if not isinstance(reader, avro.Fixed) and not (writer.logical == "decimal" and _is(reader, "bytes")):
                return None
        elif isinstance(reader, avro.Fixed):
            if not (writer.logical == reader.logical == "decimal"):
                return None
        elif not _is(reader, "bytes", "string"):
            return None
        if pa.types.is_decimal128(kind):
            if not isinstance(reader, (avro.Primitive, avro.Fixed)) or reader.logical != "decimal":
                return None
            # A writer that doesn't say that it writes decimals has the table's scale.
            scale = writer.scale if writer.logical == "decimal" else reader.scale
            return self._make.decimal(size, scale, kind, path)
        if pa.types.is_string(kind):
            return self._make.text(path)
        return self._make.binary(size, path) if pa.types.is_binary(kind) else None

    def _default(self, field: avro.Field, column: pa.Field, path: str) -> Made:
        if field.default is avro.MISSING:
            return self._make.refused(
                f'the field "{path}" isn\'t in the schema the event was written with, and has no default in the '
                "table's"
            )
        kind = field.type
        branches: Iterable[avro.AvroType]
        if isinstance(kind, avro.Union) and len(kind.members) == 1:
            # Since Avro 1.12 a default may be of any branch; before, of the first.
            branches = kind.branches
        else:
            branches = (kind,)
        for branch in branches:
            try:
                value = default_value(branch, field.default)
            except (TypeError, ValueError, KeyError):
                continue
            if value is None and not column.nullable:
                return self._make.refused(_null_refused(path))
            try:
                return self._make.constant(value, column.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                break
        raise IncompatibleSchemaError(f'the default of field "{path}" isn\'t of its type: {field.default!r}')


READING = Resolver(avro_read)
"""Makes readers."""


def item_size(writer: avro.AvroType) -> ItemSize:
    """How large an array's items are, and how to find them."""
    if isinstance(writer, avro.Fixed):
        return ItemSize(writer.size, fixed=True)
    if isinstance(writer, avro.Enum) or _is(writer, "int", "long"):
        return ItemSize(1, number=True)
    if isinstance(writer, avro.Primitive) and writer.kind not in ("bytes", "string"):
        return ItemSize(_least(writer), fixed=True)
    return ItemSize(_least(writer), step=stepper(writer))


def entry_size(writer: avro.Map) -> ItemSize:
    """How large a map's entries are, and how to find them."""
    return ItemSize(1 + _least(writer.values), step=entry_stepper(writer))


def _least(writer: avro.AvroType) -> int:
    if isinstance(writer, avro.Record):
        return sum(_least(field.type) for field in writer.fields)
    if isinstance(writer, avro.Fixed):
        return writer.size
    if isinstance(writer, avro.Primitive):
        return {"null": 0, "float": 4, "double": 8}.get(writer.kind, 1)
    return 1


def default_value(kind: avro.AvroType, value: Any) -> Any:
    """A default of a schema as the Python value from which Arrow makes it.

    Args:
        kind: its type; of a union's branches the first that takes it counts.
        value: its JSON.

    Returns:
        The value; numbers for dates and timestamps in micros.

    Raises:
        TypeError, ValueError, KeyError: the JSON isn't of the type.
    """
    from decimal import Context, Decimal

    if isinstance(kind, avro.Union):
        for branch in kind.branches:
            try:
                content = default_value(branch, value)
            except (TypeError, ValueError, KeyError):
                continue
            several = len(kind.members) > 1 and branch != _NULL
            return {avro.member_name(kind.members.index(branch)): content} if several else content
        raise TypeError(value)
    if isinstance(kind, avro.Array):
        return [default_value(kind.items, item) for item in _checked(value, list)]
    if isinstance(kind, avro.Map):
        return [(key, default_value(kind.values, item)) for key, item in _checked(value, dict).items()]
    if isinstance(kind, avro.Record):
        _checked(value, dict)
        return {
            field.name: default_value(
                field.type,
                value[field.avro_name] if field.avro_name in value or field.default is avro.MISSING else field.default,
            )
            for field in kind.fields
        }
    if isinstance(kind, avro.Enum):
        if value not in kind.symbols:
            raise ValueError(value)
        return value
    if isinstance(kind, avro.Recursive):
        raise TypeError(value)
    if isinstance(kind, avro.Fixed) or kind.kind == "bytes":
        raw = _checked(value, str).encode("latin-1")
        if kind.logical == "decimal":
            unscaled = int.from_bytes(raw, "big", signed=True)
            return Decimal(unscaled).scaleb(-kind.scale, Context(prec=80))
        return raw
    if kind.kind == "null":
        if value is not None:
            raise TypeError(value)
        return None
    if kind.kind == "string":
        return _checked(value, str)
    if kind.kind == "boolean":
        return _checked(value, bool)
    if isinstance(value, bool):
        raise TypeError(value)
    if kind.kind in ("float", "double"):
        return float(_checked(value, int, float, str))
    unit = _unit(kind.logical)
    is_timestamp = kind.logical is not None and "timestamp" in kind.logical
    return _checked(value, int) * (10**6 // unit if is_timestamp and unit and unit <= 10**6 else 1)


def _checked(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds):
        raise TypeError(value)
    return value


def _is(schema: avro.AvroType, *kinds: Literal["boolean", "int", "long", "float", "double", "bytes", "string"]) -> bool:
    return isinstance(schema, avro.Primitive) and schema.kind in kinds


def _unit(logical: str | None) -> int | None:
    """How many of a timestamp's or time's units make a second; None for other types."""
    return _SECOND_FRACTIONS.get(logical.rpartition("-")[2]) if logical else None


def _same_type(one: avro.AvroType, other: avro.AvroType) -> bool:
    if isinstance(one, avro.Primitive) and isinstance(other, avro.Primitive):
        return (one.kind, one.logical) == (other.kind, other.logical)
    if isinstance(one, (avro.Array, avro.Map)):
        return type(one) is type(other)
    return type(one) is type(other) and getattr(one, "name", None) == getattr(other, "name", "")


def _null_refused(path: str) -> str:
    return f'"{path}" is null, and the table\'s column is NOT NULL'
