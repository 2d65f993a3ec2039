"""What Spark tells of a query's condition, to save what it needn't read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict


class Predicate(TypedDict):
    """A column that is compared with values."""

    column: str
    comparison: str
    """Spark's name of it, such as `=` or `IN`."""
    values: Sequence[Any]
    """Dates are days and timestamps microseconds since 1970, decimals texts, BINARY hexadecimal texts."""


Predicates = Sequence[Predicate]
"""Those that hold all at once."""
