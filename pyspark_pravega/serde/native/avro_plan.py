"""Plans for the native codec: the makers of `avro_read`, with plans as what they make, and how to write a table's rows.

A plan is what `json.dumps` takes; native/src/avro.rs and avro_write.rs say what its parts mean.
"""

# ruff: noqa: ARG002  (the makers take what those of `avro_read` take, also where a plan doesn't need it)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from pyspark_pravega.serde.avro import ItemSize, Resolver, record_writer
from pyspark_pravega.serde.schemas import avro

Plan: TypeAlias = dict[str, Any]

_NULL = avro.Primitive("null")
_DIVISORS = {"millis": 1000, "micros": 1}


class NoPlanError(Exception):
    """The native codec can't do this; the plain one can."""


def record_plan(writer: avro.AvroType, reader: avro.AvroType, columns: pa.Schema) -> Plan:
    """How to read events.

    Args:
        writer: the schema they were written with.
        reader: the table's.
        columns: the wanted columns.

    Raises:
        SchemaError: the writer's schema doesn't resolve to the table's.
        NoPlanError: the native codec can't do it.
    """
    plan: Plan = Resolver(_MAKER).resolve_record(writer, reader, columns)
    return _with_ordinals(plan, columns.names)


def write_plan(schema: avro.AvroType, columns: pa.Schema) -> Plan:
    """How to write rows.

    Args:
        schema: what to write them as.
        columns: the table's columns.

    Raises:
        NoPlanError: the native codec can't do it.
    """
    if not isinstance(schema, avro.Record):
        raise NoPlanError
    return {"fields": _write_fields(schema, list(columns))}


class _Maker:
    """Makes plans where `avro_read` makes readers; see there."""

    def numbers(self, kind: pa.DataType, *, of_int: bool, factor: int = 1, path: str) -> Plan:
        return {"kind": "number", "int": of_int, "factor": factor}

    def boolean(self, path: str) -> Plan:
        return {"kind": "boolean"}

    def floating(self, kind: pa.DataType, size: int, path: str) -> Plan:
        return {"kind": "float" if size == 4 else "double"}

    def binary(self, size: int | None, path: str) -> Plan:
        return {"kind": "bytes"} if size is None else {"kind": "fixed", "size": size}

    def text(self, path: str) -> Plan:
        return {"kind": "text"}

    def decimal(self, size: int | None, scale: int, kind: pa.Decimal128Type, path: str) -> Plan:
        if scale > 38:
            raise NoPlanError
        return {"kind": "decimal", "size": size, "written": scale, "scale": kind.scale, "precision": kind.precision}

    def enum(
        self, symbols: Sequence[str], reader_symbols: Sequence[str] | None, default: str | None, path: str
    ) -> Plan:
        return {
            "kind": "enum",
            "symbols": [one if reader_symbols is None or one in reader_symbols else default for one in symbols],
        }

    def constant(self, value: Any, kind: pa.DataType) -> Plan:
        field = pa.field("v", kind)
        schema = avro.Record("C", (avro.Field("v", _canonical(field)),))
        batch = pa.RecordBatch.from_arrays([pa.array([value], type=kind)], schema=pa.schema([field]))
        written = record_writer(schema, batch.schema)(batch)[0].as_py()
        (entry,) = record_plan(schema, schema, batch.schema)["fields"]
        return {"node": entry[1], "bytes": list(written)}

    def refused(self, reason: str) -> Plan:
        return {"kind": "refused"}

    def null(self, kind: pa.DataType) -> Plan:
        return {"kind": "null"}

    def union(self, branches: Sequence[Plan], path: str) -> Plan:
        return {"kind": "union", "of": list(branches)}

    def member(self, kind: pa.StructType, index: int, read_value: Plan) -> Plan:
        return {"kind": "member", "index": index, "of": read_value}

    def record(self, fields: Sequence[tuple[str | None, Plan]], defaults: Sequence[tuple[str, Plan]]) -> Plan:
        # A default that's refused is a plan of no bytes.
        filled = [(name, one if "node" in one else {"node": one, "bytes": []}) for name, one in defaults]
        return {"kind": "record", "fields": list(fields), "defaults": filled}

    def struct(self, kind: pa.StructType, fields: Plan) -> Plan:
        return _with_ordinals(fields, [kind.field(i).name for i in range(kind.num_fields)])

    def array(self, kind: pa.ListType, item: Plan, size: ItemSize, path: str) -> Plan:
        return {"kind": "array", "item": item, "least": size.least}

    def mapping(self, kind: pa.MapType, key: Plan, value: Plan, size: ItemSize, path: str) -> Plan:
        return {"kind": "map", "value": value, "least": size.least}

    def skip_bytes(self, size: int | None, path: str) -> Plan:
        return {"kind": "skip-bytes"} if size is None else {"kind": "skip-fixed", "size": size}

    def variant(self, writer: avro.AvroType, kind: pa.StructType, path: str) -> Plan:
        raise NoPlanError

    def skip_recursive(self, writer: avro.Recursive, path: str) -> Plan:
        raise NoPlanError

    skip_number: ClassVar[Plan] = {"kind": "skip-number"}
    skip_nothing: ClassVar[Plan] = {"kind": "skip-nothing"}

    def skip_record(self, fields: Sequence[Plan]) -> Plan:
        return {"kind": "skip-record", "of": list(fields)}

    def skip_union(self, branches: Sequence[Plan], path: str) -> Plan:
        return {"kind": "skip-union", "of": list(branches)}

    def skip_blocks(self, items: Sequence[Plan], size: ItemSize, path: str) -> Plan:
        return {"kind": "skip-blocks", "of": list(items), "least": size.least}


_MAKER = _Maker()


def _with_ordinals(record: Plan, names: Sequence[str]) -> Plan:
    """A record's plan with ordinals for names."""
    filled = [name for name, _ in record["fields"] if name is not None] + [name for name, _ in record["defaults"]]
    if sorted(filled) != sorted(names):
        raise NoPlanError
    ordinals = {name: i for i, name in enumerate(names)}
    return {
        "kind": "record",
        "fields": [(None if name is None else ordinals[name], node) for name, node in record["fields"]],
        "defaults": [{"column": ordinals[name], **constant} for name, constant in record["defaults"]],
    }


def _canonical(field: pa.Field) -> avro.AvroType:
    """An Avro type for values of an Arrow type."""
    kind, types = field.type, pa.types
    schema: avro.AvroType
    if types.is_struct(kind):
        inner = [kind.field(i) for i in range(kind.num_fields)]
        schema = avro.Record("N", tuple(avro.Field(one.name, _canonical(one)) for one in inner))
    elif types.is_map(kind):
        schema = avro.Map(_canonical(kind.item_field))
    elif types.is_list(kind):
        schema = avro.Array(_canonical(kind.value_field))
    elif types.is_decimal128(kind):
        schema = avro.Primitive("bytes", "decimal", kind.precision, kind.scale)
    elif types.is_timestamp(kind):
        schema = avro.Primitive("long", "timestamp-micros" if kind.tz else "local-timestamp-micros")
    elif types.is_date32(kind):
        schema = avro.Primitive("int", "date")
    elif types.is_signed_integer(kind):
        schema = avro.Primitive("long" if kind.bit_width == 64 else "int")
    else:
        plain = {"bool": "boolean", "float": "float", "double": "double", "string": "string", "binary": "bytes"}
        if str(kind) not in plain:
            raise NoPlanError
        schema = avro.Primitive(plain[str(kind)])
    return avro.Union((_NULL, schema)) if field.nullable else schema


def _write_fields(schema: avro.Record, columns: Sequence[pa.Field]) -> list[Plan]:
    ordinals = {field.name: i for i, field in enumerate(columns)}
    if ordinals.keys() != {field.name for field in schema.fields}:
        raise NoPlanError
    return [
        {"column": ordinals[field.name], "node": _write_node(field.type, columns[ordinals[field.name]].type)}
        for field in schema.fields
    ]


def _write_node(schema: avro.AvroType, kind: pa.DataType) -> Plan:
    if not isinstance(schema, avro.Union):
        return _write_kind(schema, kind)
    branches = [branch for branch in schema.branches if branch != _NULL]
    if len(branches) != 1:
        raise NoPlanError
    null = 2 * schema.branches.index(_NULL) if _NULL in schema.branches else None
    return {"value": 2 * schema.branches.index(branches[0]), "null": null, **_write_kind(branches[0], kind)}


def _write_kind(schema: avro.AvroType, kind: pa.DataType) -> Plan:
    types = pa.types
    if isinstance(schema, avro.Record) and types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {"kind": "record", "fields": _write_fields(schema, fields)}
    if isinstance(schema, avro.Array) and types.is_list(kind):
        return {"kind": "array", "of": _write_node(schema.items, kind.value_type)}
    if isinstance(schema, avro.Map) and types.is_map(kind) and types.is_string(kind.key_type):
        return {"kind": "map", "of": _write_node(schema.values, kind.item_type)}
    if isinstance(schema, avro.Enum) and types.is_string(kind):
        return {"kind": "enum", "symbols": list(schema.symbols)}
    if isinstance(schema, (avro.Fixed, avro.Primitive)):
        plan = _write_scalar(schema, kind)
        if plan is not None:
            return plan
    raise NoPlanError


def _write_scalar(schema: avro.Fixed | avro.Primitive, kind: pa.DataType) -> Plan | None:
    types = pa.types
    size = schema.size if isinstance(schema, avro.Fixed) else None
    if types.is_decimal128(kind):
        exact = schema.logical == "decimal" and (schema.precision, schema.scale) == (kind.precision, kind.scale)
        return {"kind": "decimal", "size": size} if exact else None
    if isinstance(schema, avro.Fixed):
        return {"kind": "fixed", "size": size} if types.is_binary(kind) else None
    if schema.kind in ("int", "long"):
        divisor = None
        if types.is_timestamp(kind):
            divisor = _DIVISORS.get((schema.logical or "").rpartition("-")[2])
        elif types.is_signed_integer(kind) or (types.is_date32(kind) and schema.logical == "date"):
            divisor = 1
        return None if divisor is None else {"kind": "number", "int": schema.kind == "int", "divisor": divisor}
    plain = {
        "boolean": types.is_boolean(kind),
        "float": types.is_float32(kind),
        "double": types.is_floating(kind),
        "string": types.is_string(kind),
        "bytes": types.is_binary(kind),
    }
    if not plain.get(schema.kind):
        return None
    return {"kind": "bytes" if schema.kind == "string" else schema.kind}
