"""By which names, or numbers, events hold what a table shows as columns: a column that comes back has another one.
Which columns are enums. And in what shape events hold each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark_pravega.serde.schemas import avro, json, protobuf

Path = tuple[str, ...]


def field_ids(kind: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The columns of a schema and the fields of their structs, and by what events know them.

    Args:
        kind: what a schema's `parse` gave, or a part of it.
        path: the names of the column and the structs that it is within.

    Yields:
        The path of each column or field, and its own name or number.
    """
    if isinstance(kind, avro.Union):
        records = [branch for branch in kind.branches if isinstance(branch, avro.Record)]
        if len(records) == 1:
            yield from field_ids(records[0], path)
    elif isinstance(kind, avro.Record):
        for one in kind.fields:
            yield (*path, one.name), one.avro_name
            yield from field_ids(one.type, (*path, one.name))
    elif isinstance(kind, json.Object):
        for prop in kind.properties:
            yield (*path, prop.name), prop.key
            yield from field_ids(prop.type, (*path, prop.name))
    elif isinstance(kind, protobuf.Message) and not kind.recursive:
        for field in kind.fields:
            yield (*path, field.name), str(field.number)
            if field.label == "one":
                yield from field_ids(field.message, (*path, field.name))


def enum_columns(kind: object) -> Iterator[str]:
    """The columns whose values are names of an enum. A later schema may have other names for what events hold.

    Args:
        kind: what a schema's `parse` gave.

    Yields:
        Their names.
    """
    if isinstance(kind, avro.Union):
        for branch in kind.branches:
            yield from enum_columns(branch)
    elif isinstance(kind, avro.Record):
        for one in kind.fields:
            branches = one.type.branches if isinstance(one.type, avro.Union) else (one.type,)
            if any(isinstance(branch, avro.Enum) for branch in branches):
                yield one.name
    elif isinstance(kind, protobuf.Message):
        for field in kind.fields:
            if field.kind == "enum":
                yield field.name


def field_shapes(kind: object) -> Iterator[tuple[str, str]]:
    """In what shape events hold each column: by two schemas in which that is equal, an event has the same value in it.

    Args:
        kind: what a schema's `parse` gave.

    Yields:
        The column's name; and its type in the schema, its default, and by what names it is looked for.
    """
    if isinstance(kind, avro.Union):
        for branch in kind.branches:
            yield from field_shapes(branch)
    elif isinstance(kind, avro.Record):
        for one in kind.fields:
            yield one.name, repr(replace(one, name=one.avro_name, legal_name="", doc=None))
    elif isinstance(kind, json.Object):
        for prop in kind.properties:
            yield prop.name, repr(replace(prop, name="", description=None))
    elif isinstance(kind, protobuf.Message):
        for field in kind.fields:
            yield field.name, repr(replace(field, name=""))
