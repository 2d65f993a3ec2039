"""Names of tables as users write them: `namespace.table` by SQL's names, or `scope/stream` by Pravega's."""

from __future__ import annotations

import re

from pyspark_pravega.client import Stream
from pyspark_pravega.client.names import check_name
from pyspark_pravega.errors import InvalidNameError

_PARTS = re.compile(r"\s*(?:`([^`]+)`|([^.`]+))\s*(\.|$)")


def to_pravega(kind: str, name: str) -> str:
    """The Pravega name behind a name in SQL.

    Args:
        kind: "scope" or "stream", for the message.
        name: the name in SQL, in either spelling.

    Raises:
        InvalidNameError: Pravega can't hold it.
    """
    return check_name(kind, name.replace("_", "-"))


def stream_of_table(text: str, *, scope: str | None = None, catalog: str | None = None) -> Stream:
    """The stream behind a table's name.

    Args:
        text: `table`, `namespace.table`, `catalog.namespace.table`, or `scope/stream`. A part with a dot stands in
            backticks, as in SQL. `_` and `-` are the same.
        scope: that of a name without one.
        catalog: which catalog a name of three parts may begin with; None for any.

    Raises:
        InvalidNameError: it names no table, or one of its parts can't be Pravega's.
    """
    namespace, slash, name = text.strip().partition("/")
    parts = [namespace, name] if slash else parts_of(text)
    if len(parts) == 3 and catalog in (None, parts[0]):
        parts = parts[1:]
    if len(parts) == 1 and scope is not None:
        parts = [scope, *parts]
    if len(parts) != 2 or not all(parts):
        raise InvalidNameError(
            f'"{text[:100]}" names no table: write namespace.table, or scope/stream where a name holds a dot'
        )
    return Stream(to_pravega("scope", parts[0]), to_pravega("stream", parts[1]))


def parts_of(text: str) -> list[str]:
    """The parts of a name between its dots; none where it is no name.

    Args:
        text: the name; a part that holds a dot stands in backticks.
    """
    parts, at = [], 0
    while match := _PARTS.match(text, at):
        parts.append((match[1] or match[2]).strip())
        at = match.end()
        if not match[3]:
            return parts if at == len(text) else []
    return []
