"""Versions of what others write: noted in the background of the catalog process, for tables that ask for it."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from pyspark_pravega.client import Stream
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import note_others, open_ledger
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition, TableProperties
from pyspark_pravega.errors import AuthenticationError, ConfigurationError, ConflictError, NotFoundError, PravegaError
from pyspark_pravega.settings import Settings

_MOST = 1_000
"""How many tables one process samples. It says so when there are more."""
_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class _Sampled:
    settings: Settings
    due: float
    """By `time.monotonic`."""
    every: float
    """Seconds."""


class Sampling:
    """The tables that are sampled: those with the property `version-every` that the process was asked about.

    Several processes may sample a table: the second one finds the version of the first. Safe for use by several
    threads.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._changed = threading.Condition()
        self._tables: dict[tuple[str, Stream], _Sampled] = {}
        self._refused: set[tuple[str, Stream]] = set()
        self._running = False
        self._is_full = False

    def consider(self, definition: TableDefinition) -> None:
        """Sample a table from now on, if it asks for that.

        Args:
            definition: the table.
        """
        table = (definition.settings.controller_uri, definition.stream)
        try:
            every = definition.properties.version_every
        except ConfigurationError as error:
            # The table can be shown and altered all the same.
            if table not in self._refused:
                self._refused.add(table)
                _log.warning('versions of stream "%s" aren\'t noted: %s', definition.stream, error)
            return
        if every is None:
            return
        with self._changed:
            known = self._tables.get(table)
            if known is not None and known.every == every:
                return
            if known is None and len(self._tables) >= _MOST:
                if not self._is_full:
                    self._is_full = True
                    _log.warning(
                        'this process notes no versions of stream "%s", as it does so of %d others: '
                        "call take_version, or use another process",
                        definition.stream,
                        _MOST,
                    )
                return
            self._is_full = False
            self._tables[table] = _Sampled(settings=definition.settings, due=time.monotonic(), every=every)
            self._changed.notify()
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="versions", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._tables:
                    self._running = False
                    return
                table, sampled = min(self._tables.items(), key=lambda item: item[1].due)
                wait = sampled.due - time.monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
            due = self._sample(table[1], sampled)
            with self._changed:
                if self._tables.get(table) is not sampled:
                    continue
                if due is None:
                    del self._tables[table]
                else:
                    sampled.due = time.monotonic() + due

    def _sample(self, stream: Stream, sampled: _Sampled) -> float | None:
        """Note a version, if it is time for one.

        Returns:
            In how many seconds the next look is due; None for never.
        """
        try:
            return sample(sampled.settings, stream)
        except ConflictError:
            # Another process has just made a version.
            return sampled.every
        except (NotFoundError, AuthenticationError) as error:
            _log.warning('versions of stream "%s" aren\'t noted any more: %s', stream, error)
            return None
        except PravegaError as error:
            _log.warning('a version of stream "%s" could not be noted; the next one is tried: %s', stream, error)
            return sampled.every
        except Exception:
            _log.exception('a version of stream "%s" could not be noted; the next one is tried', stream)
            return sampled.every


def sample(settings: Settings, stream: Stream) -> float | None:
    """Note a version of a stream, if its property `version-every` says that it is time for one.

    Args:
        settings: where the cluster is, and who asks.
        stream: the stream.

    Returns:
        In how many seconds the next look is due; None when the table doesn't ask for versions any more.

    Raises:
        ConflictError: another process has just made a version.
        PravegaError: it can't be done.
    """
    client = shared_client(settings)
    ledger = open_ledger(client, stream)
    properties, state = ({}, None) if ledger is None else ledger.properties_and_state()
    every = TableProperties(properties, of=f'stream "{stream}"').version_every
    if ledger is None or state is None or every is None:
        return None
    age = every if state.committed_at is None else (now_ms() - state.committed_at) / 1000
    # Where another machine's clock is ahead, its versions are younger than they can be.
    if 0 <= age < every:
        return every - age
    note_others(client, ledger, state)
    return every
