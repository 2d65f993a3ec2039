"""Versions of what others write, in SQL: beside versions of commits, and in tables with and without a key."""

from __future__ import annotations

from typing import Any

import pytest
from changes_tools import changes_in
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

CONTENT = {
    1: {(1, "a"), (2, "b"), (3, "c")},
    2: {(1, "a"), (2, "b"), (3, "c"), (4, "d")},
    3: {(1, "a"), (2, "b"), (3, "c"), (4, "d"), (1, "A"), (5, "e")},
}
"""The rows of each version, of a table without a key."""


@pytest.mark.parametrize("key", ["", "'primary-key' = 'id', "], ids=["no key", "key"])
@pytest.mark.in_turn
def test_versions_of_others_lie_between_those_of_commits(spark: SparkSession, namespace: str, key: str) -> None:
    """What is appended without a commit is what others write: no version tells of it until one is taken."""
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ({key}'segments' = '2')")

    def append(rows: str) -> None:
        spark.sql(f"INSERT INTO {table} WITH ('writer-mode' = 'at-least-once') VALUES {rows}")

    def taken() -> tuple[int, int]:
        row = spark.sql(f"CALL pravega.system.take_version(table => '{table.removeprefix('pravega.')}')").first()
        assert row is not None
        return row[0], row[1]

    def ask(query: str) -> list[Any]:
        return [tuple(row) for row in spark.sql(query).collect()]

    def wanted(version: int) -> set[tuple[int, str]]:
        rows = CONTENT[version]
        return rows - {(1, "a")} if key and (1, "A") in rows else rows

    append("(1, 'a'), (2, 'b'), (3, 'c')")
    assert taken()[0] == 1
    spark.sql(f"INSERT INTO {table} VALUES (4, 'd')")
    append("(1, 'A'), (5, 'e')")
    version, grown = taken()
    assert version == 3
    assert grown > 0
    assert taken() == (3, 0)
    append("(6, 'f')")

    for version in CONTENT:
        rows = ask(f"SELECT * FROM {table} VERSION AS OF {version}")
        assert set(rows) == wanted(version)
        assert ask(f"SELECT count(*) FROM {table} VERSION AS OF {version}") == [(len(rows),)]
    assert set(ask(f"SELECT * FROM {table}")) == wanted(3) | {(6, "f")}
    assert ask(f"SELECT count(*) FROM {table}") == [(len(wanted(3)) + 1,)]
    assert ask(f"SELECT version, rows FROM `{'`.`'.join(table.split('.')[:-1])}`.`t$commits` ORDER BY version") == [
        (1, None),
        (2, 1),
        (3, None),
    ]

    changed = [(1, "a", "update_preimage", 3), (1, "A", "update_postimage", 3)] if key else [(1, "A", "insert", 3)]
    expected = {(4, "d", "insert", 2), (5, "e", "insert", 3), *changed}
    read = "SELECT id, v, _change_type, _commit_version FROM"
    assert set(ask(f"{read} {changes_in(table, 2, 3)}")) == expected
    assert set(ask(f"{read} {changes_in(table, 1, 3)}")) == expected | {(*row, "insert", 1) for row in CONTENT[1]}
