"""What procedures take and give, as Spark asks for it when it analyses a CALL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """What a procedure takes."""

    name: str
    type: str
    """As SQL says it."""
    comment: str
    default: str | None = None
    """A literal of SQL; None when the argument must be given."""
    columns: bool = False
    """Whether it is a list of columns, which comes parsed."""
    condition: bool = False
    """Whether it is a condition of SQL, which the session parses before the procedure is called."""


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """A procedure."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    columns: str
    """The columns of its result, as SQL says them."""
