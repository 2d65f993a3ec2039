"""Plans for the native codec: JSON and Protobuf. native/src/json.rs and protobuf.rs say what their parts mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark_pravega.serde.native.avro_plan import NoPlanError, Plan
from pyspark_pravega.serde.schemas import json as json_schema
from pyspark_pravega.serde.schemas import protobuf
from pyspark_pravega.serde.types import field_type, is_nullable
from pyspark_pravega.spark.types import DecimalType

_MOST_FIELDS = 256
"""Of a Protobuf message that the native codec does: its MAX_FIELDS."""


def json_plan(schema: json_schema.Object, names: Sequence[str]) -> Plan:
    """How to read or write an object.

    Args:
        schema: what it is.
        names: the wanted properties, in the columns' order.
    """
    ordinals = {name: i for i, name in enumerate(names)}
    fields = [one for one in schema.properties if one.name in ordinals]
    return {
        "kind": "object",
        "fields": [
            {"name": one.key, "column": ordinals[one.name], "nullable": one.nullable, "node": _json(one.type)}
            for one in fields
        ],
    }


def _json(kind: json_schema.JsonType) -> Plan:
    if isinstance(kind, json_schema.Items):
        return {"kind": "items", "of": _json(kind.item), "nullable": kind.nullable}
    if isinstance(kind, json_schema.Entries):
        return {"kind": "entries", "of": _json(kind.value), "nullable": kind.nullable}
    if isinstance(kind, json_schema.Object):
        return json_plan(kind, [one.name for one in kind.properties])
    return {"kind": kind.kind, "precision": kind.precision, "scale": kind.scale}


def protobuf_plan(message: protobuf.Message, names: Sequence[str]) -> Plan:
    """How to read or write a message.

    Args:
        message: its type.
        names: the wanted fields, in the columns' order.

    Raises:
        NoPlanError: it has more fields than the native codec does, or one of a type that it doesn't know.
    """
    if len(message.fields) > _MOST_FIELDS:
        raise NoPlanError
    ordinals = {name: i for i, name in enumerate(names)}
    fields = sorted(message.fields, key=lambda field: field.number)
    return {"fields": [_field(field, fields, ordinals) for field in fields]}


def _field(field: protobuf.Field, among: Sequence[protobuf.Field], ordinals: dict[str, int]) -> Plan:
    rivals = [i for i, one in enumerate(among) if field.oneof and one.oneof == field.oneof and one is not field]
    plan: dict[str, Any] = {
        "number": field.number,
        "column": ordinals.get(field.name),
        "label": field.label,
        "presence": field.presence,
        "nullable": is_nullable(field),
        "packed": field.packed,
        "utf8": field.utf8,
        "kind": field.kind,
        "rivals": rivals,
        "enum": field.enum,
        "closed": field.closed,
        "default": field.enum_default,
    }
    if field.kind == "group":
        raise NoPlanError
    if field.message is not None:
        if field.message.recursive:
            # Its fields aren't told again; only the plain codec can pass over it.
            raise NoPlanError
        plan["message"] = protobuf_plan(field.message, [one.name for one in field.message.fields])
    elif field.kind == "string":
        kind = field_type(field, field.name)
        kind = kind.elementType if field.label == "many" else kind  # type: ignore[attr-defined]
        if isinstance(kind, DecimalType):
            plan |= {"kind": "decimal", "precision": kind.precision, "scale": kind.scale}
    return plan
