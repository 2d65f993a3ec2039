"""CALL redeliver: events that once couldn't be decoded, and can be now, into a table, once.

For each segment Spark tells which of its dead letters can be decoded now. They are noted, inserted as an epoch of a
query (`connector.log.copies`), and then their letters are deleted. A call that repeats it begins with what was
noted and isn't through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.statements.procedures.running import Caller, Kind, Statement, Step, options_of, quoted
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import Letters, Progress, Redelivery, create_ledger, settle
from pyspark_pravega.connector.option_names import CLUSTER_BY_KEY, EPOCH, EXACTLY_ONCE, MODE, QUERY, WRITER_MODE
from pyspark_pravega.connector.read import commits_between
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition, check_columns
from pyspark_pravega.connector.write import check_letters
from pyspark_pravega.errors import ConfigurationError, ConflictError, DataLossError, UnsupportedOperationError
from pyspark_pravega.serde.lenient import DROP_MALFORMED

COLUMNS = "source STRING, letters BIGINT, redelivered BIGINT, remaining BIGINT, version BIGINT"
_AT_ONCE = 5_000
"""How many events one commit brings in."""
_CHECKED, _SEGMENTS, _OFFSETS, _INSERTED, _DELETED = "checked", "segments", "offsets", "inserted", "deleted"
"""What Spark has done just now."""


def redeliver(base: CatalogBase, caller: Caller, letters: Stream, source: Stream, target: Stream) -> Step:
    """The next step of a redelivery.

    Args:
        base: the cluster, and what was looked up.
        caller: who has called it.
        letters: the table of dead letters.
        source: the table whose events they are.
        target: the table into which those are brought that can be decoded now.

    Returns:
        A row of what was done, or the statement that comes next.

    Raises:
        ConfigurationError: these aren't three such tables.
        PravegaError: it can't be done.
    """
    if len({letters, source, target}) < 3:
        raise ConfigurationError(
            "letters, source and target of redeliver are three tables: the dead letters, the table whose events "
            "they are, and the one into which good rows go"
        )
    check_letters(base.definition(letters, age_s=0), source)
    rows = base.definition(source, age_s=0)
    if rows.key is not None:
        raise UnsupportedOperationError(
            f'stream "{source}" has a primary key, so its rows are made of all its events, and those that can be '
            f'decoded now are among them: DELETE the letters whose source is "{source}"'
        )
    goal = base.definition(target, age_s=0)
    check_columns(rows.schema, source, goal.schema, target)
    work = _Work(caller, letters, rows, goal)
    while True:
        try:
            return work.step()
        except ConflictError:
            # Another call does the same.
            continue


class _Work:
    """A redelivery, as far as this call has come: what it has found out travels with its statements."""

    def __init__(self, caller: Caller, letters: Stream, source: TableDefinition, target: TableDefinition) -> None:
        self._caller, self._letters, self._source, self._target = caller, letters, source.stream, target.stream
        self._columns = ", ".join(map(quoted, source.schema.names))
        self._client = shared_client(source.settings)
        self._ledger = create_ledger(self._client, target.stream)
        self._stage = caller.after.get("stage")
        self._state: dict[str, Any] = {"segments": None, "letters": 0, "redelivered": 0, "version": None}
        self._state |= caller.after.get("state", {})

    def step(self) -> Step:
        """What comes next."""
        log, state = self._ledger.redeliveries(), self._state
        noted = log.get(str(self._letters), str(self._source))
        if self._stage is None:
            return self._then(
                _CHECKED, self._insert(noted.query, Letters(number=0, segment=0, offsets=[0], after=0)), "check"
            )
        while noted.piece is not None:
            if (statement := self._bring_in(noted, noted.piece)) is not None:
                return statement
            log.put(replace(noted, piece=None, pieces=noted.pieces + 1))
            noted = log.get(str(self._letters), str(self._source))
        if self._stage == _SEGMENTS:
            state["segments"] = [[row["segment"], row["first"], row["last"]] for row in self._caller.rows]
            state["letters"] = state["redelivered"] + sum(row["n"] for row in self._caller.rows)
        elif self._stage == _OFFSETS:
            (segment, _, last), *others = state["segments"]
            offsets = sorted(row["event_offset"] for row in self._caller.rows)
            more = [[segment, offsets[-1] + 1, last]] if len(offsets) == _AT_ONCE else []
            state["segments"], self._stage = [*more, *others], _CHECKED
            if offsets:
                after = settle(self._client, self._ledger).version
                piece = Letters(number=noted.pieces, segment=segment, offsets=offsets, after=after)
                log.put(replace(noted, piece=piece))
                return self._then(_INSERTED, self._insert(noted.query, piece))
        if state["segments"] is None:
            return self._then(
                _SEGMENTS,
                f"SELECT segment, min(offset) AS first, max(offset) AS last, count(*) AS n FROM {self._of_source()} "
                "GROUP BY segment ORDER BY segment",
                "fetch",
            )
        if state["segments"]:
            segment, first, last = state["segments"][0]
            return self._then(
                _OFFSETS,
                f"SELECT _offset AS event_offset FROM {self._events()} WHERE _segment = {segment} "
                f"AND _offset BETWEEN {first} AND {last} "
                f"AND _offset IN (SELECT offset FROM {self._of_source()} AND segment = {segment}) "
                f"ORDER BY _offset LIMIT {_AT_ONCE}",
                "fetch",
            )
        remaining = max(0, state["letters"] - state["redelivered"])
        return [[str(self._source), state["letters"], state["redelivered"], remaining, state["version"]]]

    def _bring_in(self, noted: Redelivery, piece: Letters) -> Statement | None:
        """What is still to be done for a piece; None when its rows are there and its letters are gone."""
        last = settle(self._client, self._ledger).version
        progress = self._ledger.progress(noted.query)
        rows, version = 0, None
        if progress.epoch >= piece.number:
            rows, version = self._committed(progress, piece, last)
        elif self._stage != _INSERTED:
            return self._then(_INSERTED, self._insert(noted.query, piece))
        if rows != len(piece.offsets):
            self._ledger.redeliveries().put(replace(noted, piece=None, pieces=noted.pieces + 1))
            raise DataLossError(
                f'of {len(piece.offsets)} events of segment {piece.segment} of stream "{self._source}" that could be '
                f'decoded a moment ago {rows} were inserted into "{self._target}": schemas have changed meanwhile. '
                f"Their letters stay; DELETE those whose rows are there before redeliver is called again, from offset "
                f"{piece.offsets[0]} to {piece.offsets[-1]}"
            )
        if (self._stage, self._caller.after.get("piece")) != (_DELETED, piece.number):
            offsets = ", ".join(map(str, piece.offsets))
            text = f"DELETE FROM {self._of_source()} AND segment = {piece.segment} AND offset IN ({offsets})"
            return self._then(_DELETED, text, piece=piece.number)
        self._state["redelivered"] += len(piece.offsets)
        self._state["version"], self._stage = version, _CHECKED
        return None

    def _committed(self, progress: Progress, piece: Letters, last: int) -> tuple[int, int | None]:
        """How many rows the commit of a piece had, and its version, where it is known."""
        if progress.epoch == piece.number and progress.rows is not None:
            return progress.rows, progress.version
        # It was completed by an earlier release, which keeps that with the version only.
        for commit in commits_between(self._ledger, piece.after + 1, last):
            if (commit.query, commit.epoch) == (progress.query, piece.number):
                return commit.rows, commit.version
        # The log has swept the version, and that the epoch is there is certain.
        return len(piece.offsets), None

    def _then(self, stage: str, text: str, kind: Kind = "run", **more: int) -> Statement:
        after: Mapping[str, Any] = {"stage": stage, "state": self._state, **more}
        return Statement(text=text, kind=kind, after=after)

    def _insert(self, query: str, piece: Letters) -> str:
        options = {QUERY: query, EPOCH: str(piece.number), WRITER_MODE: EXACTLY_ONCE, CLUSTER_BY_KEY: "false"}
        offsets = ", ".join(map(str, piece.offsets))
        return (
            f"INSERT INTO {self._caller.table(self._target)} {options_of(options)} BY NAME SELECT {self._columns} "
            f"FROM {self._events()} WHERE _segment = {piece.segment} AND _offset IN ({offsets})"
        )

    def _events(self) -> str:
        """Those that can be decoded."""
        return f"{self._caller.table(self._source)} {options_of({MODE: DROP_MALFORMED})}"

    def _of_source(self) -> str:
        return f"{self._caller.table(self._letters)} WHERE source = '{self._source}'"
