"""Compactions that commits start: in the background of the catalog process, one at a time."""

from __future__ import annotations

import logging
import threading

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.write import WritePlan, compact_if_due
from pyspark_pravega.errors import PravegaError, WriteConflictError
from pyspark_pravega.settings import Settings

_MOST_WAITING = 1_000
_log = logging.getLogger(__name__)


class Compactions:
    """What is to be looked at. Safe for use by several threads."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, Stream], tuple[Settings, int]] = {}
        self._running = False

    def consider(self, plan: WritePlan) -> None:
        """Compact a table in the background, if that is due. The commit doesn't wait, and doesn't fail.

        Args:
            plan: what was written.
        """
        if plan.compact_when is None:
            return
        with self._lock:
            # Where too many wait, the table's next commit comes back to it.
            if len(self._waiting) < _MOST_WAITING:
                self._waiting[plan.settings.controller_uri, plan.stream] = plan.settings, plan.compact_when
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="compactions", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                uri, stream = next(iter(self._waiting))
                settings, size = self._waiting.pop((uri, stream))
            try:
                done = compact_if_due(settings, stream, size)
            except WriteConflictError:
                # Another process compacts the table, or its rows were replaced.
                continue
            except PravegaError as error:
                _log.warning('stream "%s" could not be compacted; a later commit tries again: %s', stream, error)
            except Exception:
                _log.exception('stream "%s" could not be compacted; a later commit tries again', stream)
            else:
                if done is not None:
                    _log.info(
                        'stream "%s" was compacted: %d rows, %d bytes instead of %d',
                        *(stream, done.rows, done.bytes_after, done.bytes_before),
                    )
