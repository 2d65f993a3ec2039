"""Columns and fields that are dropped and come back, and those that are moved: one rule for all formats."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession
from since import is_missing

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

FORMATS = ("avro", "json", "protobuf")
TYPES = {"INT": (11, 12), "STRING": ("a", "b"), "BIGINT": (5_000_000_000, 6)}
"""Types of a column, and values of rows before and behind."""


def value(kind: str, index: int) -> str:
    one = TYPES[kind][index]
    return f"CAST('{one}' AS {kind})"


@pytest.mark.in_turn(8)
def test_a_column_that_comes_back_is_another_one(spark: SparkSession, namespace: str) -> None:
    """Whatever its type was, earlier rows have NULL in it: by ALTER, and by a write that brings it; at each version."""
    cases = [
        ("avro", "INT", "STRING"),
        ("avro", "BIGINT", "BIGINT"),
        ("json", "INT", "STRING"),
        ("json", "INT", "INT"),
        ("json", "BIGINT", "INT"),
        ("protobuf", "STRING", "INT"),
        ("protobuf", "INT", "INT"),
    ]

    def run(number: int) -> None:
        table_format, before, after = cases[number]
        table, nested = f"{namespace}.t{number}", table_format != "protobuf"
        keyed = "'primary-key' = 'id', " if number % 2 else ""
        spark.sql(
            f"CREATE TABLE {table} (id INT NOT NULL, v {before}, s STRUCT<x: {before}, y: INT>) "
            f"TBLPROPERTIES ({keyed}'format' = '{table_format}')"
        )
        rows: dict[int, tuple[Any, ...]] = {}

        def insert(row: int, kind: str, index: int) -> None:
            # A field of a message within a message stays.
            within = kind if nested else before
            here, there = value(kind, index), value(within, index)
            row_of = f"SELECT {row} AS id, {here} AS v, named_struct('y', 7, 'x', {there}) AS s"
            spark.sql(f"INSERT INTO {table} BY NAME {row_of}")
            rows[row] = (TYPES[kind][index], TYPES[within][index])

        def dropped() -> None:
            spark.sql(f"ALTER TABLE {table} DROP COLUMN v")
            if nested:
                spark.sql(f"ALTER TABLE {table} DROP COLUMN s.x")
            rows.update({row: (None, None if nested else x) for row, (_, x) in rows.items()})

        def check() -> None:
            for suffix in ("", " VERSION AS OF 1"):
                found = {
                    row.id: (row.v, row.x) for row in spark.sql(f"SELECT id, v, s.x FROM {table}{suffix}").collect()
                }
                assert found == {row: rows[row] for row in found}, (cases[number], suffix)
                assert len(found) == (len(rows) if not suffix else 1)

        insert(1, before, 0)
        dropped()
        spark.sql(f"ALTER TABLE {table} ADD COLUMN v {after}")
        if nested:
            spark.sql(f"ALTER TABLE {table} ADD COLUMN s.x {after}")
        check()
        insert(2, after, 1)
        check()
        # A field that is moved or has a comment stays what it is.
        if nested:
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN v FIRST")
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN v COMMENT 'again'")
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN s.x FIRST")
            check()
        dropped()
        brought = f"SELECT 3 AS id, {value('STRING', 0)} AS v" + (
            f", named_struct('x', {value('STRING', 1)}, 'y', 7) AS s" if nested else ""
        )
        if is_missing("4.2"):
            spark.sql(f"ALTER TABLE {table} ADD COLUMN v STRING")
            if nested:
                spark.sql(f"ALTER TABLE {table} ADD COLUMN s.x STRING")
            kept = "" if nested else f", named_struct('y', 7, 'x', CAST(NULL AS {before})) AS s"
            spark.sql(f"INSERT INTO {table} BY NAME {brought}{kept}")
        elif keyed:
            spark.sql(
                f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING ({brought}) r ON t.id = r.id "
                "WHEN NOT MATCHED THEN INSERT *"
            )
        else:
            spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME {brought}")
        rows[3] = (TYPES["STRING"][0], TYPES["STRING"][1] if nested else None)
        check()
        if keyed:
            spark.sql(f"CALL pravega.system.compact('{table.removeprefix('pravega.')}')")
            found = {row.id: (row.v, row.x) for row in spark.sql(f"SELECT id, v, s.x FROM {table}").collect()}
            assert found == rows

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(len(cases))))


def test_a_column_stands_where_it_was_put(spark: SparkSession, namespace: str) -> None:
    """By-position INSERTs land in it; also where nothing else changes, in structs, and in tables with a key."""

    def run(case: tuple[str, str, str]) -> None:
        table_format, null, keyed = case
        table = f"{namespace}.{table_format}{'_nn' if null else ''}{'_k' if keyed else ''}"
        spark.sql(
            f"CREATE TABLE {table} (id INT {null}, v INT, s STRUCT<x: INT, y: STRING>) "
            f"TBLPROPERTIES ({keyed}'format' = '{table_format}')"
        )
        spark.sql(f"INSERT INTO {table} VALUES (1, 10, named_struct('x', 100, 'y', 'a'))")
        for change in ("v FIRST", "s AFTER v", "s.y FIRST", "id AFTER v") if not keyed else ("v FIRST", "s.y FIRST"):
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN {change}")
        rows = spark.table(table)
        assert rows.columns == ["v", "id", "s"], case
        assert dict(rows.dtypes)["s"] == "struct<y:string,x:int>", case
        spark.sql(f"INSERT INTO {table} VALUES (20, 2, named_struct('y', 'b', 'x', 200))")
        expected = [(10, 1, ("a", 100)), (20, 2, ("b", 200))]
        assert sorted(tuple(row) for row in spark.table(table).collect()) == expected, case

    cases = list(itertools.product(("avro", "json"), ("", "NOT NULL"), ("",)))
    cases += [(table_format, "NOT NULL", "'primary-key' = 'id', ") for table_format in ("avro", "json")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, cases))
