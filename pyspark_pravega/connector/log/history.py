"""The versions of a commit log, and which of them it keeps: the table property `history`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark_pravega import values
from pyspark_pravega.client.key_value import ANY_VERSION
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.entries import Commit, commit_of
from pyspark_pravega.connector.log.json_table import JsonTable
from pyspark_pravega.connector.log.keys import commit_key
from pyspark_pravega.errors import ConfigurationError

HISTORY = "history"
LEAST_VERSIONS = 100
"""The last ones stay whatever the property says: who commits looks some of them up."""

_SWEPT_AT_ONCE, _MOST_SWEPT = 200, 10_000
"""How many versions are removed by one change, and by one sweep: a table whose `history` was made shorter is done with
many old ones by and by."""
_PROBES = 30


@dataclass(frozen=True, kw_only=True)
class History:
    """What is kept: a number of versions, or those of the last while."""

    versions: int | None = None
    milliseconds: int | None = None

    @classmethod
    def parse(cls, text: str) -> History:
        """Read the property.

        Args:
            text: a number of versions, `1000000`, or a time, `30 days`.

        Raises:
            ConfigurationError: it is neither.
        """
        if text.strip().isdigit():
            return cls(versions=values.number(HISTORY, text, least=LEAST_VERSIONS, unit="versions"))
        try:
            milliseconds = round(values.duration(HISTORY, text) * 1000)
        except ConfigurationError:
            milliseconds = 0
        if not milliseconds:
            raise ConfigurationError(
                f'"{HISTORY}" must be a number of versions like 1000000, or a time like 30 days, not "{text[:60]}"'
            )
        return cls(milliseconds=milliseconds)


def commits_of(table: JsonTable, versions: Iterable[int]) -> list[Commit]:
    """Completed versions, in the order asked for.

    Args:
        table: holds the log.
        versions: which ones; those that aren't there are left out.
    """
    return [commit_of(document.content) for document in table.get(*map(commit_key, versions)) if document is not None]


def first_commit(table: JsonTable, last: int) -> Commit | None:
    """The first version that is still known; None when there is none.

    The oldest go first, so it is searched for: a server takes a second to begin a list of some 100,000 keys.

    Args:
        table: holds the log.
        last: the last version.
    """
    low, high, first = 1, last, None
    while low < high or (first is None and low == high):
        numbers = sorted({low + (high - low) * step // _PROBES for step in range(_PROBES + 1)})
        known = commits_of(table, numbers)
        if not known:
            return None
        first = known[0]
        low, high = max((number + 1 for number in numbers if number < first.version), default=low), first.version
    return first


def forget_versions(table: JsonTable, last: int, history: History) -> None:
    """Remove the oldest versions. Others may do it at the same time.

    Args:
        table: holds the log.
        last: the last version.
        history: what is kept.
    """
    oldest = first_commit(table, last)
    begin = last if oldest is None else oldest.version
    stop = last + 1 - (LEAST_VERSIONS if history.versions is None else history.versions)
    for first in range(begin, min(stop, begin + _MOST_SWEPT), _SWEPT_AT_ONCE):
        gone = range(first, min(stop, begin + _MOST_SWEPT, first + _SWEPT_AT_ONCE))
        if history.milliseconds is not None:
            since = now_ms() - history.milliseconds
            kept = next((one.version for one in commits_of(table, gone) if one.committed_at >= since), None)
            gone = gone if kept is None else range(first, kept)
        if gone:
            table.remove(*((commit_key(version), ANY_VERSION) for version in gone))
        if len(gone) < _SWEPT_AT_ONCE:
            return
