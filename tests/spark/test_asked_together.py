"""A query asks for all of its tables together, before Spark asks for each. What others have done to them before the
query began is seen by it, by whatever ways it names them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn
from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.client import RetentionPolicy, RetentionType

pytestmark = [pytest.mark.server, pytest.mark.spark]

KINDS = {
    "avro": "",
    "json": "TBLPROPERTIES ('format' = 'json', 'segments' = '3')",
    "keyed": "TBLPROPERTIES ('primary-key' = 'id')",
}
FORMS: dict[str, str] = {
    "join": "SELECT * FROM {a} a JOIN {b} b ON a.id = b.id JOIN {c} c ON a.id = c.id",
    "with": "WITH x AS (SELECT * FROM {a}), y AS (SELECT * FROM x JOIN {b} USING (id)) "
    "SELECT * FROM y JOIN {c} USING (id)",
    "subqueries": "SELECT * FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b WHERE b.id = a.id AND "
    "b.id <= (SELECT max(id) FROM {c}))",
    "itself": "SELECT * FROM {a} a JOIN {a} b ON a.id = b.id JOIN {c} c ON a.id = c.id",
    "union": "SELECT id FROM {a} UNION ALL SELECT id FROM {b} UNION ALL SELECT id FROM {c}",
    "one": "SELECT * FROM {c}",
}
"""Each has a row for each `id` that all tables have; a union has three."""


def names_of(form: str) -> list[str]:
    """The tables that a form names, as often as it gives their columns."""
    return {"with": ["a", "b", "c"], "subqueries": ["a"], "itself": ["a", "a", "c"], "one": ["c"]}.get(
        form, ["a", "b", "c"]
    )


def columns_of(form: str, columns: dict[str, list[str]]) -> list[str]:
    """Which columns it has, by the tables' own."""
    if form == "union":
        return ["id"]
    every = list(itertools.chain.from_iterable(columns[name] for name in names_of(form)))
    if form == "with":
        return ["id", *(name for name in every if name != "id")]
    return every


@pytest.mark.parametrize("names", ["whole", "of the namespace"])
def test_what_others_have_done_before_is_seen(
    spark: SparkSession, namespace: str, catalog: Catalog, names: str
) -> None:
    scope = namespace.removeprefix("pravega.")
    columns = {}
    for table, kind in zip("abc", KINDS.values(), strict=True):
        spark.sql(f"CREATE TABLE {namespace}.{table} (id BIGINT NOT NULL) {kind}")
        columns[table] = ["id"]
    places = {table: f"{namespace}.{table}" if names == "whole" else table for table in "abc"}
    spark.sql(f"USE {namespace}")
    count, rows = itertools.count(), 0
    try:
        for form, text in FORMS.items():
            for table in "abc":
                # Others, whom this session's process doesn't know: another column, and another row in all tables.
                added = f"n{next(count)}"
                catalog.altering.alter([scope], table, [AddColumn(column=(added,), type=LongType())])
                columns[table].append(added)
                answer = spark.sql(text.format(**places))
                assert answer.columns == columns_of(form, columns), form
                assert answer.count() == rows * (3 if form == "union" else 1), form
                for other in "abc":
                    spark.sql(f"INSERT INTO {places[other]} (id) VALUES ({rows})")
                rows += 1
    finally:
        spark.sql("USE spark_catalog.default")


def test_names_that_others_have_are_no_tables(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.a (id BIGINT)")
    spark.sql(f"CREATE TABLE {namespace}.b (id BIGINT)")
    spark.sql(f"INSERT INTO {namespace}.a VALUES (1)")
    spark.sql(f"INSERT INTO {namespace}.b VALUES (1), (2)")
    spark.sql(f"USE {namespace}")
    ways: dict[str, Callable[[], DataFrame]] = {
        "tables": lambda: spark.sql("SELECT count(*) FROM a CROSS JOIN b"),
        "WITH": lambda: spark.sql("WITH a AS (SELECT 1 id UNION ALL SELECT 2) SELECT count(*) FROM a CROSS JOIN b"),
        "AS OF": lambda: spark.sql("SELECT count(*) FROM a VERSION AS OF 1 CROSS JOIN b VERSION AS OF 1"),
    }
    expected = {"tables": 2, "WITH": 4, "AS OF": 2}
    try:
        assert {way: ask().collect()[0][0] for way, ask in ways.items()} == expected
        spark.range(5).createOrReplaceTempView("a")
        assert spark.sql("SELECT count(*) FROM a CROSS JOIN b").collect()[0][0] == 10
        spark.catalog.dropTempView("a")
        assert {way: ask().collect()[0][0] for way, ask in ways.items()} == expected
        with pytest.raises(Exception, match=r"TABLE_OR_VIEW_NOT_FOUND.*`c`"):
            spark.sql("SELECT count(*) FROM a CROSS JOIN c")
        # What was asked for in vain isn't given to anybody later.
        spark.sql("CREATE TABLE c (id BIGINT)")
        assert spark.sql("SELECT count(*) FROM a CROSS JOIN c").collect()[0][0] == 0
    finally:
        spark.sql("USE spark_catalog.default")


def test_what_others_keep_of_a_table_is_shown_as_it_is_now(
    spark: SparkSession, namespace: str, catalog: Catalog
) -> None:
    stream = stream_of([namespace.removeprefix("pravega.")], "a")
    spark.sql(f"CREATE TABLE {namespace}.a (id BIGINT)")
    table, controller = f"{namespace}.a", catalog.client.controller

    def shown() -> dict[str, str]:
        return {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}

    before = shown()
    assert before["compatibility"] == "Backward"
    assert "retention-ms" not in "".join(before)
    assert catalog.registry is not None
    catalog.registry.update_compatibility(stream.scope, stream.name, "AllowAny")
    assert shown() == {**before, "compatibility": "AllowAny"}
    kept = RetentionPolicy(retention_type=RetentionType.TIME, minimum=3_600_000)
    controller.update_stream(stream, lambda before: replace(before, retention=kept))
    after = shown()
    assert after != before
    assert after["compatibility"] == "AllowAny"
    assert after["retention"] == "1 hours"
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert "AllowAny" in described["Table Properties"]
