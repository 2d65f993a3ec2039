"""Which rows are taken for an answer to a query that leaves some of it open."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from benchmarks.answers import Expected, agree, is_answer, unlimited
from benchmarks.queries import asked

SORTED = [(("a", 1), (1,)), (("b", 2), (2,)), (("c", 3), (2,)), (("c", 3), (2,)), (("d", 4), (3,))]
"""Rows with what they are sorted by: three of them are a tie."""
A, B, C, D = ("a", 1), ("b", 2), ("c", 3), ("d", 4)


@pytest.mark.parametrize(
    ("rows", "right"),
    [
        ([A, B, C, C, D], True),
        ([A, C, B, C, D], True),
        ([A, C, C, B], True),
        ([A, B, C], True),
        ([A, C, C], True),
        ([A], True),
        ([], True),
        ([B, A, C], False),
        ([A, B, B], False),
        ([A, C, C, C], False),
        ([A, B, C, D], False),
        ([A, C, C, D, B], False),
        ([A, B, ("c", 4)], False),
        ([A, B, C, C, D, D], False),
    ],
)
def test_rows_of_a_tie_come_in_any_order_and_are_chosen_where_the_limit_cuts_it(
    rows: list[tuple[str, int]], right: bool
) -> None:
    assert is_answer(rows, len(rows), SORTED) == right
    assert not is_answer(rows, len(rows) + 1, SORTED)


def test_only_floating_point_numbers_may_differ_and_only_a_little() -> None:
    assert agree([(1.0, None, math.nan)], [(1.0 + 1e-12, None, math.nan)])
    assert not agree([(1.0,)], [(1.0 + 1e-6,)])
    assert not agree([(Decimal("1.000000000001"),)], [(Decimal("1"),)])
    assert not agree([(1.0,)], [(None,)])
    assert not agree([(1,)], [(1,), (1,)])
    near = [((1.0 + 1e-12, "a"), (0.5,)), ((1.0, "b"), (0.5 + 1e-12,))]
    assert is_answer([(1.0, "b"), (1.0, "a")], 2, near)
    assert not is_answer([(1.0, "b"), (1.1, "a")], 2, near)


@pytest.mark.spark
def test_what_a_query_sorts_by_is_known_also_where_it_doesn_t_give_it(spark: SparkSession) -> None:
    wide = "WITH w AS (SELECT id, id % 3 AS a, id % 2 AS b FROM range(12)) "
    for text in (
        wide + "SELECT id FROM w ORDER BY a DESC, CASE WHEN a = 0 THEN b END LIMIT 5",
        wide + "SELECT a, b, count(*) FROM w GROUP BY a, b ORDER BY sum(id % 2), a LIMIT 5",
        wide + "SELECT id, a AS id FROM w ORDER BY a, b LIMIT 5",
        "SELECT id % 5 FROM range(12) LIMIT 3",
        "SELECT id % 5 AS a FROM range(12) ORDER BY a",
    ):
        rows, frame, _ = asked(spark, "spark_catalog.default", text)
        whole = unlimited(frame)
        assert is_answer(rows, len(rows), whole), text
        assert all(len(key) == text.partition("ORDER BY")[2].count(",") + ("ORDER BY" in text) for _, key in whole)
    text = "SELECT id FROM range(12) ORDER BY id % 3, id % 2 LIMIT 3"
    rows, frame, _ = asked(spark, "spark_catalog.default", text)
    expected = Expected(rows, frame)
    assert expected.holds([(0,), (6,), (3,)])
    assert not expected.holds([(0,), (3,), (6,)])
