"""Whether rows of which only figures are known can meet a condition.

A condition is told as a tree (`Conditions.java`): `{"all": [...]}`, `{"any": [...]}`, `{"not": ...}`, and comparisons
`{"column": ..., "comparison": ..., "values": [...]}`; what can't be told so is null. Spark looks at each row again. So
a wrong yes costs time, and a wrong no costs rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from pyspark_pravega.connector.index.figures import Figures, IndexedColumn, behind_prefix, literal

Condition: TypeAlias = "Mapping[str, Any] | None"


class Possible(NamedTuple):
    """What may come of a condition among some rows; what it is for a row may also be unknown, as with nulls."""

    true: bool
    """For some row it may hold."""
    false: bool
    """For some row it may not hold."""


_ANYTHING = Possible(True, True)


def names_in(condition: Condition) -> Iterator[str]:
    """The columns that a condition compares.

    Args:
        condition: the condition.
    """
    if condition is None:
        return
    if "column" in condition:
        yield condition["column"]
    for part in (*condition.get("all", ()), *condition.get("any", ()), condition.get("not")):
        yield from names_in(part)


def values_of(condition: Condition, columns: Mapping[str, IndexedColumn]) -> Condition:
    """A condition whose values are in the form in which figures have them; what can't be is null.

    Args:
        condition: as it is told.
        columns: those that may have figures, by their names.
    """
    if condition is None:
        return None
    for several in ("all", "any"):
        if several in condition:
            return {several: [values_of(part, columns) for part in condition[several]]}
    if "not" in condition:
        return {"not": values_of(condition["not"], columns)}
    column = columns.get(condition["column"])
    if column is None:
        return None
    values: list[Any] = [literal(value, column.type) for value in condition["values"]]
    if None in values:
        return None
    return {**condition, "values": sorted(values) if condition["comparison"] == "IN" else values}


def possible(condition: Condition, figures: Mapping[str, Figures]) -> Possible:
    """What may come of a condition among some rows.

    Args:
        condition: as `values_of` gives it.
        figures: the rows' figures, by column.
    """
    if condition is None:
        return _ANYTHING
    if "all" in condition:
        parts = [possible(part, figures) for part in condition["all"]]
        return Possible(all(part.true for part in parts), any(part.false for part in parts))
    if "any" in condition:
        parts = [possible(part, figures) for part in condition["any"]]
        return Possible(any(part.true for part in parts), all(part.false for part in parts))
    if "not" in condition:
        true, false = possible(condition["not"], figures)
        return Possible(false, true)
    own, comparison, values = figures.get(condition["column"]), condition["comparison"], condition["values"]
    if own is None:
        return _ANYTHING
    if comparison in ("IS_NULL", "IS_NOT_NULL"):
        null, value = own.nulls > 0, own.values > 0
        return Possible(null, value) if comparison == "IS_NULL" else Possible(value, null)
    if comparison not in _COMPARISONS or not values:
        return _ANYTHING
    if not own.values:
        # A comparison with null is neither true nor false, but for this one.
        return Possible(False, comparison == "<=>")
    compared = _COMPARISONS[comparison](own, *values)
    return Possible(compared.true, True) if comparison == "<=>" and own.nulls else compared


# Values of a column lie in [least, greatest]; without a greatest one there's no upper bound.


def _reaches(own: Figures, value: Any) -> bool:
    """Whether a row may have this value, or a greater one."""
    return own.greatest is None or own.greatest >= value


def _passes(own: Figures, value: Any) -> bool:
    """Whether a row may have a greater value."""
    return own.greatest is None or own.greatest > value


def _less(own: Figures, value: Any) -> Possible:
    return Possible(own.least < value, _reaches(own, value))


def _at_most(own: Figures, value: Any) -> Possible:
    return Possible(own.least <= value, _passes(own, value))


def _equal(own: Figures, value: Any) -> Possible:
    holds = own.least <= value and _reaches(own, value)
    return Possible(holds, not own.least == value == own.greatest)


def _other(of: Callable[..., Possible]) -> Callable[..., Possible]:
    def opposite(own: Figures, value: Any) -> Possible:
        true, false = of(own, value)
        return Possible(false, true)

    return opposite


def _among(own: Figures, *values: Any) -> Possible:
    """Of values in their order: a join may tell thousands, and there may be thousands of blocks."""
    # Sets of floating-point numbers tell -0.0 from 0.0, unlike all other comparisons: so nothing is said of "not".
    behind = bisect_left(values, own.least)
    return Possible(behind < len(values) and _reaches(own, values[behind]), True)


def _begins(own: Figures, prefix: Any) -> Possible:
    behind, least, greatest = behind_prefix(prefix), own.least, own.greatest
    if not isinstance(least, bytes):
        return _ANYTHING
    everywhere = isinstance(greatest, bytes) and least.startswith(prefix) and greatest.startswith(prefix)
    return Possible(_reaches(own, prefix) and (behind is None or least < behind), not everywhere)


_COMPARISONS: Mapping[str, Callable[..., Possible]] = {
    "=": _equal,
    "<=>": _equal,
    "<>": _other(_equal),
    "<": _less,
    ">=": _other(_less),
    "<=": _at_most,
    ">": _other(_at_most),
    "IN": _among,
    "STARTS_WITH": _begins,
}
