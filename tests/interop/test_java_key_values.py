"""Key-value tables of SQL and Java's client: each finds by its key what the other has put."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.registry import SchemaRegistry
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_java_puts_and_sql_reads_and_the_other_way_round(
    spark: SparkSession, namespace: str, java: JavaPrograms, registry: SchemaRegistry
) -> None:
    scope, t = namespace.removeprefix("pravega.").replace("_", "-"), f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {t} (id BIGINT, code STRING, name STRING, n INT) "
        "TBLPROPERTIES ('primary-key' = 'id, code', 'table-type' = 'key-value', 'key-bytes' = 'code=8', "
        "'partitions' = '3')"
    )
    ((schema, _, _),) = registry.history(scope, "t")
    java.run("interop.KeyedPuts", scope, "t", "-3", "ä", schema.text, "from Java")
    assert [tuple(row) for row in spark.table(t).collect()] == [(-3, "ä", "from Java", None)]
    assert spark.table(t).where("id = -3 AND code = 'ä'").count() == 1
    spark.sql(f"INSERT INTO {t} VALUES (9, 'abcdefgh', 'from SQL', 4)")
    spark.sql(f"UPDATE {t} SET n = 7 WHERE id = -3")
    printed = java.run("interop.KeyedPuts", scope, "t", "9", "abcdefgh")
    assert json.loads(printed) == {"name": "from SQL", "n": 4}
    assert json.loads(java.run("interop.KeyedPuts", scope, "t", "-3", "ä")) == {"name": "from Java", "n": 7}


def test_a_table_that_java_has_made(spark: SparkSession, namespace: str, java: JavaPrograms) -> None:
    scope, t = namespace.removeprefix("pravega.").replace("_", "-"), f"{namespace}.theirs"
    java.run("interop.KvtTool", "create", scope, "theirs", "5", "4", "3")
    java.run("interop.KvtTool", "write", scope, "theirs", "4", "20", "3")
    rows = {(row, bytes([0, 0, part])): f"java {row}.{part}" for row in range(20) for part in range(3)}
    raw = {(bytes(r.key), bytes(r.secondary_key)): bytes(r.value) for r in spark.table(t).collect()}
    assert raw == {(row.to_bytes(4), part): text.encode() for (row, part), text in rows.items()}
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('key-columns' = 'row INT, part BINARY', 'format' = 'string')")
    assert {(r.row, bytes(r.part)): r.value for r in spark.table(t).collect()} == rows
    spark.sql(f"INSERT INTO {t} VALUES (-1, X'000001', 'from SQL')")
    spark.sql(f"DELETE FROM {t} WHERE row >= 0 AND part <> X'000001'")
    printed = [line.split(" ", 2) for line in java.run("interop.KvtTool", "all", scope, "theirs").splitlines()]
    expected = {row.to_bytes(4) + part: text for (row, part), text in rows.items() if part == b"\0\0\1"}
    expected[b"\xff\xff\xff\xff\0\0\1"] = "from SQL"
    assert {bytes.fromhex(key): value for key, _, value in printed} == expected
