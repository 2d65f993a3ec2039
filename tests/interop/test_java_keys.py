"""Tables with keys and Java: change records that Java writes are rows, and Java reads what changed in a table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from interop_tools import insert
from pyspark.sql.types import LongType, StringType, StructType
from readers import rows_read

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import SetProperty
from pyspark_pravega.client import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.connector.log import take_snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import snapshot_reader
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import ConfigurationError, UnsupportedOperationError
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]

ROW = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "interop",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "interop.Value"], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
EVENTS = 300


def change(number: int) -> tuple[str, dict[str, Any], int, str | None]:
    """Event `number`: its routing key, its fields as Avro's JSON, its key, and the name that the row has then."""
    key = number % 17
    deletes = number % 5 == 3
    name = None if deletes else f"né {number}"
    row = {"interop.Value": {"id": key, "name": {"string": f"né {number}"}}}
    fields = {
        "before": row if deletes else None,
        "after": None if deletes else row,
        "op": "d" if deletes else "u" if number > 16 else "c",
        "ts_ms": {"long": number},
    }
    return str(key), fields, key, name


def rows_of(definition: TableDefinition, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """What SELECT gives."""
    snapshot = take_snapshot(Catalog(definition.settings).client, definition.stream)
    reader = snapshot_reader(definition, snapshot, columns or definition.schema.fieldNames(), ReadOptions())
    return rows_read(reader)


def test_change_records_of_another_program(catalog: Catalog, scope: str, java: JavaPrograms) -> None:
    stream = Stream(scope, "customers")
    catalog.client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy.fixed(3)))
    expected: dict[int, str | None] = {}
    lines = []
    for number in range(EVENTS):
        routing, fields, key, name = change(number)
        lines.append(f"{routing}\t{json.dumps(fields)}\n")
        expected.pop(key, None)
        if name is not None:
            expected[key] = name
    java.run("interop.ChangeWrite", scope, "customers", json.dumps(ENVELOPE), stdin="".join(lines))

    def declare(**more: str) -> TableDefinition:
        properties = {
            "primary-key": "id",
            "operation-column": "op",
            "delete-values": "d",
            "row-column": "after",
            **more,
        }
        changes = [SetProperty(property=name, value=value) for name, value in properties.items()]
        return catalog.altering.alter([scope], "customers", changes)

    with pytest.raises(ConfigurationError, match="the events have no field"):
        declare(**{"row-column": "afterr"})
    with pytest.raises(ConfigurationError, match="no struct"):
        declare(**{"row-column": "op"})
    # A deletion has its key in the row that was there before.
    with pytest.raises(ConfigurationError, match=r'no value in column "id".*deleted-row-column'):
        declare()
    table = declare(**{"deleted-row-column": "before"})
    assert table.schema.fieldNames() == ["id", "name"]
    assert {row["id"]: row["name"] for row in rows_of(table)} == expected
    assert len(rows_of(table, [])) == len(rows_of(table, ["id"])) == len(expected)
    assert sum(row["op"] == "d" for row in rows_of(table.as_log())) == EVENTS // 5
    with pytest.raises(UnsupportedOperationError, match="change records of another program"):
        insert(table, [{"id": 1, "name": "x"}])


def test_java_reads_what_changed(catalog: Catalog, scope: str, java: JavaPrograms) -> None:
    schema = StructType().add("id", LongType(), nullable=False).add("name", StringType())
    table = catalog.tables.create([scope], "changed", schema, [], {"primary-key": "id"})
    insert(table, [{"id": number % 3, "name": f"né {number}"} for number in range(5)])
    printed = java.run("interop.InteropRead", scope, "changed", "avro", "5").splitlines()
    read = [json.loads(line) for line in printed]
    assert read == [{"id": number % 3, "name": f"né {number}", "_operation": None} for number in range(5)]
    # And its own events, of a schema without the field, are rows.
    assert table.registered is not None
    fields = [f for f in json.loads(table.registered[0].schema_data)["fields"] if f["name"] != "_operation"]
    plain = {**json.loads(table.registered[0].schema_data), "fields": fields}
    line = json.dumps({"id": 7, "name": {"string": "from Java"}})
    java.run("interop.ChangeWrite", scope, "changed", json.dumps(plain), stdin=f"7\t{line}\n")
    found = {row["id"]: row["name"] for row in rows_of(table)}
    assert found == {0: "né 3", 1: "né 4", 2: "né 2", 7: "from Java"}
