"""One moment for a query: what the first read of its tables has found holds for all others.

A query may read a table several times, by any of its names, and ask the commit log for its rows beside. Each read is
planned by a call of its own. The first one says at which moment it has found the table; the JVM hands that back with
the query's further calls about the table (`Moments.java`). So this process needs to know nothing of queries.
The first call names the other tables of the query, too, and tells their moment with its own: none shows half of what
became visible at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.connector.log import (
    LakePart,
    Ledger,
    Snapshot,
    base_of,
    take_snapshot,
    take_snapshots,
    tiered_content,
    tiered_of,
)
from pyspark_pravega.connector.read import moment_of, rows_at, snapshot_until
from pyspark_pravega.errors import PravegaError, UnavailableError
from pyspark_pravega.settings import name_one_cluster


class _Whole(TypedDict):
    """A snapshot."""

    parts: list[tuple[int, int, int]]
    """Segment id, begin and end."""
    replaced_table: int
    current: list[int]
    compacted: dict[str, tuple[int, int]]
    counted: tuple[int, int] | None
    lake: _Lake | None
    base: dict[str, Any] | None
    """As of `Base`, of a table with a key."""


class _Lake(TypedDict):
    """What of the table lies in the lake."""

    tiered: dict[str, Any]
    """As of `Tiered`."""
    last: int | None
    """As of `LakePart`; None where the parts are those of the whole stream."""


class _Known(TypedDict):
    """What is known of a moment."""

    controller_uri: str
    version: int
    whole: _Whole | None
    """None where the query has asked for versions only."""


@dataclass
class QueryMoment:
    """When a query reads a table."""

    known: Sequence[str] = ()
    """What earlier calls for the query have told; of several clusters, perhaps."""
    news: str | None = None
    """What this call has to tell; None where nothing is new."""
    beside: Sequence[Stream] = ()
    """Other streams that the query reads, of which nothing is known yet: all are looked at together."""
    news_beside: dict[str, str] = field(default_factory=dict)
    """What there is to tell of them, by their names."""

    def snapshot(self, client: Client, stream: Stream, ledger: Ledger | None, *, keyed: bool) -> Snapshot:
        """The whole table at that moment.

        Args:
            client: the cluster.
            stream: the stream.
            ledger: its commit log, if it has one.
            keyed: whether the table has a key.

        Raises:
            StreamNotFoundError: there is no such stream.
            UnavailableError: a commit didn't come to its end for a minute.
            SegmentTruncatedError: only a version was known, and another one took the place of its rows meanwhile.
        """
        known = self._known(client)
        if known is not None and known["whole"] is not None:
            return _snapshot_of(stream, known["version"], known["whole"])
        snapshot = self._together(client, stream) or take_snapshot(client, stream, ledger)
        if known is not None and snapshot.version > known["version"] > 0:
            # Something was committed since the query has asked for versions.
            version = moment_of(client, stream, str(known["version"]))
            past = (rows_at if keyed else snapshot_until)(client, stream, version)
            snapshot = replace(past, version=known["version"], replaced_table=snapshot.replaced_table)
        self.news = _text_of(client, snapshot)
        return snapshot

    def _together(self, client: Client, stream: Stream) -> Snapshot | None:
        """The table at a moment that is one of all others, too; None where there are no others, or one can't be seen:
        then its own read says why.

        Raises:
            UnavailableError: a server isn't there, or for a minute there was no such moment.
        """
        if not self.beside:
            return None
        try:
            taken = take_snapshots(client, [stream, *self.beside])
        except UnavailableError:
            raise
        except PravegaError:
            return None
        self.news_beside = {str(one): _text_of(client, taken[one]) for one in self.beside}
        return taken[stream]

    def last_version(self, client: Client, ledger: Ledger) -> int:
        """The table's last version at that moment, for what tells of versions only.

        Args:
            client: the cluster.
            ledger: the stream's commit log.
        """
        known = self._known(client)
        if known is None:
            uri = client.settings.controller_uri
            known = {"controller_uri": uri, "version": ledger.state().version, "whole": None}
            self.news = json.dumps(known)
        return known["version"]

    def _known(self, client: Client) -> _Known | None:
        """The last thing that is known of the moment in a cluster."""
        contents: list[_Known] = [json.loads(text) for text in reversed(self.known)]
        own = client.settings.controller_uri
        of_cluster = (one for one in contents if name_one_cluster(one["controller_uri"], own))
        return next(of_cluster, None)


def _text_of(client: Client, snapshot: Snapshot) -> str:
    whole: _Whole = {
        "parts": [(part.segment_id, part.start, part.end) for part in snapshot.parts],
        "replaced_table": snapshot.replaced_table,
        "current": sorted(snapshot.current),
        "compacted": {str(segment_id): extent for segment_id, extent in snapshot.compacted.items()},
        "counted": snapshot.counted,
        "lake": None
        if snapshot.tiered is None
        else {
            "tiered": tiered_content(snapshot.tiered),
            "last": None if snapshot.lake is None else snapshot.lake.last,
        },
        "base": None if snapshot.base is None else dict(vars(snapshot.base)),
    }
    content: _Known = {
        "controller_uri": client.settings.controller_uri,
        "version": snapshot.version,
        "whole": whole,
    }
    return json.dumps(content, separators=(",", ":"))


def _snapshot_of(stream: Stream, version: int, whole: _Whole) -> Snapshot:
    parts = tuple(
        SegmentPart(stream=stream, segment_id=segment_id, start=start, end=end)
        for segment_id, start, end in whole["parts"]
    )
    lake = whole.get("lake")
    tiered = None if lake is None else tiered_of(lake["tiered"])
    last = None if lake is None else lake["last"]
    return Snapshot(
        stream=stream,
        parts=parts,
        version=version,
        replaced_table=whole["replaced_table"],
        current=frozenset(whole["current"]),
        compacted={int(segment_id): (begin, end) for segment_id, (begin, end) in whole["compacted"].items()},
        counted=None if whole["counted"] is None else (whole["counted"][0], whole["counted"][1]),
        tiered=tiered,
        base=base_of(whole.get("base")),
        lake=None if tiered is None or last is None else LakePart(tiered=tiered, last=last),
    )
