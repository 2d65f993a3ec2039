"""SHOW CREATE TABLE's text, run again, makes an equal table, whatever its columns are called."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from pyspark.sql import SparkSession
from since import is_missing

from pyspark_pravega.catalog.stream_properties import STREAM_PROPERTIES
from pyspark_pravega.connector.table import OWN_PROPERTIES
from pyspark_pravega.values import listed, quoted

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

NAMES = [" lead", "tail ", "my id", "a,b", "x.y", "b`q", "it's", 'd"q', "{w}", "日付"]
WORDS = not is_missing("4.1")
"""Whether SQL has keys and constraints; before, a property says the key."""
PLAIN = "n INT DEFAULT 7" + (", CHECK ({one} <> 'x' OR {two} IS NULL)" if WORDS else "")
KINDS = {
    "key": "({one} STRING NOT NULL, {two} STRING NOT NULL, n INT, PRIMARY KEY ({one}, {two}) NOT ENFORCED)",
    "one_key": "({one} STRING NOT NULL, {two} STRING, n INT DEFAULT 7, PRIMARY KEY ({one}) NOT ENFORCED)",
    "entries": "({one} STRING NOT NULL, {two} STRING NOT NULL, n INT, PRIMARY KEY ({one}, {two}) NOT ENFORCED) "
    "CLUSTERED BY ({one}) INTO 2 BUCKETS TBLPROPERTIES ('table-type' = 'key-value', 'key-bytes' = '{bytes}')",
    "clustered": f"({{one}} STRING, {{two}} STRING, {PLAIN}) CLUSTER BY ({{one}})",
    "several": f"({{one}} STRING, {{two}} STRING, {PLAIN}) TBLPROPERTIES ('routing-key' = '{{both}}')",
    "pattern": f"({{one}} STRING, {{two}} STRING, {PLAIN}) TBLPROPERTIES ('routing-key' = '<{{braced}}>')",
    "timed": "({one} TIMESTAMP, {two} STRING DEFAULT 'it\\'s', n INT) TBLPROPERTIES ('event-time' = '{name}')",
}
if not WORDS:
    KINDS |= {
        "key": "({one} STRING NOT NULL, {two} STRING NOT NULL, n INT) TBLPROPERTIES ('primary-key' = '{both}')",
        "one_key": "({one} STRING NOT NULL, {two} STRING, n INT DEFAULT 7) TBLPROPERTIES ('primary-key' = '{alone}')",
        "entries": "({one} STRING NOT NULL, {two} STRING NOT NULL, n INT) CLUSTERED BY ({one}) INTO 2 BUCKETS "
        "TBLPROPERTIES ('primary-key' = '{both}', 'table-type' = 'key-value', 'key-bytes' = '{bytes}')",
    }


CASES = [(kind, number) for turn, kind in enumerate(KINDS) for number in range(turn % 3, len(NAMES), 3)]
"""Of each kind some names, each name in some kinds: a table of each would take a minute."""


def statement(kind: str, table: str, one: str, two: str) -> str:
    def text(of: str) -> str:
        return of.replace("'", "\\'")

    words = {
        "one": quoted(one),
        "two": quoted(two),
        "alone": text(listed([one])),
        "both": text(listed([one, two])),
        "braced": text(f"{{{listed([one])}}}/{{{listed([two])}}}"),
        "bytes": text(f"{listed([one])}=20"),
        "name": text(one),
    }
    return f"CREATE TABLE {table} {KINDS[kind].format(**words)}"


def wrong(spark: SparkSession, namespace: str, case: tuple[str, int]) -> str | None:
    """What is wrong with a table of a kind, one of whose columns has one of the names; None where nothing is."""
    kind, number = case
    one, two = NAMES[number], NAMES[(number + 3) % len(NAMES)]
    table, again = f"{namespace}.{kind}_{number}", f"{namespace}.{kind}_{number}_again"
    try:
        spark.sql(statement(kind, table, one, two))
        ((shown,),) = spark.sql(f"SHOW CREATE TABLE {table}").collect()
        spark.sql(shown.replace(f"{kind}_{number}", f"{kind}_{number}_again"))
        ((shown_again,),) = spark.sql(f"SHOW CREATE TABLE {again}").collect()
        assert shown_again.replace(f"{kind}_{number}_again", f"{kind}_{number}") == shown
        assert spark.table(again).schema == spark.table(table).schema
        if kind in ("key", "entries"):
            assert ("PRIMARY KEY" if WORDS else "'primary-key'") in shown
            for n in (1, 2):
                spark.sql(f"INSERT INTO {again} VALUES ('k', 'l', {n})")
            where = f"{quoted(one)} = 'k' AND {quoted(two)} = 'l'"
            assert spark.sql(f"SELECT n FROM {again} WHERE {where}").collect() == [(2,)]
    except Exception as error:
        return f"{kind}, {one!r} and {two!r}: {str(error)[:300]}"
    return None


def test_what_show_create_table_says_makes_the_table_again(spark: SparkSession, namespace: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(partial(wrong, spark, namespace), CASES)
        assert [one for one in found if one is not None] == []


COPIES = ("again",) if is_missing("4.2") else ("again", "like")
KEYED = {"primary-key": "id"}
LAKE = {"lake": "iceberg"}
RECORDS = {**KEYED, "row-column": "after", "operation-column": "op"}
PROPERTIES: dict[str, tuple[str, dict[str, str]]] = {
    "format": ("json", {}),
    "compression": ("gzip", {}),
    "encoding-header": ("false", {"format": "json"}),
    "mode": ("permissive", {}),
    "bad-events": ("stream:a.b", {}),
    "schema-type": ("com.acme.Order", {}),
    "compatibility": ("FullTransitive", {}),
    "primary-key": ("id", {}),
    "operation-column": ("op", KEYED),
    "delete-values": ("d,r", KEYED),
    "upsert-value": ("u", {**KEYED, "operation-column": "op"}),
    "row-column": ("after", {**RECORDS, "delete-values": "d", "retention": "1 days"}),
    "deleted-row-column": ("before", RECORDS),
    "compact-when": ("64 MiB", KEYED),
    "routing-key": ("<{id}/{name}>", {}),
    "writer-mode": ("at-least-once", {}),
    "cluster-by-key": ("true", {"routing-key": "id"}),
    "event-time": ("id", {}),
    "isolation-level": ("snapshot", {}),
    "truncate-with-next-write": ("true", {}),
    "history": ("30 days", {}),
    "index-columns": ("id,name", {}),
    "version-every": ("1 minute", {}),
    "lake": ("iceberg", {}),
    "lake-after": ("1 hour", LAKE),
    "lake-keep-in-stream": ("1 day", LAKE),
    "lake-file-size": ("64 MiB", LAKE),
    "lake-row-group-size": ("4 MiB", LAKE),
    "lake-partitioned-by": ("bucket(16, id), truncate(4, name)", LAKE),
    "lake-sorted-by": ("name DESC, id NULLS LAST", LAKE),
    "segments": ("3", {}),
    "scaling": ("100 events/s", {}),
    "scale-factor": ("4", {"scaling": "100 events/s"}),
    "retention": ("7 days", {}),
    "retention-limit": ("30 days", {"retention": "7 days"}),
    "tags": ("a, b", {}),
    "rollover-size": ("64 MiB", {}),
}
"""Each property with a value, and what goes with it."""


def test_each_property_is_in_the_product() -> None:
    assert PROPERTIES.keys() == OWN_PROPERTIES | STREAM_PROPERTIES


def of(spark: SparkSession, table: str) -> dict[str, str]:
    return {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}


def wrong_with(spark: SparkSession, namespace: str, case: tuple[str, str]) -> str | None:
    """What is wrong with the copies of a table with a property; None where nothing is."""
    name, table_format = case
    value, more = PROPERTIES[name]
    table = f"{namespace}.{name.replace('-', '_')}_{table_format}"
    given = {"format": table_format, **more, name: value}
    try:
        words = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
        spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, name STRING) TBLPROPERTIES ({words})")
        ((shown,),) = spark.sql(f"SHOW CREATE TABLE {table}").collect()
        properties = of(spark, table)
        assert properties[name] == value
        spark.sql(shown.replace(table.split(".")[-1], f"{table.split('.')[-1]}_again"))
        if "like" in COPIES:
            spark.sql(f"CREATE TABLE {table}_like LIKE {table}")
        for copy in COPIES:
            assert of(spark, f"{table}_{copy}") == properties, copy
            assert spark.table(f"{table}_{copy}").schema == spark.table(table).schema
        if "row-column" in given:
            assert spark.table(f"{table}_again").collect() == []
            return None
        spark.sql(f"INSERT INTO {table}_again VALUES (1, 'a'), (2, 'b')")
        if "primary-key" in given:
            spark.sql(f"DELETE FROM {table}_again WHERE id = 1")
            assert spark.sql(f"SELECT id FROM {table}_again").collect() == [(2,)]
    except Exception as error:
        return f"{name}, {table_format}: {str(error)[:300]}"
    return None


def test_each_property_is_made_again(spark: SparkSession, namespace: str) -> None:
    cases = [(name, "avro") for name in PROPERTIES]
    cases += [(name, kind) for name in ("schema-type", "row-column", "upsert-value") for kind in ("json", "protobuf")]
    with ThreadPoolExecutor(4) as threads:
        assert [one for one in threads.map(partial(wrong_with, spark, namespace), cases) if one is not None] == []


def test_change_records_of_another_program_are_made_again(spark: SparkSession, namespace: str) -> None:
    """A table that became one of change records: its copies have the same columns and properties, and no rows."""
    table = f"{namespace}.records"
    row = "STRUCT<id: BIGINT, name: STRING>"
    spark.sql(f"CREATE TABLE {table} (before {row}, after {row}, op STRING, at BIGINT)")
    words = "'row-column' = 'after', 'deleted-row-column' = 'before', 'operation-column' = 'op', 'delete-values' = 'd'"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('primary-key' = 'id', {words})")
    ((shown,),) = spark.sql(f"SHOW CREATE TABLE {table}").collect()
    spark.sql(shown.replace("records", "records_again"))
    if "like" in COPIES:
        spark.sql(f"CREATE TABLE {table}_like LIKE {table}")
    for copy in COPIES:
        assert of(spark, f"{table}_{copy}") == of(spark, table)
        assert spark.table(f"{table}_{copy}").schema == spark.table(table).schema
        assert spark.table(f"{table}_{copy}").collect() == []
