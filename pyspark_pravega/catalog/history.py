"""CHANGES between versions, and statements that would change the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.ledger import Ledger, open_ledger
from pyspark_pravega.connector.travel import commit_of, last_commit
from pyspark_pravega.errors import ConfigurationError, UnsupportedOperationError, VersionNotFoundError

_INSTEAD = {
    "DELETE": "TRUNCATE TABLE empties it, CALL truncate removes what is older than a version, and the property "
    '"retention" does that by itself',
    "UPDATE": "INSERT a newer row and read the latest one of each key (a view can), or make a new table AS SELECT",
    "MERGE": "INSERT the new rows and read the latest one of each key (a view can), or make a new table AS SELECT",
}


class History(CatalogBase):
    """A stream is appended to; its past can be looked at."""

    def changes(self, stream: Stream, bounds: Mapping[str, Any]) -> tuple[int, int]:
        """The versions between two bounds.

        Args:
            stream: the stream.
            bounds: `from_version` and `to_version`, or `from_timestamp` and `to_timestamp` in microseconds, the latter
                of each None for the last version; and `from_inclusive`, `to_inclusive`.

        Returns:
            The first version and the last one; the last one is less where there are none between.

        Raises:
            VersionNotFoundError: a version was never there.
            ConfigurationError: a version isn't a commit's number, or the end lies before the start.
        """
        ledger = open_ledger(self.client, stream)
        last = 0 if ledger is None else ledger.state().version
        if ledger is None or last == 0:
            raise VersionNotFoundError(
                f'stream "{stream}" has no changes to tell: nothing was committed to it through this package'
            )
        if "from_version" in bounds:
            first = _version(ledger, stream, bounds["from_version"])
            end = last if bounds["to_version"] is None else _version(ledger, stream, bounds["to_version"])
            if end < first:
                raise ConfigurationError(f'version {end} of stream "{stream}" comes before version {first}')
            return first + (not bounds["from_inclusive"]), end - (not bounds["to_inclusive"])
        if "from_timestamp" not in bounds:
            return 1, last
        before = _count_until(ledger, bounds["from_timestamp"], inclusive=not bounds["from_inclusive"])
        if bounds["to_timestamp"] is not None:
            last = _count_until(ledger, bounds["to_timestamp"], inclusive=bounds["to_inclusive"])
        return before + 1, last

    def refuse_row_level(self, namespace: Sequence[str], table: str, command: str) -> NoReturn:
        """Refuse to change rows in place.

        Args:
            namespace: the table's namespace.
            table: its name.
            command: `DELETE`, `UPDATE` or `MERGE`.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(
            f'{command} isn\'t possible on stream "{stream_of(namespace, table)}": events are only ever appended, and '
            f"never changed in place. {_INSTEAD[command]}"
        )


def _version(ledger: Ledger, stream: Stream, text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise ConfigurationError(
            f'CHANGES of stream "{stream}" are told between commits: "{text[:60]}" isn\'t the number of one'
        )
    number = int(text)
    return number if number == 0 else commit_of(ledger, stream, number).version


def _count_until(ledger: Ledger, microseconds: int, *, inclusive: bool) -> int:
    """How many versions there were at a time."""
    # Commits know their time in milliseconds.
    milliseconds = microseconds // 1000
    if not inclusive and microseconds % 1000 == 0:
        milliseconds -= 1
    commit = last_commit(ledger, milliseconds)
    return 0 if commit is None else commit.version
