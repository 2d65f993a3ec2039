"""Procedures that Spark does a part of: each step is a statement that the session runs, and then they are asked again.

What has been done is in Pravega, never in this process. So it doesn't matter whether a CALL that goes on is the same
one, or a later one after everything has died.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pyspark_pravega.catalog.names import to_sql
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.indexing import Unindexed
from pyspark_pravega.connector.table import TableDefinition

Kind: TypeAlias = Literal["run", "fetch", "check"]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What Spark is to do next."""

    text: str
    """A statement of SQL."""
    kind: Kind = "run"
    """`run`; `fetch`, where its rows are wanted; or `check`: it is only analysed, so that what is wrong with it is told
    before anything begins."""
    after: Mapping[str, Any]
    """What the procedure is told when that is done."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What Spark's tasks are to read next; the procedure is told the rows, `connector.indexing.BLOCK_COLUMNS`."""

    definition: TableDefinition
    """The table."""
    wanted: Unindexed
    after: Mapping[str, Any]
    """As of `Statement`."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who has called a procedure."""

    catalog: str
    """The name of the catalog in the session."""
    after: Mapping[str, Any] = field(default_factory=dict)
    """`Statement.after` of the statement that was done just now; empty at the call's begin."""
    rows: Sequence[Mapping[str, Any]] = ()
    """The rows of that statement, where they were wanted."""

    def table(self, stream: Stream) -> str:
        """A stream's name in the session's SQL.

        Args:
            stream: the stream.
        """
        return ".".join(quoted(part) for part in (self.catalog, to_sql(stream.scope), to_sql(stream.name)))


Rows: TypeAlias = list[list[Any]]
Step: TypeAlias = Rows | Statement | Reading
"""A procedure's result, or what has to be done for it."""


def quoted(name: str) -> str:
    """A name in SQL, whatever it holds."""
    return f"`{name.replace('`', '``')}`"


def options_of(options: Mapping[str, str]) -> str:
    """Options of a table in SQL, `WITH (...)`.

    Args:
        options: keys and values, neither of which may hold a quote or a backslash.
    """
    assert not any(mark in text for item in options.items() for text in item for mark in "'\\")
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"WITH ({pairs})"
