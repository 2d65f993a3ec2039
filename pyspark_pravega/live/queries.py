"""Streaming queries that read, from their checkpoints: how far each is behind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from pyspark_pravega.client import Client
from pyspark_pravega.connector.stream import StreamFrontier, lag_of
from pyspark_pravega.errors import ConfigurationError, PravegaError
from pyspark_pravega.sql.lag import read_checkpoint

_INTERVALS = 10


@dataclass(frozen=True, kw_only=True)
class SourceLag:
    """A stream that a query reads."""

    stream: str
    """`scope/stream`."""
    bytes_behind: int
    events_behind: int
    """Exact up to 64 KiB, beyond that estimated."""
    segments: int
    begin: dict[int, int]
    """Where it goes on: segment id to offset in bytes."""


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
    sources: tuple[SourceLag, ...]
    error: str | None
    """Why there is no lag."""


def checkpoints_in(folders: Iterable[Path]) -> list[Path]:
    """The checkpoints that folders are, or hold.

    Args:
        folders: each a checkpoint, or a folder of checkpoints.

    Raises:
        ConfigurationError: there is no such folder.
    """
    checkpoints: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise ConfigurationError(f"there is no folder {folder}: --checkpoint must be one of this machine")
        if _is_checkpoint(folder):
            checkpoints.append(folder)
        else:
            checkpoints.extend(sorted(inner for inner in folder.iterdir() if _is_checkpoint(inner)))
    return checkpoints


def query_lines(client: Client, folders: Iterable[Path]) -> list[QueryLine]:
    """How far queries are behind, now.

    Args:
        client: the cluster.
        folders: as of `checkpoints_in`; those that are gone meanwhile are passed over.
    """
    there = [folder for folder in folders if folder.is_dir()]
    return [_line(client, folder) for folder in checkpoints_in(there)]


def _line(client: Client, folder: Path) -> QueryLine:
    batch: int | None = None
    committed_at: int | None = None
    sources: list[SourceLag] = []
    error = None
    try:
        batch, offsets = read_checkpoint(folder)
        committed_at = round((folder / "commits" / str(batch)).stat().st_mtime * 1000)
        for offset in offsets:
            for stream, position in offset.items():
                lags = lag_of(client, StreamFrontier(client, stream).behind(position).values())
                sources.append(
                    SourceLag(
                        stream=str(stream),
                        bytes_behind=sum(lag.bytes for lag in lags),
                        events_behind=sum(lag.events for lag in lags),
                        segments=len(lags),
                        begin=dict(position.cut),
                    )
                )
    except (PravegaError, OSError) as problem:
        error = str(problem)
    return QueryLine(
        checkpoint=str(folder),
        name=folder.name,
        query=_query_id(folder),
        batch=batch,
        committed_at=committed_at,
        interval_ms=_interval_ms(folder, batch),
        sources=tuple(sources),
        error=error,
    )


def _interval_ms(folder: Path, batch: int | None) -> int | None:
    if batch is None:
        return None
    times = []
    for number in range(max(0, batch - _INTERVALS), batch + 1):
        with suppress(OSError):
            times.append((folder / "commits" / str(number)).stat().st_mtime)
    gaps = [after - before for before, after in pairwise(times)]
    return round(median(gaps) * 1000) if gaps else None


def _is_checkpoint(folder: Path) -> bool:
    return (folder / "offsets").is_dir() or (folder / "metadata").is_file()


def _query_id(folder: Path) -> str | None:
    try:
        query_id = json.loads((folder / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(query_id)
