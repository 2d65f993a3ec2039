"""Tables with keys: of which events the rows of a moment are made.

A version that takes the place of all rows begins an era: from it on, the rows are made of the events behind a stream
cut that its entry in the commit log names. A compaction begins one, too, but changes no row: the rows that it has
written are those of that cut.

Where the stream needn't hold what lies in the lake, an era begins at each of the lake's cuts, with the rows that are
there (`Era.lake`). Those before the first of them are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.positions import CutOrder, compare_cuts, proper_cut
from pyspark_pravega.connector.log import Base, Ledger, Snapshot, State, open_ledger
from pyspark_pravega.connector.read.versions import (
    Moment,
    commit_of,
    parts_until,
    reaches,
    replaced,
    snapshot_until,
    truncated,
)
from pyspark_pravega.errors import InvalidStreamCutError, SegmentTruncatedError

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Era:
    """Versions whose rows are made of the events behind one cut."""

    version: int
    """The one that began it; 0 for the first one of all."""
    begins: Mapping[int, int] | None
    """The cut, empty for the stream's first event; None in logs that didn't keep it: then it is the stream's head."""
    reached: Mapping[int, int] | None = None
    """The cut that this version has reached: moments of the era lie behind it. None where the log has forgotten it."""
    is_last: bool = False
    """Whether no other one has begun since."""
    base: int | None = None
    """Where a compaction began it, or the lake: the first version that lies behind the cut with all of its events."""
    lake: Base | None = None
    """The rows with which it begins, where they are in the lake."""

    @classmethod
    def of_lake(cls, base: Base, *, is_last: bool) -> Era:
        """One that begins with rows in the lake.

        Args:
            base: the rows.
            is_last: as of the attribute.
        """
        cut, version = base.cut, base.version
        return cls(version=version, begins=cut, reached=cut, is_last=is_last, base=version + 1, lake=base)


def eras(ledger: Ledger | None) -> Iterator[Era]:
    """A table's eras, the last one first, as far back as the log knows; none of a table that it has replaced, and none
    of which the stream needn't hold the events, as they are in the lake.

    Args:
        ledger: the stream's commit log, if it has one.
    """
    yield from _eras_at(ledger, State() if ledger is None else ledger.state())


def _eras_at(ledger: Ledger | None, state: State) -> Iterator[Era]:
    """As `eras`, where the log's state is known."""
    lake = state.lake
    kept = None if lake is None else lake.kept_base
    newer: Era | None = None
    for era in _eras_in_stream(ledger, state):
        if lake is not None and kept is not None and era.version <= kept.version:
            last = lake.base
            if last.version > kept.version and (newer is None or last.version < newer.version):
                newer = Era.of_lake(last, is_last=newer is None)
                yield newer
            yield Era.of_lake(kept, is_last=newer is None)
            return
        newer = era
        yield era


def _eras_in_stream(ledger: Ledger | None, state: State) -> Iterator[Era]:
    """All eras that versions have begun."""
    number = state.replaced_rows
    while ledger is not None and number:
        commits, is_last = ledger.commits([number]), number == state.replaced_rows
        if commits and commits[0].begins:
            (one,) = commits
            yield Era(version=number, begins=one.begins, base=one.base, reached=one.cut, is_last=is_last)
            before = one.replaced
        elif is_last and state.reached:
            # The log has forgotten the version, and the state knows where it lies.
            begins = None if state.cleaning is None else state.cleaning.begins or None
            yield Era(version=number, begins=begins, reached=state.reached, is_last=True)
            before = state.replaced_before
        else:
            yield Era(version=number, begins=None, is_last=is_last)
            return
        if number == state.replaced_table:
            return
        number = before
    yield Era(version=0, begins={}, is_last=not state.replaced_rows)


def rows_at(client: Client, stream: Stream, moment: Moment) -> Snapshot:
    """What a table with a key held at a moment: its rows are made of all events of an era until then, so none may be
    missing.

    Args:
        client: the cluster.
        stream: the stream.
        moment: the moment.

    Raises:
        SegmentTruncatedError: some of them are gone.
    """
    ledger = open_ledger(client, stream)
    return _of_eras(ledger, lambda eras_then: _rows_at(client, eras_then, stream, moment))


def _of_eras(ledger: Ledger | None, tell: Callable[[Iterator[Era]], Answer]) -> Answer:
    """What eras tell; again where something was released meanwhile, which is gone from the stream, and in the lake."""
    while True:
        state = State() if ledger is None else ledger.state()
        try:
            return tell(_eras_at(ledger, state))
        except SegmentTruncatedError:
            if ledger is None or ledger.state().lake == state.lake:
                raise


def _rows_at(client: Client, eras_then: Iterable[Era], stream: Stream, moment: Moment) -> Snapshot:
    known: list[Era] = []
    for era in eras_then:
        known.append(era)
        if _is_in(client, stream, moment, era) is False:
            continue
        try:
            return events_of(client, stream, era, moment)
        except SegmentTruncatedError:
            if era == known[0]:
                raise
            break
    else:
        if known[-1].lake is not None and known[0].base is not None:
            raise before_lake(stream, moment, known[-1].lake)
    if moment.version is None:
        raise truncated(stream, moment.name)
    raise replaced(stream, moment.name, known[0].version)


def before_lake(stream: Stream, moment: Moment, kept: Base) -> SegmentTruncatedError:
    """The error of a moment before all that can be told of a table with a key: the stream needn't hold its events.

    Args:
        stream: the stream.
        moment: the moment.
        kept: the rows in the lake with which what can be told begins.
    """
    return SegmentTruncatedError(
        f'the rows of stream "{stream}" at {moment.name} can\'t be told any more: its events before version '
        f"{kept.version} were removed, as the rows of that version are in the lake; read version {kept.version}, or a "
        "later one"
    )


def events_of(client: Client, stream: Stream, era: Era, moment: Moment) -> Snapshot:
    """The events of an era until a moment.

    Args:
        client: the cluster.
        stream: the stream.
        era: the era.
        moment: the moment; it isn't before the era.

    Raises:
        SegmentTruncatedError: some of them are gone.
    """
    if era.lake is not None:
        start = Moment(offsets=dict(era.lake.cut), name=f"version {era.version}", version=era.version)
        try:
            parts = parts_until(client, stream, start, moment)
        except InvalidStreamCutError:
            raise truncated(stream, moment.name) from None
        return Snapshot(stream=stream, parts=tuple(parts), base=era.lake)
    if era.begins is None and era.is_last:
        return snapshot_until(client, stream, moment)
    if era.begins is None:
        ledger = open_ledger(client, stream)
        state = State() if ledger is None else ledger.state()
        if state.cleaning is None or not state.cleaning.held or era.version < state.released:
            raise truncated(stream, moment.name)
        # All that is there is kept for it.
        return Snapshot(stream=stream, parts=tuple(parts_until(client, stream, None, moment)))
    if era.begins:
        start = Moment(offsets=dict(era.begins), name=f"version {era.version}")
        return Snapshot(stream=stream, parts=tuple(parts_until(client, stream, start, moment)))
    head = client.controller.head(stream)
    if any(offset or segment_id >> 32 for segment_id, offset in head.items()):
        raise truncated(stream, moment.name)
    return Snapshot(stream=stream, parts=tuple(parts_until(client, stream, None, moment)))


def events_of_changes(client: Client, ledger: Ledger, first: int, last: int) -> tuple[Era, Snapshot]:
    """What tells what some versions have changed: the rows before them, and all of their events.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.

    Returns:
        An era, and its events until the last version.

    Raises:
        SegmentTruncatedError: one of the versions took the place of all rows, or what they were before is gone.
        VersionNotFoundError: a version isn't known any more.
    """
    end = Moment(offsets=commit_of(ledger, ledger.stream, last).cut, name=f"version {last}", version=last)
    return _of_eras(ledger, lambda eras_then: _events_of_changes(client, ledger.stream, eras_then, first, end))


def _events_of_changes(
    client: Client, stream: Stream, eras_then: Iterable[Era], first: int, end: Moment
) -> tuple[Era, Snapshot]:
    last, newest, oldest = end.version or 0, None, None
    for era in eras_then:
        newest, oldest = newest or era, era
        if era.version > last or (era.version >= first and era.base is not None and first < era.base):
            continue
        if era.version >= first and era.base is None:
            newest = era
            break
        try:
            return era, events_of(client, stream, era, end)
        except SegmentTruncatedError:
            break
    else:
        if oldest is not None and (kept := oldest.lake) is not None:
            raise SegmentTruncatedError(
                f'what version {first} of stream "{stream}" has changed can\'t be told: its events before version '
                f"{kept.version} were removed, as the rows of that version are in the lake; begin with "
                f"{kept.version + 1}"
            )
    assert newest is not None
    why = "took the place of all rows" if newest.base is None else "is a compaction"
    begin = newest.version + 1 if newest.base is None else newest.base
    raise SegmentTruncatedError(
        f'what version {first} of stream "{stream}" has changed can\'t be told: version {newest.version} {why}, and '
        f"what the rows were before is gone; begin with {begin}"
    )


def only_compacted_since(ledger: Ledger, version: int) -> bool:
    """Whether no later version than one took the place of all rows, but compactions, which change none.

    Args:
        ledger: the stream's commit log.
        version: the version.
    """
    for era in _eras_in_stream(ledger, ledger.state()):
        if era.version <= version:
            return True
        if era.base is None:
            return False
    return True


def era_of(known: Iterable[Era], version: int) -> Era | None:
    """The era of a version: changes after it are told by its events from the begin on.

    Args:
        known: the table's eras, the last one first, as one call of `eras` gave them.
        version: the version.

    Returns:
        None where it isn't known any more.
    """
    return next((era for era in known if era.version <= version), None)


def era_at(client: Client, stream: Stream, moment: Moment, known: Iterable[Era]) -> Era | None:
    """The era of a moment.

    Args:
        client: the cluster.
        stream: the table's stream.
        moment: the moment.
        known: the table's eras, the last one first, as one call of `eras` gave them. The log forgets versions
            meanwhile, so two calls needn't agree.

    Returns:
        None where it isn't known any more.
    """
    for era in known:
        is_in = _is_in(client, stream, moment, era)
        if is_in is not False:
            return era if is_in else None
    return None


def _is_in(client: Client, stream: Stream, moment: Moment, era: Era) -> bool | None:
    """Whether a moment lies in an era, or behind it; None where the log doesn't know any more how far its first version
    has reached.
    """
    if not era.version:
        return True
    if moment.version is not None:
        return era.version <= moment.version
    if era.lake is not None:
        cuts = (proper_cut(client, stream, cut) for cut in (era.lake.cut, moment.offsets))
        return compare_cuts(client.controller, *cuts) in (CutOrder.BEFORE, CutOrder.SAME)
    # A cut has no version; it must have the rows that took the place of all others.
    if era.reached is None:
        return None
    # From the era's begin on: before it another process may just be removing events.
    start = Moment(offsets=dict(era.begins), name=f"version {era.version}") if era.begins else None
    try:
        return reaches(parts_until(client, stream, start, moment), era.reached)
    except (SegmentTruncatedError, InvalidStreamCutError):
        return False
