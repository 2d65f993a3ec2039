"""Tables with keys: each form of MERGE, subqueries, a table that is its own source, and WHERE on keys of each type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

SOURCE = "(SELECT * FROM VALUES (2L, 20, 'yy', 7), (4L, 40, 'ww', 8) AS v(id, a, b, c)) s"
EVOLVE, MERGE = "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING ", "MERGE INTO {t} t USING "
ON, STARS = " ON t.id = s.id ", " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
FIRST = [(1, 1, "x"), (2, 2, "y"), (3, 3, "z")]
EVOLVING = pytest.mark.since_spark("4.2")
STATEMENTS: dict[str, list[tuple[str, list[Any]]]] = {
    "new and wider columns": [
        (EVOLVE + SOURCE + STARS, [(1, 1, "x", None), (2, 20, "yy", 7), (3, 3, "z", None), (4, 40, "ww", 8)]),
        # What the source doesn't have stays.
        (
            f"{EVOLVE} (SELECT explode(array(2L, 5L)) AS id, 5000000000L AS a) s {STARS}",
            [
                (1, 1, "x", None),
                (2, 5 * 10**9, "yy", 7),
                (3, 3, "z", None),
                (4, 40, "ww", 8),
                (5, 5 * 10**9, None, None),
            ],
        ),
    ],
    "rows that the source doesn't have": [
        (
            f"{MERGE} {SOURCE} {ON} WHEN NOT MATCHED BY SOURCE AND t.a > 2 THEN UPDATE SET a = -t.a "
            "WHEN NOT MATCHED BY SOURCE THEN DELETE",
            [(2, 2, "y"), (3, -3, "z")],
        ),
        (
            f"{MERGE} {SOURCE} {ON} WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id, s.a) "
            "WHEN NOT MATCHED BY SOURCE THEN DELETE",
            [(2, 2, "y"), (4, 40, None)],
        ),
        (
            f"{MERGE} {SOURCE} ON false WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 'all'",
            [(2, 2, "all"), (4, 40, "all")],
        ),
        (f"{MERGE} (SELECT 1L AS id WHERE false) s {ON} WHEN NOT MATCHED BY SOURCE THEN DELETE", []),
    ],
    "rows that ON hides": [
        (
            f"{MERGE} {SOURCE} {ON} AND t.a > 2 WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (s.id, s.a, s.b)",
            [(1, 1, "x"), (2, 20, "yy"), (3, 3, "z"), (4, 40, "ww")],
        ),
    ],
    "subqueries": [
        (
            "UPDATE {t} SET a = (SELECT max(a) * 10 FROM {t}) WHERE id IN (SELECT min(id) FROM {t})",
            [(1, 30, "x"), *FIRST[1:]],
        ),
        (
            "UPDATE {t} SET b = NULL WHERE id NOT IN (SELECT id FROM {t} WHERE b = 'x')",
            [(1, 30, "x"), (2, 2, None), (3, 3, None)],
        ),
        (
            "DELETE FROM {t} t WHERE NOT EXISTS (SELECT 1 FROM {t} u WHERE u.id > t.id)",
            [(1, 30, "x"), (2, 2, None)],
        ),
        ("DELETE FROM {t} WHERE id = (SELECT max(id) FROM {t} WHERE b IS NULL)", [(1, 30, "x")]),
    ],
    "its own source": [
        (
            f"{MERGE} (SELECT id + 1 AS id, a, b FROM {{t}}) s {ON} WHEN MATCHED THEN UPDATE SET a = s.a + t.a "
            "WHEN NOT MATCHED THEN INSERT *",
            [(1, 1, "x"), (2, 3, "y"), (3, 5, "z"), (4, 3, "z")],
        ),
        (
            f"{MERGE} {{t}} s {ON} WHEN MATCHED AND s.a = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.a * 2",
            [(2, 6, "y"), (3, 10, "z"), (4, 6, "z")],
        ),
        (f"{MERGE} (SELECT * FROM {{t}} VERSION AS OF 1) s {STARS} WHEN NOT MATCHED BY SOURCE THEN DELETE", FIRST),
        ("INSERT OVERWRITE {t} SELECT id + 10, a, b FROM {t} WHERE id <> 2", [(11, 1, "x"), (13, 3, "z")]),
    ],
}


@pytest.mark.parametrize("what", [pytest.param("new and wider columns", marks=EVOLVING), *list(STATEMENTS)[1:]])
def test_what_a_statement_leaves(spark: SparkSession, namespace: str, what: str) -> None:
    t = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {t} (id BIGINT NOT NULL, a INT, b STRING) TBLPROPERTIES ('primary-key' = 'id', 'segments' = '3')"
    )
    spark.sql(f"INSERT INTO {t} VALUES {str(FIRST)[1:-1]}")
    for statement, expected in STATEMENTS[what]:
        spark.sql(statement.format(t=t))
        assert [tuple(row) for row in spark.table(t).orderBy("id").collect()] == expected, statement


@EVOLVING
def test_columns_of_structs_and_what_spark_refuses(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} (id BIGINT NOT NULL, s STRUCT<x: INT>) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql(f"INSERT INTO {t} VALUES (1, named_struct('x', 1)), (2, NULL)")
    source = "(SELECT explode(array(1L, 5L)) AS id, named_struct('x', 9, 'y', 'new') AS s) s"
    spark.sql(EVOLVE.format(t=t) + source + STARS)
    rows = {row.id: row.s and tuple(row.s) for row in spark.table(t).collect()}
    assert rows == {1: (9, "new"), 2: None, 5: (9, "new")}
    with pytest.raises(AnalysisException, match="UNSUPPORTED_CORRELATED_SCALAR_SUBQUERY"):
        spark.sql(f"UPDATE {t} t SET s = (SELECT max(s) FROM {t} u WHERE u.id < t.id)")


KEYS: dict[str, tuple[list[str], list[str]]] = {
    "CHAR(4)": (
        ["'a'", "'b   '", "'abcd'"],
        ["k = 'a'", "k = 'a   '", "k IN ('a', 'b')", "k = 'b '", "k LIKE 'a%'"],
    ),
    "VARCHAR(4)": (["'a'", "'a '", "'abcd'"], ["k = 'a'", "k = 'a '", "k IN ('a', 'b')"]),
    "STRING": (
        ["'5'", "'05'", "'6'"],
        ["k = 5", "k = '5'", "k <=> '5'", "k = '6' OR k = '5'", "upper(k) = '6'", "k COLLATE UTF8_LCASE = '6'"],
    ),
    "DECIMAL(10,2)": (
        ["1.5", "-0.01", "100"],
        ["k = 1.5", "k = 1.500", "k = 100", "k = 100.001", "k IN (1.5, 100)", "k = 1.5D", "k = '1.5'", "k = -0.01"],
    ),
    "INT": (
        ["1", "2", "-1"],
        ["k = 1L", "k = 1.0", "k = '1'", "k IN (1, 2L)", "k = 1.5", "k = 5000000000", "k = 1 OR k = -1", "NOT k = 1"],
    ),
    "DATE": (
        ["DATE'2026-01-02'", "DATE'0001-01-01'", "DATE'9999-12-31'"],
        [
            "k = '2026-01-02'",
            "k = TIMESTAMP'2026-01-02 00:00:00'",
            "k IN (DATE'0001-01-01', DATE'9999-12-31')",
            "year(k) = 2026",
        ],
    ),
    "TIMESTAMP": (
        ["TIMESTAMP'2026-01-02 03:04:05.5'", "TIMESTAMP'1900-01-01 00:00:00.000001'"],
        [
            "k = '2026-01-02 03:04:05.5'",
            "k = TIMESTAMP'1900-01-01 00:00:00.000001'",
            "k = TIMESTAMP_NTZ'2026-01-02 03:04:05.5'",
            "date(k) = '2026-01-02'",
        ],
    ),
    "BOOLEAN": (["true", "false"], ["k", "NOT k", "k = true", "k = 'true'", "k IN (true)"]),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.in_turn(8)
def test_conditions_on_keys_find_what_they_find_in_parquet(
    spark: SparkSession, namespace: str, tmp_path: Path, kind: str
) -> None:
    """Values of other types and spellings, too, of which Spark makes conditions of its own."""
    t, parquet, (values, conditions) = f"{namespace}.t", "spark_catalog.default.rows_by_key", KEYS[kind]
    rows = ", ".join(f"({value}, {number})" for number, value in enumerate(values))
    spark.sql(f"CREATE TABLE {t} (k {kind} NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'k', 'segments' = '4')")
    spark.sql(f"DROP TABLE IF EXISTS {parquet}")
    spark.sql(f"CREATE TABLE {parquet} (k {kind}, v INT) USING parquet LOCATION '{tmp_path / 'rows'}'")
    try:
        for table in (t, parquet):
            spark.sql(f"INSERT INTO {table} VALUES {rows}")
        numbers = {number: number for number in range(len(values))}
        for condition in conditions:
            found = sorted(row.v % 100 for row in spark.sql(f"SELECT v FROM {t} WHERE {condition}").collect())
            wanted = sorted(row.v for row in spark.sql(f"SELECT v FROM {parquet} WHERE {condition}").collect())
            assert found == wanted, condition
            spark.sql(f"UPDATE {t} SET v = v + 100 WHERE {condition}")
            numbers = {number: v + 100 * (number in wanted) for number, v in numbers.items()}
            assert sorted(row.v for row in spark.table(t).collect()) == sorted(numbers.values()), condition
    finally:
        spark.sql(f"DROP TABLE {parquet}")


CHECKS = {
    "there": "v IS NOT NULL",
    "few": "coalesce(v, -1) >= 0 AND v < 100 -- and not more",
    "own": "v <=> w OR w > v",
    "whole": "NOT (isnull(v) AND isnull(w))",
}
"""Conditions that aren't true of a row of which only the key is known."""
PAIRS = "(SELECT * FROM VALUES (1L, 10), (2L, {second}), (7L, 70) AS x(id, v)) s ON t.id = s.id"
CHANGING: list[tuple[str, dict[int, int]]] = [
    ("UPDATE {t} SET v = 5, w = 5 WHERE id = 1", {1: 5}),
    ("UPDATE {t} SET v = v + 1, w = w + 1 WHERE id IN (2, 3)", {2: 3, 3: 4}),
    (
        f"MERGE INTO {{t}} t USING {PAIRS} WHEN MATCHED THEN UPDATE SET v = s.v, w = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, v, w) VALUES (s.id, s.v, s.v)",
        {1: 10, 2: 20, 7: 70},
    ),
    (f"MERGE INTO {{t}} t USING {PAIRS} WHEN MATCHED AND t.id = 7 THEN DELETE", {7: 0}),
    (f"MERGE INTO {{t}} t USING {PAIRS} WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN DELETE", {4: 0}),
    ("DELETE FROM {t} WHERE id = 5 OR v > 1000", {5: 0}),
]
"""Statements, and what they make of some keys; 0 for none."""
VIOLATING = [
    "UPDATE {t} SET v = NULL WHERE id = 2",
    "UPDATE {t} SET v = 100, w = 100",
    "UPDATE {t} SET v = 9, w = 8 WHERE id = 3",
    "INSERT INTO {t} VALUES (9, NULL, 9)",
    f"MERGE INTO {{t}} t USING {PAIRS} WHEN MATCHED THEN UPDATE SET v = s.v, w = s.v",
    f"MERGE INTO {{t}} t USING {PAIRS} WHEN MATCHED AND t.id = 1 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET v = s.v, w = s.v WHEN NOT MATCHED THEN INSERT (id, v, w) VALUES (s.id, s.v, s.v)",
]


@pytest.mark.since_spark("4.1")
@pytest.mark.parametrize("kind", ["", "TBLPROPERTIES ('table-type' = 'key-value')"], ids=["keyed", "key-value"])
def test_rows_that_change_are_held_against_checks_and_deletions_are_not(
    spark: SparkSession, namespace: str, kind: str
) -> None:
    t = f"{namespace}.checked"
    checks = ", ".join(f"CONSTRAINT {name} CHECK ({condition}\n)" for name, condition in CHECKS.items())
    spark.sql(f"CREATE TABLE {t} (id BIGINT NOT NULL, v INT, w INT, PRIMARY KEY (id) NOT ENFORCED, {checks}) {kind}")
    expected = {number: number for number in range(1, 7)}
    spark.sql(f"INSERT INTO {t} VALUES {', '.join(f'({n}, {n}, {n})' for n in expected)}")

    def rows() -> dict[int, int]:
        return {row.id: row.v for row in spark.table(t).where("v = w").collect()}

    for statement, changes in CHANGING:
        spark.sql(statement.format(t=t, second=20))
        expected = {key: value for key, value in (expected | changes).items() if value}
        assert rows() == expected, statement
    for statement in VIOLATING:
        with pytest.raises(PySparkException, match="CHECK_CONSTRAINT_VIOLATION"):
            spark.sql(statement.format(t=t, second=2000))
        assert rows() == expected, statement


@pytest.mark.parametrize("kind", ["stream", "key-value"])
def test_of_values_with_one_key_the_last_one_wins(spark: SparkSession, namespace: str, kind: str) -> None:
    """Spark would give each row a task of its own, and the tasks' rows have no order. Keys lie in all segments."""
    t = f"{namespace}.t"
    more = "'partitions' = '2'" if kind == "key-value" else "'segments' = '2'"
    spark.sql(
        f"CREATE TABLE {t} (id INT NOT NULL, v INT, d DATE) "
        f"TBLPROPERTIES ('primaryKey' = 'id', 'tableType' = '{kind}', {more})"
    )
    rows = [(number % 4, number) for number in range(24)]
    for values in (
        ", ".join(f"({key}, {v}, NULL)" for key, v in rows),
        ", ".join(f"({key}, {v + 100}, current_date())" for key, v in rows),
    ):
        spark.sql(f"INSERT INTO {t} VALUES {values}")
        assert {row.id: row.v % 100 for row in spark.table(t).collect()} == dict(rows)
    if kind == "stream":
        spark.sql(f"INSERT OVERWRITE {t} (v, id, d) SELECT v, k, NULL FROM VALUES (1, 1), (2, 1), (3, 1) s(v, k)")
        assert [(row.id, row.v) for row in spark.table(t).collect()] == [(1, 3)]
