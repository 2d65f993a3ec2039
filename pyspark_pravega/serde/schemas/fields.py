"""By which names, or numbers, events hold what a table shows as columns: a column that comes back has another one."""

from __future__ import annotations

from collections.abc import Iterator

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
