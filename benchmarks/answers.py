"""Whether two answers to a query agree, as far as its text says what they are.

Many queries sort by fewer columns than would put their rows into one order, and take the first hundred: which rows
these are, and in which order rows of equal keys come, is left to whoever answers. So an answer is held against all rows
that the query would give without its LIMIT, together with the values that it sorts them by. Rows of equal values make a
tie. An answer has to have the rows of the first tie in any order, then those of the next, and may choose only within
the tie in which LIMIT ends. Without ORDER BY all rows are one tie.

Sums of floating-point numbers depend on the order of their parts: such numbers are equal where they differ by no more
than a billionth. All other values have to be the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.classic.column import Column

Row = tuple[Any, ...]


class Expected:
    """What a query has to give."""

    def __init__(self, rows: Sequence[Row], frame: DataFrame) -> None:
        """Take somebody's answer.

        Args:
            rows: they are it.
            frame: the query, over tables that have the same rows.
        """
        self.rows = rows
        self._frame = frame

    def holds(self, rows: Sequence[Row]) -> bool:
        """Whether other rows are an answer, too.

        Args:
            rows: they are in question.
        """
        return agree(rows, self.rows) or is_answer(rows, len(self.rows), self._whole)

    @cached_property
    def _whole(self) -> list[tuple[Row, Row]]:
        return unlimited(self._frame)


def agree(rows: Sequence[Row], other: Sequence[Row]) -> bool:
    """Whether two answers have the same rows in the same order.

    Args:
        rows: one answer.
        other: the other one.
    """
    return len(rows) == len(other) and all(map(_close, rows, other))


def is_answer(rows: Sequence[Row], size: int, whole: Sequence[tuple[Row, Row]]) -> bool:
    """Whether rows are an answer to a query.

    Args:
        rows: they are in question.
        size: how many rows an answer has.
        whole: as `unlimited` returns.
    """
    if len(rows) != size or size > len(whole):
        return False
    at = 0
    for tie in _ties(whole):
        # The last tie may be longer than what is left.
        if not _are_among(rows[at : at + len(tie)], tie):
            return False
        at += len(tie)
        if at >= size:
            break
    return True


def unlimited(frame: DataFrame) -> list[tuple[Row, Row]]:
    """What a query gives without its LIMIT.

    Args:
        frame: the query.

    Returns:
        Each row with the values that it is sorted by, in this order; these are none where the query doesn't sort.
    """
    spark = frame.sparkSession
    java: Any = spark._jvm
    plan = frame._jdf.queryExecution().analyzed()
    shared = None
    if _kind(plan) == "WithCTE":
        shared, plan = plan.cteDefs(), plan.plan()
    while _kind(plan) in ("GlobalLimit", "LocalLimit"):
        plan = plan.child()
    columns = _items(plan.output())
    if _kind(plan) == "Project" and _kind(plan.child()) == "Sort":
        columns, plan = _items(plan.projectList()), plan.child()
    keys = [order.child() for order in _items(plan.order())] if _kind(plan) == "Sort" else []
    if shared is not None:
        plan = java.org.apache.spark.sql.catalyst.plans.logical.WithCTE(plan, shared)
    sorted_rows = java.org.apache.spark.sql.classic.Dataset.ofRows(frame._jdf.sparkSession(), plan)
    utilities = java.org.apache.spark.sql.classic.ExpressionUtils
    wanted = [Column(utilities.column(expression)) for expression in [*columns, *keys]]
    rows = DataFrame(sorted_rows, spark).select(*wanted).collect()
    return [(tuple(row[: len(columns)]), tuple(row[len(columns) :])) for row in rows]


def _ties(whole: Sequence[tuple[Row, Row]]) -> Iterator[list[Row]]:
    """Rows of equal keys."""
    number, before = 0, whole[0][1] if whole else ()
    numbered = []
    for row, key in whole:
        number += not _close(key, before)
        before = key
        numbered.append((number, row))
    for _, tie in groupby(numbered, key=lambda one: one[0]):
        yield [row for _, row in tie]


def _are_among(rows: Sequence[Row], tie: Sequence[Row]) -> bool:
    """Whether each of these rows is one of the others, as often as it is there."""
    left: dict[Row, list[Row]] = defaultdict(list)
    for row in tie:
        left[_exact(row)].append(row)
    for row in rows:
        alike = left[_exact(row)]
        at = next((at for at, other in enumerate(alike) if _close(row, other)), None)
        if at is None:
            return False
        del alike[at]
    return True


def _exact(row: Row) -> Row:
    """What of a row has to be the same."""
    return tuple(None if isinstance(value, float) else value for value in row)


def _close(row: Row, other: Row) -> bool:
    return len(row) == len(other) and all(map(_equal, row, other))


def _equal(one: Any, other: Any) -> bool:
    if not isinstance(one, float) or not isinstance(other, float):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))


def _kind(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _items(seq: Any) -> list[Any]:
    return [seq.apply(at) for at in range(seq.size())]
