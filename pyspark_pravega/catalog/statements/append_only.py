"""Statements that would change the past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.connector.table import CHANGES, LOG
from pyspark_pravega.errors import UnsupportedOperationError

_INSTEAD = {
    "DELETE": "TRUNCATE TABLE empties it, CALL truncate removes what is older than a version, and the property "
    '"retention" does that by itself; rows of a table with a PRIMARY KEY can be deleted',
    "UPDATE": "INSERT a newer row and read the latest one of each key (a view can), or make a new table AS SELECT "
    "with a PRIMARY KEY, whose rows can change",
    "MERGE": "INSERT the new rows and read the latest one of each key (a view can), or make a new table AS SELECT "
    "with a PRIMARY KEY, whose rows can change",
}


class AppendOnly:
    """A stream is only ever appended to."""

    def refuse_row_level(self, namespace: Sequence[str], table: str, command: str) -> NoReturn:
        """Refuse to change rows in place.

        Args:
            namespace: the table's namespace.
            table: its name.
            command: `DELETE`, `UPDATE` or `MERGE`.

        Raises:
            UnsupportedOperationError: always.
        """
        if table.endswith(CHANGES):
            raise UnsupportedOperationError(
                f'{command} isn\'t possible on "{table}", which tells what versions have changed: change the rows of '
                f'"{table.removesuffix(CHANGES)}"'
            )
        if table.endswith(LOG):
            raise UnsupportedOperationError(
                f'{command} isn\'t possible on "{table}", the events of a table with a primary key: change the rows of '
                f'"{table.removesuffix(LOG)}"'
            )
        raise UnsupportedOperationError(
            f'{command} isn\'t possible on stream "{stream_of(namespace, table)}": events are only ever appended, and '
            f"never changed in place. {_INSTEAD[command]}"
        )

    def refuse_other_key(self, namespace: Sequence[str], table: str, column: str) -> NoReturn:
        """Refuse to give rows of a table with a key another one.

        Args:
            namespace: the table's namespace.
            table: its name.
            column: one of its key's, which would be changed.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(
            f'the statement would change the primary key of rows of "{stream_of(namespace, table)}" (column '
            f'"{column}"), where another row may be: DELETE the row, and INSERT it with its new key'
        )
