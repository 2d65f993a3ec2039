"""Between the names of SQL and those of Pravega.

Pravega's names can't hold `_`, and SQL's can't hold `-` without backticks: `_` in SQL is `-` in Pravega and the other
way round, so both spellings of a name mean the same object, and listings show `_`. That holds at a name's beginning,
too: Pravega's own streams and scopes, whose names do begin with `_`, have no name in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.table_names import to_pravega
from pyspark_pravega.errors import InvalidNameError

__all__ = ["scope_of", "stream_of", "to_pravega", "to_sql"]


def to_sql(name: str) -> str:
    """The name in SQL of a scope or stream."""
    return name.replace("-", "_")


def scope_of(namespace: Sequence[str]) -> str:
    """The scope behind a namespace.

    Args:
        namespace: its parts; there must be exactly one.

    Raises:
        InvalidNameError: there are more parts, or the name can't be a scope's.
    """
    if len(namespace) != 1:
        raise InvalidNameError(
            f'namespace "{".".join(namespace)}" has {len(namespace)} parts: a Pravega scope has one '
            "(a name that holds a dot needs backticks)"
        )
    return to_pravega("scope", namespace[0])


def stream_of(namespace: Sequence[str], table: str) -> Stream:
    """The stream behind a table.

    Args:
        namespace: the parts of the table's namespace.
        table: the table's name.

    Raises:
        InvalidNameError: one of the names can't be Pravega's.
    """
    return Stream(scope_of(namespace), to_pravega("stream", table))
