"""What Spark tells of a query's condition, to save what it needn't read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Predicate:
    """A column that is compared with values."""

    column: str
    comparison: str
    """Spark's name of it, such as `=` or `IN`."""
    values: tuple[Any, ...]
    """Dates are days and timestamps microseconds since 1970, decimals texts, BINARY hexadecimal texts."""


Predicates = Sequence[Predicate]
"""Those that hold all at once."""
