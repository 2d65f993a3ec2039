"""What the page and `top` ask for, as plain values that JSON can hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.errors import StreamNotFoundError, did_you_mean
from pyspark_pravega.live.around import around, entries, namespaces
from pyspark_pravega.live.health import Health
from pyspark_pravega.live.pictures import Gallery
from pyspark_pravega.live.progress import QueryWatch
from pyspark_pravega.live.queries import QueryLine
from pyspark_pravega.live.rows import LetterCounts, Wanted, changes, search
from pyspark_pravega.live.sampling import Sampler, StreamLine
from pyspark_pravega.live.tables import KeyCounts, LastRows, table_of
from pyspark_pravega.settings import Settings
from pyspark_pravega.sql.checkpoints import Folder

SORTS = ("table", "segments", "bytes", "rows", "version", "committed_at", "bytes_in", "events_in", "bytes_out")
"""What streams can be sorted by."""
_FOLLOWED_S = 30.0
_KEPT = 32
"""So many streams' pictures are kept."""


class Answers:
    """Answers for one cluster. Safe for use by several threads; nothing happens unless somebody asks."""

    def __init__(self, settings: Settings, checkpoints: Sequence[Folder] = (), *, scope: str | None = None) -> None:
        """Begin to answer.

        Args:
            settings: the connection.
            checkpoints: of streaming queries, or folders of some.
            scope: this scope's streams only.
        """
        self.settings, self.checkpoints = settings, tuple(checkpoints)
        self.client = shared_client(settings)
        self.sampler = Sampler(self.client, scope=scope)
        self._lock = threading.Lock()
        self._galleries: dict[Stream, Gallery] = {}
        self._rows: dict[tuple[Stream, bool], LastRows] = {}
        self._counts, self._letters = KeyCounts(settings), LetterCounts(settings)
        self.watch = QueryWatch(self.client, self.sampler, self.checkpoints)
        self._health = Health(settings, self.client, self.sampler, self.watch)
        self._out: dict[str, float] = {}

    def streams(
        self, *, sort: str = "table", descending: bool = False, text: str = "", begin: int = 0, count: int = 50
    ) -> dict[str, Any]:
        """A part of the table of streams.

        Args:
            sort: one of `SORTS`.
            descending: whether the largest come first; what isn't known comes last in any case.
            text: only streams whose names hold this.
            begin: the first line, from 0.
            count: how many lines.

        Returns:
            `at` (ms since 1970), `lines`, `begin`, `matching` (how many streams hold the text), `total`, and the sums
            `bytes_in` and `events_in` over all streams that are known.

        Raises:
            PravegaError: the servers can't be asked.
        """
        streams = self.sampler.streams()
        shown = self._sorted(sort, descending, text)[begin : begin + count]
        self.sampler.sample([Stream.parse(line.stream) for line in shown])
        self._measure_out()
        lines = self._sorted(sort, descending, text)
        every = self.sampler.lines()
        return {
            "at": round(time.time() * 1000),
            "lines": [self._line(line) for line in lines[begin : begin + count]],
            "begin": begin,
            "matching": len(lines),
            "total": len(streams),
            "bytes_in": sum(line.bytes_in or 0 for line in every),
            "events_in": sum(line.events_in or 0 for line in every),
        }

    def stream(self, stream: Stream) -> dict[str, Any]:
        """All pictures of a stream: `line`, `samples`, `readers`, and what `Gallery.look` gives.

        Args:
            stream: the stream.

        Raises:
            StreamNotFoundError: there is no such stream.
            PravegaError: the servers can't be asked.
        """
        if stream not in self.sampler.streams():
            raise self._no_stream(stream)
        self.sampler.follow(stream, _FOLLOWED_S)
        self.sampler.sample([stream], others=0)
        tails = self.sampler.follow(stream, _FOLLOWED_S)
        with self._lock:
            gallery = self._galleries.setdefault(stream, Gallery(self.client, stream))
            _forget_old(self._galleries)
        self._measure_out()
        queries = [self.watch.shown(one) for one in self.watch.lines()]
        readers = [
            {**{key: one[key] for key in ("name", "query", "checkpoint", "batch", "targets")}, **source}
            for one in queries
            for source in one["sources"]
            if source["stream"] == str(stream)
        ]
        line = next(iter(self.sampler.lines([stream])), None)
        if line is None:
            raise self._no_stream(stream)
        pictures = plain(gallery.look(tails))
        return {
            "at": round(time.time() * 1000),
            "line": self._line(line),
            "samples": self.sampler.samples(stream),
            "readers": readers,
            "names": self.watch.names(),
            **pictures,
        }

    def table(self, stream: Stream) -> dict[str, Any]:
        """A stream's columns, properties and schema versions; see `table_of`."""
        answer: dict[str, Any] = plain(table_of(self.settings, stream))
        return answer

    def rows(self, stream: Stream, count: int, *, log: bool = False) -> dict[str, Any]:
        """A table's last rows, or its last changes; see `LastRows`."""
        with self._lock:
            rows = self._rows.setdefault((stream, log), LastRows(self.settings, stream, log=log))
            _forget_old(self._rows)
        return rows.take(count)

    def search(self, stream: Stream, wanted: Wanted) -> dict[str, Any]:
        """Rows of a table at a moment, with a filter; see `search`."""
        return search(self.settings, stream, wanted)

    def changes(self, stream: Stream, version: int) -> dict[str, Any]:
        """What a version has changed; see `changes`."""
        return changes(self.settings, stream, version)

    def around(self, stream: Stream) -> dict[str, Any]:
        """Who needs a stream's old events, and where its bad ones go; see `around`."""
        return around(self.settings, self.client, stream, self._letters)

    def namespaces(self) -> dict[str, Any]:
        """The namespaces, with their key-value tables; see `namespaces`."""
        return {"at": round(time.time() * 1000), "namespaces": namespaces(self.client, self.sampler)}

    def entries(self, table: Stream, count: int) -> dict[str, Any]:
        """Some entries of a key-value table; see `entries`."""
        return entries(self.settings, table, count)

    def health(self) -> dict[str, Any]:
        """How well all is; see `Health.look`."""
        answer: dict[str, Any] = plain(self._health.look())
        return {"at": round(time.time() * 1000), **answer}

    def queries(self) -> dict[str, Any]:
        """The streaming queries of the checkpoints, how far each is behind, and how that goes on."""
        queries = [self.watch.shown(line) for line in self.watch.lines()]
        return {"at": round(time.time() * 1000), "queries": plain(queries), "folders": len(self.checkpoints)}

    def query_lines(self) -> list[QueryLine]:
        """The same as values, without what becomes of them."""
        return self.watch.lines()

    def _no_stream(self, stream: Stream) -> StreamNotFoundError:
        similar = did_you_mean(str(stream), map(str, self.sampler.streams()))
        # There may be thousands: they aren't listed.
        hint = similar if "did you mean" in similar else ""
        return StreamNotFoundError(f'stream "{stream}" does not exist{hint}')

    def _sorted(self, sort: str, descending: bool, text: str) -> list[StreamLine]:
        wanted = text.strip().lower()
        lines = [line for line in self.sampler.lines() if wanted in line.table.lower() or wanted in line.stream.lower()]

        def value(line: StreamLine) -> Any:
            return self._out.get(line.stream) if sort == "bytes_out" else getattr(line, sort)

        known = [line for line in lines if value(line) is not None]
        unknown = [line for line in lines if value(line) is None]
        return sorted(known, key=value, reverse=descending) + unknown

    def _line(self, line: StreamLine) -> dict[str, Any]:
        rows = self._counts.rows(Stream.parse(line.stream), line.written_bytes) if line.is_keyed else line.rows
        return {**asdict(line), "rows": rows, "bytes_out": self._out.get(line.stream)}

    def _measure_out(self) -> None:
        """Look at the checkpoints, when some seconds have gone by: what queries read goes out of streams."""
        self.watch.lines()
        self._out = self.watch.rates_out()


def plain(value: Any) -> Any:
    """A value of dataclasses, lists and mappings as JSON's own types."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def _forget_old(kept: dict[Any, Any]) -> None:
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]
