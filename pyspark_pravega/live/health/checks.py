"""How well all is: servers, commit logs, transactions, and what somebody should look at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark_pravega.client import Client, RetentionPolicy, Stream
from pyspark_pravega.client.policies import UNLIMITED
from pyspark_pravega.client.segments import segment_state
from pyspark_pravega.connector.log import Ledger, State
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.errors import PravegaError, StreamNotFoundError
from pyspark_pravega.live.health.alerts import (
    Alert,
    Level,
    about_jobs,
    about_lag,
    about_retention,
    about_subscribers,
    about_writers,
)
from pyspark_pravega.live.pictures import Gallery, JobPicture
from pyspark_pravega.live.progress import QueryWatch, table_name
from pyspark_pravega.live.sampling import Sampler
from pyspark_pravega.live.waiting import oldest_behind
from pyspark_pravega.settings import Settings

LOOKED_S = 3.0
"""What isn't older is as good as new, for several who look."""
SLOW_MS = 1000
"""A server that answers later is slow."""
_LOGS = 50
"""So many commit logs are looked at each time, of the streams to which was written last."""
_POLICY_S = 30.0
_MOST_STORES, _MOST_STREAMS = 8, 50


@dataclass(frozen=True, kw_only=True)
class ServerLine:
    """A server, and how fast it has answered."""

    kind: str
    address: str
    milliseconds: int | None
    """None where it hasn't."""
    text: str
    """What it says of itself, or what is wrong."""


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """A commit log."""

    table: str
    stream: str
    version: int
    committed_at: int | None
    """In ms since 1970."""
    jobs: tuple[JobPicture, ...]
    """That haven't come to their end."""
    state: str
    """`idle`, `writing`, `committing` or `cleaning`."""


class Health:
    """Looks when somebody asks. Safe for use by several threads."""

    def __init__(self, settings: Settings, client: Client, sampler: Sampler, watch: QueryWatch) -> None:
        """Begin to look.

        Args:
            settings: the connection.
            client: the cluster.
            sampler: knows the streams.
            watch: knows the queries.
        """
        self._settings, self._client, self._sampler, self._watch = settings, client, sampler, watch
        self._lock = threading.Lock()
        self._looked_at = 0.0
        self._answer: dict[str, Any] = {}
        self._policies: dict[Stream, tuple[float, RetentionPolicy | None]] = {}

    def look(self) -> dict[str, Any]:
        """How well all is, now.

        Returns:
            `servers`, `logs` (of the streams to which was written last) and `alerts`, the worst first.
        """
        with self._lock:
            if not self._looked_at or time.monotonic() - self._looked_at >= LOOKED_S:
                self._answer = self._look()
                self._looked_at = time.monotonic()
            return self._answer

    def _look(self) -> dict[str, Any]:
        controller, trouble = self._controller(), list[Alert]()
        if controller.milliseconds is not None:
            try:
                self._sampler.streams()
                self._sampler.sample(())
            except PravegaError as error:
                trouble.append(Alert(level=Level.BAD, kind="server", what="Pravega", text=str(error)))
        servers = [controller, *self._segment_stores(), *self._registry()]
        alerts = [
            Alert(level=Level.BAD if one.milliseconds is None else Level.WARN, kind="server", what=one.kind, text=text)
            for one in servers
            if (text := _trouble(one))
        ]
        logs: list[LogLine] = []
        if controller.milliseconds is not None and not trouble:
            try:
                alerts += self._of_queries()
                logs, of_logs = self._logs()
                alerts += of_logs
            except PravegaError as error:
                trouble.append(Alert(level=Level.BAD, kind="server", what="Pravega", text=str(error)))
        alerts += trouble
        alerts.sort(key=lambda alert: (alert.level is not Level.BAD, alert.since or 0))
        return {"servers": servers, "logs": logs, "alerts": alerts}

    def _of_queries(self) -> list[Alert]:
        now, alerts = time.time(), list[Alert]()
        for line in self._watch.lines():
            for source in line.sources:
                stream = Stream.parse(source.stream)
                alerts += about_lag(line, source, self._watch.outlook(line, source), now)
                policy = self._policy(stream)
                if policy is not None and source.bytes_behind:
                    since = self._watch.waits_since(line, source)
                    alerts += about_retention(line, source, policy, since, now)
        return alerts

    def _logs(self) -> tuple[list[LogLine], list[Alert]]:
        now, names, growths = time.time(), self._watch.names(), self._sampler.growths()
        alerts = [one for stream, some in growths.items() for one in about_writers(stream, some, names, now)]
        known = [(stream, log) for stream, log in self._sampler.logs().items() if log[1].version or log[1].pending]
        known.sort(key=lambda item: -(item[1][1].committed_at or 0))
        lines = []
        for stream, (ledger, _) in known[:_LOGS]:
            try:
                state = ledger.state()
                jobs = Gallery(self._client, stream).jobs(ledger, state)
            except PravegaError as error:
                text = f"its commit log can't be read: {error}"
                alerts.append(
                    Alert(level=Level.BAD, kind="stream", what=table_name(stream), text=text, stream=str(stream))
                )
                continue
            alerts += about_jobs(stream, jobs, state, now)
            alerts += self._of_subscribers(stream, ledger, state, now)
            lines.append(_log_line(stream, state, tuple(jobs)))
        return lines, alerts

    def _of_subscribers(self, stream: Stream, ledger: Ledger, state: State, now: float) -> list[Alert]:
        policy = self._policy(stream)
        if policy is None or policy.maximum == UNLIMITED:
            return []
        names = self._client.controller.subscribers(stream)
        if not names:
            return []
        begins = self._sampler.begins(stream)
        oldest, stored = oldest_behind(ledger, state.version, begins), self._sampler.lines([stream])
        since = None if oldest is None else oldest.committed_at / 1000
        return about_subscribers(stream, names, policy, sum(line.bytes for line in stored), since, now)

    def _policy(self, stream: Stream) -> RetentionPolicy | None:
        at, policy = self._policies.get(stream, (0.0, None))
        if not at or time.monotonic() - at > _POLICY_S:
            policy = None
            with suppress(StreamNotFoundError):
                policy = self._client.controller.stream_configuration(stream).retention
            self._policies[stream] = (time.monotonic(), policy)
        return policy

    def _controller(self) -> ServerLine:
        def ask() -> str:
            scopes = sum(1 for _ in self._client.controller.list_scopes())
            return f"{scopes} namespace{'' if scopes == 1 else 's'}"

        return _asked("controller", self._settings.controller_uri, ask)

    def _segment_stores(self) -> list[ServerLine]:
        """Those that hold current segments of the streams that were looked at."""
        some = self._sampler.current(_MOST_STREAMS)
        if not some:
            return []
        try:
            stores = self._client.pool.by_endpoint(some)
        except PravegaError as error:
            return [ServerLine(kind="segment store", address="", milliseconds=None, text=str(error))]
        return [
            _asked("segment store", f"{host}:{port}", partial(self._store, *held[0]))
            for (host, port), held in list(stores.items())[:_MOST_STORES]
        ]

    def _store(self, stream: Stream, segment: int) -> str:
        segment_state(self._client.pool, stream, segment)
        with self._client.pool.connection(stream, segment) as connection:
            return str(connection.greeting.release)

    def _registry(self) -> list[ServerLine]:
        registry = shared_registry(self._settings)
        if registry is None:
            return []

        def ask() -> str:
            registry.ping()
            return ""

        return [_asked("schema registry", str(self._settings.schema_registry_uri), ask)]


def _asked(kind: str, address: str, ask: Callable[[], str]) -> ServerLine:
    begin = time.monotonic()
    try:
        text = ask()
    except (PravegaError, OSError) as error:
        return ServerLine(kind=kind, address=address, milliseconds=None, text=str(error))
    milliseconds = round((time.monotonic() - begin) * 1000)
    return ServerLine(kind=kind, address=address, milliseconds=milliseconds, text=text)


def _trouble(server: ServerLine) -> str:
    if server.milliseconds is None:
        return f"doesn't answer: {server.text}"
    if server.milliseconds > SLOW_MS:
        return f"{server.address} answers in {server.milliseconds:,} ms"
    return ""


def _log_line(stream: Stream, state: State, jobs: tuple[JobPicture, ...]) -> LogLine:
    if state.pending is not None:
        word = "committing"
    elif state.cleaning is not None and not state.cleaning.done:
        word = "cleaning"
    else:
        word = "writing" if jobs else "idle"
    return LogLine(
        table=table_name(stream),
        stream=str(stream),
        version=state.version,
        committed_at=state.committed_at,
        jobs=jobs,
        state=word,
    )
