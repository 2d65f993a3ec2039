"""Streaming queries that read, from their checkpoints: how far each is behind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark_pravega.client import Client
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.stream import ChangesOffset, StreamFrontier, lag_of, versions_behind
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.live.rates import rhythm
from pyspark_pravega.sql.checkpoints import Committed, Folder, read_checkpoint


@dataclass(frozen=True, kw_only=True)
class SourceLag:
    """A stream that a query reads."""

    stream: str
    """`scope/stream`."""
    bytes_behind: int
    events_behind: int
    """Exact up to 64 KiB, beyond that estimated."""
    segments: int
    unread: dict[int, int]
    """Where what it hasn't read begins, of each segment that has some: segment id to offset in bytes."""
    version: int | None = None
    """The last version that it has read, of a query over CHANGES."""


@dataclass(frozen=True, kw_only=True)
class QueryLine:
    """A streaming query, as its checkpoint tells of it."""

    checkpoint: str
    name: str
    """The checkpoint's folder: a query's own name isn't kept in it."""
    query: str | None
    """Its id."""
    batch: int | None
    """The last micro-batch that it has committed."""
    committed_at: int | None
    """When that was, in ms since 1970: as old as the file."""
    interval_ms: int | None
    """How far its last micro-batches are from each other, the one in the middle; None where there are too few."""
    silence_ms: int | None
    """For so long no micro-batch may come; None where none has come."""
    sources: tuple[SourceLag, ...]
    error: str | None
    """Why there is no lag."""


def query_lines(client: Client, folders: Iterable[Folder]) -> list[QueryLine]:
    """How far queries are behind, now.

    Args:
        client: the cluster.
        folders: each a checkpoint, or a folder of checkpoints. Those that aren't there are passed over; one that can't
            be looked at is told as a query.
    """
    lines = []
    for folder in folders:
        try:
            if folder.is_there():
                inner = [folder] if folder.is_checkpoint() else [one for one in folder.folders() if one.is_checkpoint()]
                lines += [_line(client, checkpoint) for checkpoint in inner]
        except PravegaError as problem:
            lines.append(_of(folder, error=str(problem)))
    return lines


def _of(folder: Folder, **known: Any) -> QueryLine:
    unknown: dict[str, Any] = dict.fromkeys(("query", "batch", "committed_at", "interval_ms", "silence_ms", "error"))
    unknown["sources"] = ()
    return QueryLine(checkpoint=str(folder), name=folder.name, **{**unknown, **known})


def _line(client: Client, folder: Folder) -> QueryLine:
    known: dict[str, Any] = {"query": _query_id(folder)}
    try:
        committed = read_checkpoint(folder)
        known |= {
            "batch": committed.batch,
            "committed_at": round(committed.times[committed.batch] * 1000),
            **_rhythm(committed),
        }
        sources: list[SourceLag] = []
        for offset in committed.offsets:
            for stream, position in offset.items():
                parts = StreamFrontier(client, stream).behind(position)
                lags = lag_of(client, parts.values())
                sources.append(
                    SourceLag(
                        stream=str(stream),
                        bytes_behind=sum(lag.bytes for lag in lags),
                        events_behind=sum(lag.events for lag in lags),
                        segments=len(lags),
                        unread={part.segment_id: part.start for part in parts.values() if part.size},
                    )
                )
        sources += [_changes(client, one) for one in committed.changes]
        known["sources"] = tuple(sources)
    except (PravegaError, OSError) as problem:
        known["error"] = str(problem)
    return _of(folder, **known)


def _changes(client: Client, offset: ChangesOffset) -> SourceLag:
    ledger = open_ledger(client, offset.stream)
    behind = None if ledger is None else versions_behind(ledger, offset.commit)
    return SourceLag(
        stream=str(offset.stream),
        bytes_behind=0 if behind is None else behind.bytes,
        events_behind=0 if behind is None else behind.events,
        segments=0,
        unread={},
        version=offset.commit,
    )


def _rhythm(committed: Committed) -> dict[str, int | None]:
    comes = rhythm([at for batch, at in sorted(committed.times.items()) if batch <= committed.batch])
    interval_s = comes.interval_s
    return {
        "interval_ms": None if interval_s is None else round(interval_s * 1000),
        "silence_ms": round(comes.silence_s * 1000),
    }


def _query_id(folder: Folder) -> str | None:
    try:
        query_id = json.loads(folder.read("metadata"))["id"]
    except (PravegaError, ValueError, KeyError, TypeError):
        return None
    return str(query_id)
