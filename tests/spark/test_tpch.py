"""A sample of TPC-H over streams of each format and tables with keys, each beside Parquet: rows and plans."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from benchmarks import tpch
from benchmarks.queries import MIXED, PARQUET, asked, load
from benchmarks.shapes import shape

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(8)]

SCALE = 0.002
QUERIES = ("q1", "q3", "q4", "q9", "q10", "q13", "q15", "q16", "q21", "q22")
"""Correlated and scalar subqueries, a view that is read twice, an outer join, NOT IN, EXISTS, DISTINCT."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """One of its own: it has another namespace."""
    return spark.newSession()


@pytest.fixture(scope="module")
def names(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    texts = [tpch.queries(SCALE)[query] for query in QUERIES]
    spaces = load(session, tmp_path_factory.mktemp("tpch"), "tpch", [MIXED], scale=SCALE, queries=texts)
    yield spaces
    for name in spaces.values():
        session.sql(f"DROP NAMESPACE {name} CASCADE")


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_tpch_gives_parquets_rows_by_parquets_plan(
    session: SparkSession, names: dict[str, str], query: str
) -> None:
    text = tpch.queries(SCALE)[query]
    expected, parquet, _ = asked(session, names[PARQUET], text)
    rows, frame, _ = asked(session, names[MIXED], text)
    assert rows == expected
    assert expected or query == "q21"
    ours, theirs = shape(frame), shape(parquet)
    assert (ours.scans, ours.broadcasts) == (theirs.scans, theirs.broadcasts)
    assert ours.reused >= theirs.reused
