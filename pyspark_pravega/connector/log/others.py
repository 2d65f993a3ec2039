"""Versions of what others have written: where a stream ended at a time, noted in its commit log.

Such a version has no transactions. Its cut holds all events that were there when it was noted.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_pravega import values
from pyspark_pravega.client import Client
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.entries import OTHERS, Intent, State
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.connector.log.recovery import settle
from pyspark_pravega.connector.log.tail import behind, take_tail
from pyspark_pravega.deadlines import Limit
from pyspark_pravega.errors import ConfigurationError, ConflictError, UnavailableError

VERSION_EVERY = "version-every"
LEAST_S = 1.0
_PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A version that says where a stream ends."""

    version: int
    cut: dict[int, int]
    """Segment id to offset in bytes."""
    bytes: int
    """What was written since the version before, frames included; 0 where nothing was, and so none was noted."""


def version_every(text: str) -> float:
    """Read the property: the seconds between two versions.

    Raises:
        ConfigurationError: it is no time, or less than a second.
    """
    seconds = values.duration(VERSION_EVERY, text)
    if seconds < LEAST_S:
        raise ConfigurationError(f'"{VERSION_EVERY}" must be at least 1 second, not "{text[:60]}"')
    return seconds


def note_others(client: Client, ledger: Ledger, state: State) -> Taken | None:
    """Note a version when a stream has grown since the last one, or has none.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        state: its state.

    Returns:
        None when a commit is in progress, or the stream scales: then try again.

    Raises:
        ConflictError: the log has changed since: another writer has committed a version.
    """
    tail = None if state.pending is not None else take_tail(client, ledger.stream)
    if tail is None:
        return None
    last = next((commit.cut for commit in ledger.commits([state.version] if state.version else [])), {})
    added = behind(tail, last).size if last else tail.size
    if state.version and not added:
        return Taken(version=state.version, cut=last, bytes=0)
    intent = Intent(job=OTHERS, transactions=(), rows=0, bytes=added, started_at=now_ms())
    # The tail was taken before: whatever is in it was written until this time.
    noted = ledger.complete(state, committed_at=now_ms(), cut=tail.cut, without_rows=intent)
    return Taken(version=noted.version, cut=tail.cut, bytes=added)


def take_version(client: Client, ledger: Ledger) -> Taken:
    """Note a version now, whatever others commit meanwhile.

    Args:
        client: the cluster.
        ledger: the stream's commit log.

    Returns:
        The version; the last one where nothing was written since.

    Raises:
        UnavailableError: the stream is scaled, or committed to, all the time.
    """
    patience = max(_PATIENCE_S, client.settings.timeout)
    limit = Limit(patience)
    while True:
        try:
            taken = note_others(client, ledger, settle(client, ledger))
        except ConflictError:
            taken = None
        if taken is not None:
            return taken
        if not limit.wait():
            raise UnavailableError(
                f'no version of stream "{ledger.stream}" could be noted within {patience:g} s: it is scaled, or '
                "committed to, all the time"
            )
