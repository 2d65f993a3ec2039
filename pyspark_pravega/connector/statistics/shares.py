"""Which share of a table's rows meets a condition, by the statistics of its columns.

The condition is a tree, as of `connector.index.conditions`. What it says of different columns is taken to be
independent. A wrong estimate costs time: where it is too small, Spark may broadcast a table that is too large. So where
nothing is known, at least `LEAST_GUESS` of the rows is taken to be wanted, and rows that came behind the statistics may
be what was never seen before.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from pyspark_pravega.connector.index import Condition, behind_prefix, literal
from pyspark_pravega.connector.statistics.kept import ColumnStatistics
from pyspark_pravega.spark.types import BinaryType, DataType, StructType

LEAST_GUESS = 0.25
"""The least share that conditions leave of which nothing is known, however many they are."""
_GUESS = 0.5
"""What one of them leaves."""
PREFIX = 32
"""How many characters of a text, or bytes, statistics keep."""
_FEW = 10
"""A column with at least that many rows for each value isn't one of ever new values."""
_UNSEEN = 0.0005
"""The share of rows whose values chance may have passed over, when statistics were taken of some."""
_INTERPOLATED_BYTES = 7


class Share(NamedTuple):
    """What comes of a condition; it is neither for rows of which it is unknown, as with nulls."""

    true: float
    """The share of rows for which it holds."""
    false: float
    """The share of rows for which it doesn't hold."""


_ANYTHING = Share(1.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Among:
    """The rows of a table."""

    schema: StructType
    """The table's columns."""
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    """By the columns' names."""
    rows: int | None = None
    """About how many there are now; None where that isn't known."""


def wanted_share(condition: Condition, among: Among) -> float:
    """About which share of a table's rows meets a condition.

    Args:
        condition: what Spark tells of the query's.
        among: the table's rows.

    Returns:
        From 0 to 1.
    """
    if condition is None:
        return 1.0
    kinds = {one.name: one.dataType for one in among.schema}
    columns = {
        name: _Column(one, kinds[name], among.rows)
        for name, one in among.statistics.items()
        if name in kinds and one.rows
    }
    # Where nothing is known of a column, once all of its rows may be wanted, and once some are left out.
    known = _share(condition, columns, 1.0).true
    guessed = _share(condition, columns, _GUESS).true
    return min(1.0, max(guessed, known * LEAST_GUESS))


def _share(condition: Condition, columns: Mapping[str, _Column], guess: float) -> Share:
    if condition is None:
        return _ANYTHING
    if "all" in condition:
        parts = _of_all(condition["all"], columns, guess)
        return Share(math.prod(part.true for part in parts), 1 - math.prod(1 - part.false for part in parts))
    if "any" in condition:
        parts = [_share(part, columns, guess) for part in condition["any"]]
        return Share(1 - math.prod(1 - part.true for part in parts), math.prod(part.false for part in parts))
    if "not" in condition:
        true, false = _share(condition["not"], columns, guess)
        return Share(false, true)
    column, comparison = columns.get(condition["column"]), condition["comparison"]
    share = None if column is None else column.share(comparison, condition["values"])
    if share is not None:
        return share
    # That a column isn't null, or isn't some value, says little.
    if comparison in ("IS_NOT_NULL", "<>"):
        return Share(1.0, guess)
    return Share(guess, guess if comparison in ("<", "<=", ">", ">=") else 1.0)


def _of_all(parts: Sequence[Condition], columns: Mapping[str, _Column], guess: float) -> list[Share]:
    """What comes of conditions that hold at once. Those of one column are taken together."""
    by_column: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    shares = []
    for part in parts:
        if part is not None and part.get("column") in columns:
            by_column[part["column"]].append(part)
        elif part is not None and "all" in part:
            shares.extend(_of_all(part["all"], columns, guess))
        else:
            shares.append(_share(part, columns, guess))
    for name, some in by_column.items():
        shares.append(_of_column(columns[name], some, columns, guess))
    return shares


def _of_column(
    column: _Column, parts: Sequence[Mapping[str, Any]], columns: Mapping[str, _Column], guess: float
) -> Share:
    shares = [(part["comparison"], _share(part, columns, guess)) for part in parts]
    least = min(share.true for _, share in shares)
    above = [share.true for comparison, share in shares if comparison in (">", ">=")]
    below = [share.true for comparison, share in shares if comparison in ("<", "<=")]
    if above and below:
        both = min(above) + min(below) - column.values
        least = min(least, max(both, min(column.rare, least)))
    return Share(least, max(0.0, min(1.0, 1 - least)))


@dataclass
class _Column:
    """A column's values, among the rows that there are now."""

    kept: ColumnStatistics
    kind: DataType
    rows: int | None

    @cached_property
    def values(self) -> float:
        """The share of rows that have one."""
        return 1 - self.kept.nulls / self.kept.rows

    @cached_property
    def new(self) -> float:
        """The share of rows that came behind the statistics, or more."""
        return 0.0 if self.rows is None or self.rows <= self.kept.rows else 1 - self.kept.rows / self.rows

    @cached_property
    def common(self) -> dict[Any, float]:
        """Frequent values, and the share of rows that have each."""
        return {self._value(value): share for value, share in self.kept.common}

    @cached_property
    def rest(self) -> float:
        """The share of rows that have other values."""
        rest = self.values - sum(self.common.values())
        has_others = (self.kept.distinct or 0) > len(self.common)
        return max(rest, min(_UNSEEN, self.values) if has_others else 0.0)

    @cached_property
    def rare(self) -> float:
        """The share of rows that have one of the other values."""
        distinct = self.kept.distinct or 1
        if self.rows is not None and distinct * _FEW > self.kept.rows:
            # Of a column of ever new values there are as many more as rows.
            distinct = round(distinct * max(1.0, self.rows / self.kept.rows))
        return self.rest / max(1, distinct - len(self.common))

    @cached_property
    def bounds(self) -> list[Any]:
        return [self._value(value) for value in self.kept.bounds]

    @cached_property
    def least(self) -> Any:
        return self._value(self.kept.least)

    @cached_property
    def greatest(self) -> Any:
        return self._value(self.kept.greatest)

    def _value(self, shown: Any) -> Any:
        """A value in the form in which they are compared; None where it isn't one of the column's type."""
        if isinstance(shown, str):
            shown = shown[: 2 * PREFIX if isinstance(self.kind, BinaryType) else PREFIX]
        return None if shown is None else literal(shown, self.kind)

    def share(self, comparison: str, values: Sequence[Any]) -> Share | None:
        """What comes of a comparison; None where that isn't known."""
        if comparison in ("IS_NULL", "IS_NOT_NULL"):
            null = 1 - self.values
            is_null = Share(null or self.new, self.values)
            return is_null if comparison == "IS_NULL" else Share(is_null.false, null)
        compared = [self._value(value) for value in values]
        if not compared or None in compared or comparison not in _COMPARISONS:
            return None
        if not self.values:
            return Share(self.new, self.new)
        if comparison in ("=", "<=>", "<>", "IN"):
            if self.kept.distinct is None:
                return None
            equal = min(self.values, sum(self._equal(value) for value in set(compared)))
            if comparison == "<=>":
                return Share(equal, 1 - equal)
            return Share(self.values - equal, equal) if comparison == "<>" else Share(equal, self.values - equal)
        true = self._range(comparison, compared[0])
        return None if true is None else Share(true, max(0.0, self.values - true))

    def _equal(self, value: Any) -> float:
        if value in self.common:
            return self.common[value]
        if self.least is None or self.least <= value <= self.greatest:
            return self.rare
        has_few = (self.kept.distinct or 1) * _FEW <= self.kept.rows
        # A new value of a column of few, as a day, may be that of all new rows.
        return self.new if has_few else min(self.rare, self.new)

    def _range(self, comparison: str, value: Any) -> float | None:
        if self.least is None or self.greatest is None or (self.rest > LEAST_GUESS / 10 and not self.bounds):
            return None
        if comparison == "STARTS_WITH":
            if not isinstance(value, bytes):
                return None
            behind = behind_prefix(value)
            among = (self.values if behind is None else self._below(behind, False)) - self._below(value, False)
            is_there = self.least[: len(value)] <= value <= self.greatest
            return max(among, self.rare) if is_there else max(among, self.new)
        if comparison in ("<", "<="):
            below = self._below(value, comparison == "<=")
            return max(below, self.new) if value < self.least else below
        above = self.values - self._below(value, comparison == ">")
        # What is new is often later, or greater, than all before.
        return above * (1 - self.new) + self.new

    def _below(self, value: Any, inclusive: bool) -> float:
        """The share of rows that have a lesser value; or this one, too."""
        if value > self.greatest or (inclusive and value == self.greatest):
            return self.values
        if value < self.least:
            return 0.0
        common = sum(share for other, share in self.common.items() if other < value or (inclusive and other == value))
        return common + self.rest * self._place(value, inclusive)

    def _place(self, value: Any, inclusive: bool) -> float:
        """Which share of the values that aren't frequent is less than one."""
        bounds = self.bounds
        if len(bounds) < 2:
            return _GUESS
        behind = (bisect_right if inclusive else bisect_left)(bounds, value)
        if not 0 < behind < len(bounds):
            return 0.0 if behind == 0 else 1.0
        low, high = bounds[behind - 1], bounds[behind]
        return (behind - 1 + _between(low, high, value)) / (len(bounds) - 1)


def _between(low: Any, high: Any, value: Any) -> float:
    """Where a value lies between two others, from 0 to 1."""
    if isinstance(low, bytes):
        same = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
        low, high, value = (
            int.from_bytes(one[same : same + _INTERPOLATED_BYTES].ljust(_INTERPOLATED_BYTES, b"\0"))
            for one in (low, high, value)
        )
    elif isinstance(low, tuple):
        low, high, value = (math.nan if is_nan else number for is_nan, number in (low, high, value))
    width = float(high - low)
    return min(1.0, max(0.0, float(value - low) / width)) if math.isfinite(width) and width > 0 else _GUESS


_COMPARISONS = frozenset({"=", "<=>", "<>", "IN", "<", "<=", ">", ">=", "STARTS_WITH"})
