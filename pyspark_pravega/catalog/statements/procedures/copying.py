"""CALL copy: a range of a table's versions into another table, once.

Its pieces are epochs of a query that is called as the copy is (`connector.log.copies`): Spark runs an INSERT for each,
and a call that repeats it goes on behind the last one that was committed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from pyspark_pravega import values
from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.statements.procedures.running import Caller, Rows, Statement, Step, options_of, quoted
from pyspark_pravega.client import Stream, StreamCut
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.lake import lake_between
from pyspark_pravega.connector.log import Copy, Ledger, Piece, create_ledger, open_ledger, settle, take_snapshot
from pyspark_pravega.connector.option_names import (
    CLUSTER_BY_KEY,
    END_CUT,
    EPOCH,
    EXACTLY_ONCE,
    QUERY,
    START_CUT,
    WRITER_MODE,
)
from pyspark_pravega.connector.read import Extent, between, commits_between, moment_of, rows_at
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.stream import PieceEnd, Pieces, StreamRange, range_of
from pyspark_pravega.connector.table import TableDefinition, check_columns
from pyspark_pravega.errors import (
    ConfigurationError,
    ConflictError,
    DataLossError,
    InvalidNameError,
    NotFoundError,
    TableChangedError,
    UnsupportedOperationError,
)

COLUMNS = (
    "name STRING, source STRING, from_version STRING, to_version STRING, commits BIGINT, rows BIGINT, bytes BIGINT, "
    "version BIGINT, repeated BOOLEAN"
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ .:/-]{0,199}")
_CHECKED, _PIECE = "checked", "piece"


def copy(
    base: CatalogBase,
    caller: Caller,
    source: Stream,
    target: Stream,
    name: str,
    from_version: str | None,
    to_version: str | None,
    where: str | None,
    size: str,
) -> Step:
    """The next step of a copy.

    Args:
        base: the cluster, and what was looked up.
        caller: who has called it.
        source: the table that is copied.
        target: the table into which it is copied.
        name: what makes it one that is done once.
        from_version: where it begins, see `range_of`.
        to_version: where it ends; what that means is settled with the first call of the name.
        where: a condition of SQL that rows must fulfil.
        size: how many bytes of events one commit copies, about.

    Returns:
        A row of what was done, or the statement that comes next.

    Raises:
        ConfigurationError: an argument is wrong, or the name stands for another copy.
        DataLossError: events that are still to be copied are gone.
        PravegaError: it can't be done.
    """
    limit = values.size("bytes_per_commit", size)
    if not _NAME.fullmatch(name):
        raise InvalidNameError(
            f'"{name[:60]}" can\'t be the name of a copy: it has letters, digits, and blanks or "_.:/-" '
            "within, at most 200 of them"
        )
    if source == target:
        raise ConfigurationError(f'stream "{target}" can\'t be copied into itself: name another table as target')
    arguments = {"source": str(source), "from_version": from_version, "to_version": to_version, "where": where}
    definition = base.definition(target, age_s=0)
    while True:
        # A stream that others write gets a commit log when everything is found to be well.
        ledger = open_ledger(base.client, target)
        known = None if ledger is None else ledger.copies().get(name)
        if known is not None:
            _check_same(known, arguments, target)
            if known.done_at is not None:
                return _result_of(known, repeated=not caller.after)
        work = _Work(caller, base.definition(source, age_s=0), definition, where)
        try:
            if ledger is None or known is None:
                begun = work.begun(name, arguments)
                if _CHECKED not in caller.after:
                    return work.checking(begun)
                create_ledger(base.client, target).copies().put(begun)
            elif (step := work.step(ledger, known, limit)) is not None:
                return step
        except ConflictError:
            # Another call of that name goes on with it, too.
            continue


class _Work:
    """A copy between two tables, as they are now."""

    def __init__(self, caller: Caller, source: TableDefinition, target: TableDefinition, where: str | None) -> None:
        self._caller, self._source, self._target, self._where = caller, source, target, where
        self._client = shared_client(source.settings)

    def begun(self, name: str, arguments: Mapping[str, str | None]) -> Copy:
        """A new copy, of which nothing is done."""
        stream = self._source.stream
        check_columns(self._source.schema, stream, self._target.schema, self._target.stream)
        wanted = self._rows_range(arguments) if self._source.key is not None else self._range(arguments)
        (segment_id, *_) = sorted(self._client.controller.current_segments(stream).ids) or sorted(wanted.end)
        return Copy(
            name=name,
            arguments=dict(arguments),
            segment_id=segment_id,
            first=wanted.first,
            last=wanted.last,
            begin=dict(wanted.begin),
            end=dict(wanted.end),
            reached=dict(wanted.begin),
            reached_version=None if wanted.first is None else wanted.first - 1,
            begun_at=now_ms(),
        )

    def checking(self, copy: Copy) -> Statement:
        """Has Spark look at columns and condition before anything is noted."""
        return Statement(text=self._insert(copy, copy.end, 0), kind="check", after={_CHECKED: True})

    def step(self, ledger: Ledger, copy: Copy, size: int) -> Statement | None:
        """What comes next; None when that was noted in the target's log, or there is nothing any more."""
        copies = ledger.copies()
        self._check_source(copy)
        if copy.piece is None:
            piece_end = self._next(copy, size)
            if piece_end is None:
                copies.put(replace(copy, done_at=now_ms()))
                return None
            after = settle(self._client, ledger).version
            piece = Piece(number=copy.pieces, end=dict(piece_end.cut), version=piece_end.version, after=after)
            copies.put(replace(copy, piece=piece))
            return None
        piece, state = copy.piece, settle(self._client, ledger)
        progress = ledger.progress(copy.query)
        if progress.epoch < piece.number and self._caller.after.get(_PIECE) != piece.number:
            self._check_there(copy, piece)
            return Statement(text=self._insert(copy, piece.end, piece.number), after={_PIECE: piece.number})
        # A piece without rows is no commit, and has no epoch.
        noted = replace(copy, reached=piece.end, reached_version=piece.version, piece=None, pieces=copy.pieces + 1)
        if progress.epoch >= piece.number:
            noted = _counted(ledger, noted, piece, state.version)
        copies.put(noted)
        return None

    def _range(self, arguments: Mapping[str, str | None]) -> StreamRange:
        return range_of(self._client, self._source.stream, arguments["from_version"], arguments["to_version"])

    def _rows_range(self, arguments: Mapping[str, str | None]) -> StreamRange:
        """Of a table with a key: its rows at a version, which is one piece."""
        stream = self._source.stream
        if arguments["from_version"] is not None:
            raise UnsupportedOperationError(
                f'stream "{stream}" has a primary key, so its versions change rows: leave from_version out, to copy '
                f"its rows as of to_version; what has changed since a version tells SELECT ... CHANGES FROM VERSION"
            )
        state = settle(self._client, create_ledger(self._client, stream))
        moment = moment_of(self._client, stream, arguments["to_version"] or str(state.version))
        if moment.version is None:
            raise UnsupportedOperationError(
                f'the rows of stream "{stream}", which has a primary key, are copied as of a version: give the number '
                "of one as to_version"
            )
        rows_at(self._client, stream, moment)
        end = proper_cut(self._client, stream, moment.offsets)
        return StreamRange(begin=end, end=end, last=moment.version)

    def _next(self, copy: Copy, size: int) -> PieceEnd | None:
        stream, cut = self._source.stream, StreamCut(self._source.stream, copy.reached)
        if self._source.key is not None:
            return PieceEnd(cut=StreamCut(stream, copy.end), version=copy.last) if copy.pieces == 0 else None
        wanted = StreamRange(begin=cut, end=StreamCut(stream, copy.end), first=copy.first, last=copy.last)
        pieces = Pieces(self._client, wanted, size=size, single=self._needs_order)
        return pieces.behind(PieceEnd(cut=cut, version=copy.reached_version))

    @property
    def _needs_order(self) -> bool:
        """Whether a later version's row has to come in a later commit, as the last row of a key is the one that stays.

        Where all events of a key lie in one segment, a task writes them in their order.
        """
        return self._target.key is not None and self._source.routing_key != self._target.routing_key

    def _insert(self, copy: Copy, end: Mapping[int, int], number: int) -> str:
        source, columns = self._caller.table(self._source.stream), ", ".join(self._columns())
        if self._source.key is not None:
            source += f" VERSION AS OF {copy.last}"
        else:
            stream = self._source.stream
            begin = StreamCut(stream, copy.reached).to_json()
            source += f" {options_of({START_CUT: begin, END_CUT: StreamCut(stream, end).to_json()})}"
        # Tasks write their rows in the order in which they read them: a shuffle would lose that.
        options = {QUERY: copy.query, EPOCH: str(number), WRITER_MODE: EXACTLY_ONCE, CLUSTER_BY_KEY: "false"}
        # A line of its own: the condition may end with a comment.
        condition = "" if self._where is None else f" WHERE (\n{self._where}\n)"
        target = self._caller.table(self._target.stream)
        return f"INSERT INTO {target} {options_of(options)} BY NAME SELECT {columns} FROM {source}{condition}"

    def _columns(self) -> list[str]:
        """What is selected; Spark 4.0 fills in nothing where an INSERT leaves a column out."""
        copied = self._source.schema.names
        given, defaults = {name.lower() for name in copied}, self._target.properties.defaults
        return [quoted(name) for name in copied] + [
            f"{defaults.get(field.name, 'NULL')} AS {quoted(field.name)}"
            for field in self._target.schema
            if field.name.lower() not in given and (field.nullable or field.name in defaults)
        ]

    def _check_source(self, copy: Copy) -> None:
        stream = self._source.stream
        try:
            self._client.controller.segment_ranges(stream, [copy.segment_id])
        except NotFoundError:
            raise TableChangedError(
                f'stream "{stream}" was dropped and made again after copy "{copy.name}" was begun: {_so_far(copy)}; '
                "take another name to copy what it holds now"
            ) from None

    def _check_there(self, copy: Copy, piece: Piece) -> None:
        if self._source.key is not None:
            return
        stream = self._source.stream
        try:
            begin, end = StreamCut(stream, copy.reached), StreamCut(stream, piece.end)
            whole = take_snapshot(self._client, stream)
            if lake_between(self._client, whole, Extent(start=begin, end=end)) is None:
                between(self._client, whole, begin, end)
        except DataLossError as error:
            what = "what comes next" if piece.version is None else f"version {piece.version}, or one before it,"
            raise DataLossError(
                f'copy "{copy.name}" can\'t go on: {what} of stream "{stream}" was removed before it was copied, by '
                f"retention, a truncation or a statement that replaced the rows; {_so_far(copy)}. Take another name, "
                f"and leave from_version out to copy what is still there ({error})"
            ) from None


def _counted(ledger: Ledger, copy: Copy, piece: Piece, last: int) -> Copy:
    """The copy with the commit that was its last piece."""
    versions = commits_between(ledger, piece.after + 1, last)
    commit = next((one for one in versions if (one.query, one.epoch) == (copy.query, piece.number)), None)
    if commit is None:
        return replace(copy, commits=copy.commits + 1, rows=None, bytes=None)
    return replace(
        copy,
        commits=copy.commits + 1,
        rows=None if copy.rows is None else copy.rows + commit.rows,
        bytes=None if copy.bytes is None else copy.bytes + commit.bytes,
        version=commit.version,
    )


def _check_same(copy: Copy, arguments: Mapping[str, str | None], target: Stream) -> None:
    for key, value in arguments.items():
        before = copy.arguments.get(key)
        if before != value:
            raise ConfigurationError(
                f'copy "{copy.name}" into stream "{target}" was begun with {_argument(key, before)}, not with '
                f"{_argument(key, value)}: call it with the same arguments as then, or take another name"
            )


def _argument(key: str, value: str | None) -> str:
    return f"{key} => {'NULL' if value is None else repr(value)}"


def _so_far(copy: Copy) -> str:
    if not copy.pieces:
        return "nothing was copied"
    until = "" if copy.reached_version is None else f", up to version {copy.reached_version}"
    return f"{copy.commits} commits of it are there{until}"


def _result_of(copy: Copy, *, repeated: bool) -> Rows:
    source, counts = copy.arguments["source"], [copy.commits, copy.rows, copy.bytes, copy.version]
    return [[copy.name, source, copy.from_version, copy.to_version, *counts, repeated]]
