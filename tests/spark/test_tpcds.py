"""A sample of TPC-DS over streams of each format, tables with keys and a lake, beside Parquet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from benchmarks import tpcds
from benchmarks.answers import Expected
from benchmarks.queries import LAKE, MIXED, PARQUET, asked, load

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(8, whole=True)]

SCALE = 0.01
QUERIES = {
    "q1": "a subquery that is correlated with a table of the statement",
    "q2": "a table beside itself a year later",
    "q9": "fifteen scalar subqueries",
    "q14a": "INTERSECT, three channels, ROLLUP, and what all of them share",
    "q36": "ranks within the levels of a ROLLUP",
    "q51": "sums so far, and a full outer join of them",
    "q60": "IN a subquery, and UNION ALL",
    "q77": "sums of sales beside those of returns",
    "q87": "EXCEPT",
    "q94": "EXISTS and NOT EXISTS",
}
"""None of them needs the two tables that are large at each scale."""


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """One of its own: it has another namespace, and a lake."""
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.pravega.lake.warehouse", str(tmp_path_factory.mktemp("lake")))
    return session


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {name: text for name, text in tpcds.queries().items() if name in QUERIES}


@pytest.fixture(scope="module")
def names(
    session: SparkSession, texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("tpcds")
    spaces = load(session, folder, "tpcds", [MIXED, LAKE], scale=SCALE, queries=texts.values())
    yield spaces
    for name in spaces.values():
        session.sql(f"DROP NAMESPACE {name} CASCADE")


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_tpcds_gives_parquets_rows(
    session: SparkSession, names: dict[str, str], texts: dict[str, str], query: str
) -> None:
    rows, frame, _ = asked(session, names[PARQUET], texts[query])
    assert rows
    expected = Expected(rows, frame)
    for kind in (MIXED, LAKE):
        assert expected.holds(asked(session, names[kind], texts[query])[0]), kind
