"""CHANGES over thousands of versions of a stream with many segments."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from catalog_tools import make
from changes_tools import changes_in
from long_logs import FIRST_COMMITTED_MS, spread_over_versions
from pyspark.sql import SparkSession

from pyspark_pravega.catalog.catalog import Catalog

pytestmark = [pytest.mark.server, pytest.mark.spark]

VERSIONS, SEGMENTS, ROWS = 9_000, 32, 310_000


@pytest.mark.in_turn(8)
def test_changes_over_thousands_of_versions_are_planned_and_read_beside_inserts(
    spark: SparkSession, catalog: Catalog, scope: str
) -> None:
    """The plan was one text of more than Jackson takes, so the catalog process of all sessions was ended."""
    counts = spread_over_versions(catalog, make(catalog, scope, "t", segments=SEGMENTS), ROWS, VERSIONS)
    other = f"pravega.`{scope}`.other"
    spark.sql(f"CREATE TABLE {other} (id BIGINT)")

    def insert(number: int) -> float:
        began = time.monotonic()
        spark.newSession().sql(f"INSERT INTO {other} VALUES ({number})")
        return time.monotonic() - began

    def seconds(taken: list[float]) -> str:
        return ", ".join(f"{one:.2f}" for one in taken)

    alone = [insert(number) for number in range(3)]
    began = time.monotonic()
    with ThreadPoolExecutor(1) as thread:
        changes = thread.submit(
            spark.sql(
                "SELECT _commit_version, unix_millis(_commit_timestamp), count(*), sum(id), count(DISTINCT id) "
                f"FROM {changes_in('pravega.`' + scope + '`.t', 1)} GROUP BY 1, 2"
            ).collect
        )
        beside = [insert(3 + number) for number in range(3)]
        rows = changes.result()
    print(f"INSERT alone {seconds(alone)} s, beside CHANGES {seconds(beside)} s")
    print(f"CHANGES {time.monotonic() - began:.1f} s")
    assert {row[0]: row[2] for row in rows} == counts
    assert {row[1] - row[0] for row in rows} == {FIRST_COMMITTED_MS}
    assert sum(row[3] for row in rows) == ROWS * (ROWS - 1) // 2
    assert sum(row[4] for row in rows) == ROWS
    assert spark.table(other).count() == 6
    some = spark.sql(f"SELECT version, rows FROM pravega.`{scope}`.`t$commits` WHERE version >= 40 AND version < 43")
    assert {row.version: row.rows for row in some.collect()} == {number: counts[number] for number in (40, 41, 42)}
    newest = spark.sql(f"SELECT * FROM pravega.`{scope}`.`t$commits` ORDER BY committed_at DESC LIMIT 5000").collect()
    assert [row.version for row in newest] == list(range(VERSIONS, VERSIONS - 5000, -1))
    # Answers of more than a line should have: 9,000 cuts of 32 segments.
    commits = spark.table(f"pravega.`{scope}`.`t$commits`").collect()
    assert [row.version for row in commits] == list(range(1, VERSIONS + 1))
    assert {len(row.offsets) for row in commits} == {SEGMENTS}
