"""Moments in a stream's past, by number, time, stream cut or name; and what lies before or between them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark_pravega.client import Client, SegmentPart, Stream, StreamCut
from pyspark_pravega.client.positions import CutOrder, SegmentRanges, check_cut, compare_cuts, parts_between, proper_cut
from pyspark_pravega.client.segments import segment_states
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import (
    VERSION_EVERY,
    Commit,
    LakePart,
    Ledger,
    Snapshot,
    State,
    Tiered,
    behind,
    open_ledger,
)
from pyspark_pravega.connector.read.times import mark_before, shown_time
from pyspark_pravega.errors import (
    ConfigurationError,
    InvalidStreamCutError,
    SegmentTruncatedError,
    VersionNotFoundError,
    did_you_mean,
)

CLOCKS_DIFFER_MS = 60_000
"""How far clocks may differ before a version's time isn't believed."""
_NOW_MS, _AT_ONCE = 10_000, 500
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A moment in a stream's past."""

    offsets: dict[int, int]
    """Segment id to offset in bytes; beside the segments of a cut there may be some that lie before it."""
    name: str
    """What it is, for people."""
    version: int | None = None
    """The version whose end it is, if it was asked for by its number or a time."""


def moment_of(client: Client, stream: Stream, version: str) -> Moment:
    """The moment that a version's text means.

    Args:
        client: the cluster.
        stream: the stream.
        version: a commit's number, the name of a cut, or a stream cut: the Java client's text, or JSON.

    Raises:
        VersionNotFoundError: there is no such version; the message says which there are.
        InvalidStreamCutError: it is a cut of another stream, or doesn't cut this one.
        SegmentTruncatedError: what lies behind the cut has been truncated away.
    """
    text = version.strip()
    ledger = open_ledger(client, stream)
    if text.isascii() and text.isdigit():
        return _of(commit_of(ledger, stream, int(text)))
    cuts = {} if ledger is None else ledger.holders().cuts()
    if text in cuts:
        return Moment(offsets=cuts[text].offsets, name=f'cut "{text}"')
    cut = _parsed(stream, text)
    if cut is None:
        known = did_you_mean(text, cuts) if cuts else "; it has no named cuts"
        raise VersionNotFoundError(
            f'stream "{stream}" has no version "{text[:60]}": a version is the number of a commit, the name of a cut, '
            f"or a stream cut as text{known}"
        )
    if cut.stream != stream:
        raise InvalidStreamCutError(f'the stream cut is one of stream "{cut.stream}", not of "{stream}"')
    check_cut(client.pool, cut)
    return Moment(offsets=dict(cut), name="the stream cut")


def moment_at(client: Client, stream: Stream, microseconds: int) -> Moment:
    """The last commit that was made at a time, or before it, or a named cut behind it; without any, the last watermark.

    Args:
        client: the cluster.
        stream: the stream.
        microseconds: the time, since 1970.

    Raises:
        VersionNotFoundError: there was none yet, or it isn't known any more.
    """
    ledger = open_ledger(client, stream)
    when, milliseconds = shown_time(microseconds), microseconds // 1000
    commit = None if ledger is None else last_commit(ledger, milliseconds)
    last = None if commit is None else _of(commit)
    since = -1 if commit is None else min(commit.committed_at, commit.started_at or commit.committed_at)
    cuts = {} if ledger is None else ledger.holders().cuts()
    for name, cut in sorted(cuts.items(), key=lambda item: item[1].created_at):
        # One that got its name later may lie before: it names an old version.
        moment = Moment(offsets=cut.offsets, name=f'cut "{name}"')
        if since < cut.created_at <= milliseconds and _is_behind(client, stream, moment, last):
            last = moment
    if last is None:
        first = None if ledger is None else ledger.first_commit()
        mark = mark_before(client, stream, milliseconds + 1)[0] if first is None else None
        if mark is not None:
            return Moment(offsets=dict(mark.cut), name=f"the watermark of {shown_time(mark.upper_ms * 1000)}")
        if ledger is None:
            raise VersionNotFoundError(
                f'nobody has committed to stream "{stream}" through this package, and its writers note no time: read '
                f'it AS OF a stream cut, or let versions be made, by the table property "{VERSION_EVERY}" or by CALL '
                "take_version"
            )
        known = (
            "it has no commits yet"
            if first is None
            else f"the first one known is of {shown_time(first.committed_at * 1000)}"
        )
        raise VersionNotFoundError(f'stream "{stream}" has no commit or named cut of {when} or before: {known}')
    return last


def named_cut(client: Client, stream: Stream, name: str) -> StreamCut | None:
    """The cut that was given a name.

    Args:
        client: the cluster.
        stream: the stream.
        name: the name.

    Returns:
        None when there is none of that name.
    """
    ledger = open_ledger(client, stream)
    cut = None if ledger is None else ledger.holders().cuts().get(name)
    return None if cut is None else proper_cut(client, stream, cut.offsets)


def cut_names(client: Client, stream: Stream) -> list[str]:
    """The names of a stream's cuts."""
    ledger = open_ledger(client, stream)
    return [] if ledger is None else list(ledger.holders().cuts())


def commit_of(ledger: Ledger | None, stream: Stream, number: int) -> Commit:
    """A completed version by its number.

    Args:
        ledger: the stream's commit log, if it has one.
        stream: the stream.
        number: the version.

    Raises:
        VersionNotFoundError: there is none, or it isn't known any more.
    """
    last = 0 if ledger is None else ledger.state().version
    commits = ledger.commits([number]) if ledger is not None and 1 <= number <= last else []
    if commits:
        return commits[0]
    if 1 <= number <= last:
        raise VersionNotFoundError(
            f'version {number} of stream "{stream}" isn\'t known any more: the commit log keeps the latest ones only; '
            f"`{stream.name}$commits` shows which"
        )
    known = f"its versions are 1 to {last}" if last else "it has no commits yet"
    raise VersionNotFoundError(f'stream "{stream}" has no version {number}: {known}')


def last_commit(ledger: Ledger, milliseconds: int) -> Commit | None:
    """The last commit of a time or before it.

    Args:
        ledger: the stream's commit log.
        milliseconds: the time, since 1970.

    Returns:
        None when there is none, or it isn't known any more.
    """
    # Old versions may be gone; those that are there have ascending times.
    state = ledger.state()
    low, high = 0, state.version
    commit: Commit | None = None
    while low < high:
        middle = (low + high + 1) // 2
        commits = ledger.commits([middle])
        if not commits:
            low = middle
        elif commits[0].committed_at <= milliseconds:
            low, commit = middle, commits[0]
        else:
            high = middle - 1
    return _beside_wrong_clocks(ledger, state, milliseconds, commit)


def _beside_wrong_clocks(ledger: Ledger, state: State, milliseconds: int, commit: Commit | None) -> Commit | None:
    """What a search by time finds, where the last version lies ahead of the clock here. As times ascend so do all
    since one whose writer's clock was ahead. What is there was committed before now, and tells when it was begun.
    """
    now = now_ms()
    if state.committed_at is None or state.committed_at <= now + CLOCKS_DIFFER_MS:
        return commit
    _log.warning(
        'version %d of stream "%s" is of %s, which lies ahead of the clock here: a writer\'s clock was ahead, or this '
        "one is behind. Versions are found by when they were begun",
        *(state.version, ledger.stream, shown_time(state.committed_at * 1000)),
    )
    if abs(milliseconds - now) <= _NOW_MS:
        return next(iter(ledger.commits([state.version])), commit)
    first = 0 if commit is None else commit.version
    for stop in range(state.version, first, -_AT_ONCE):
        for one in ledger.commits(range(stop, max(first, stop - _AT_ONCE), -1)):
            if one.started_at is not None and one.started_at <= milliseconds < one.committed_at:
                return one
    return commit


def _is_behind(client: Client, stream: Stream, moment: Moment, other: Moment | None) -> bool:
    """Whether a moment lies behind another one; None for a stream's head."""
    if other is None:
        return True
    if moment.offsets == other.offsets:
        return False
    try:
        return reaches(parts_until(client, stream, None, moment), other.offsets)
    except SegmentTruncatedError:
        return False


def commit_until(ledger: Ledger, milliseconds: int) -> Commit | None:
    """As `last_commit`, where it matters that there was none.

    Raises:
        VersionNotFoundError: there may have been one, which isn't known any more.
    """
    commit = last_commit(ledger, milliseconds)
    if commit is None:
        first = ledger.first_commit()
        if first is not None and first.version > 1:
            raise VersionNotFoundError(
                f'what stream "{ledger.stream}" held at {shown_time(milliseconds * 1000)} isn\'t known any more: the '
                f"commit log keeps the latest versions only, and the first one known, {first.version}, is of "
                f"{shown_time(first.committed_at * 1000)}; take a later time, or a stream cut"
            )
        if first is not None and first.of_others and first.bytes:
            raise VersionNotFoundError(
                f'what stream "{ledger.stream}" held at {shown_time(milliseconds * 1000)} isn\'t known: others had '
                f"written to it before its first version, which is of {shown_time(first.committed_at * 1000)}; take a "
                "later time, or a stream cut"
            )
    return commit


def snapshot_until(client: Client, stream: Stream, moment: Moment) -> Snapshot:
    """What a stream held at a moment, without what has been truncated since; what of it is in the lake stays there.

    Args:
        client: the cluster.
        stream: the stream.
        moment: the moment.

    Raises:
        SegmentTruncatedError: all of that has been truncated away, or another version took its place.
    """
    try:
        snapshot, error = Snapshot(stream=stream, parts=tuple(parts_until(client, stream, None, moment))), None
    except SegmentTruncatedError as truncation:
        snapshot, error = Snapshot(stream=stream, parts=()), truncation
    ledger = open_ledger(client, stream)
    # Looked up behind the parts: what is truncated later makes the read fail.
    state = None if ledger is None else ledger.state()
    if ledger is not None and state is not None and state.lake is not None:
        with_lake = _with_lake(client, ledger, state, moment)
        if with_lake is not None:
            return with_lake
    if error is not None and state is not None and moment.version is not None and moment.version < state.replaced_rows:
        raise replaced(stream, moment.name, state.replaced_rows) from None
    if error is not None:
        raise error
    if state is None:
        return snapshot
    cleaning = state.cleaning
    is_due = cleaning is not None and bool(cleaning.begins)
    is_reached = cleaning is not None and is_due and reaches(snapshot.parts, cleaning.begins)
    if moment.version is not None and moment.version < state.replaced_rows and (is_reached or not is_due):
        raise replaced(stream, moment.name, state.replaced_rows)
    return behind(snapshot, cleaning.begins) if cleaning is not None and is_reached else snapshot


def _with_lake(client: Client, ledger: Ledger, state: State, moment: Moment) -> Snapshot | None:
    """What a table whose older rows lie in the lake held at a moment; None where the stream alone tells."""
    stream = ledger.stream
    while state.tiered is not None:
        snapshot = _lake_until(client, stream, state, state.tiered, moment)
        # What is released, or replaced, meanwhile may be gone from the stream.
        before, state = state, ledger.state()
        if (state.lake, state.replaced_rows) == (before.lake, before.replaced_rows):
            return snapshot
    kept = 0 if state.lake is None else state.lake.kept
    if kept and moment.version is not None and moment.version < state.replaced_rows:
        raise replaced(stream, moment.name, state.replaced_rows)
    return None


def _lake_until(client: Client, stream: Stream, state: State, tiered: Tiered, moment: Moment) -> Snapshot | None:
    def behind_cut(cut: Mapping[int, int], last: int) -> Snapshot:
        start = Moment(offsets=dict(cut), name=f"version {last}", version=last)
        parts = tuple(parts_until(client, stream, start, moment))
        return Snapshot(stream=stream, parts=parts, tiered=tiered, lake=LakePart(tiered=tiered, last=last))

    if moment.version is not None:
        if moment.version < state.replaced_rows:
            raise replaced(stream, moment.name, state.replaced_rows)
        if moment.version > tiered.version:
            return behind_cut(tiered.cut, tiered.version)
        # Its end is told, and nothing of the stream is read.
        ends = proper_cut(client, stream, moment.offsets)
        parts = tuple(SegmentPart(stream=stream, segment_id=id, start=end, end=end) for id, end in ends.items())
        return Snapshot(stream=stream, parts=parts, tiered=tiered, lake=LakePart(tiered=tiered, last=moment.version))
    cut = proper_cut(client, stream, moment.offsets)
    for begin, last in ((tiered.cut, tiered.version), (tiered.kept_cut, tiered.kept)):
        if last and compare_cuts(client.controller, proper_cut(client, stream, begin), cut) in _FORWARD:
            return behind_cut(begin, last)
    if tiered.kept:
        raise SegmentTruncatedError(
            f'{moment.name} of stream "{stream}" lies before version {tiered.kept}, where the stream begins, as its '
            "older rows are in the lake: they are read there by a version's number, or a time"
        )
    return None


_FORWARD = (CutOrder.BEFORE, CutOrder.SAME)


def reaches(parts: Sequence[SegmentPart], begins: Mapping[int, int]) -> bool:
    """Whether parts from a stream's head on reach a cut that was its tail once: all of them do, or none.

    Args:
        parts: the parts.
        begins: the cut.
    """
    epoch = max(segment_id >> 32 for segment_id in begins)
    ends = {part.segment_id: part.end for part in parts}
    return any(segment_id >> 32 > epoch for segment_id in ends) or all(
        ends.get(segment_id, -1) >= offset for segment_id, offset in begins.items()
    )


def parts_until(
    client: Client, stream: Stream, start: Moment | None, end: Moment, segments: SegmentRanges | None = None
) -> list[SegmentPart]:
    """The parts of a stream between two moments.

    Args:
        client: the cluster.
        stream: the stream.
        start: the earlier moment; None for the stream's head.
        end: the later one.
        segments: what is known already of the stream's segments.

    Raises:
        SegmentTruncatedError: a part of it has been truncated away.
        InvalidStreamCutError: the end lies before the start.
    """
    segments = segments or SegmentRanges(client, stream)
    first = client.controller.head(stream) if start is None else proper_cut(client, stream, start.offsets, segments)
    last = proper_cut(client, stream, end.offsets, segments)
    try:
        ids = set(client.controller.segments_between(stream, first, last))
    except InvalidStreamCutError:
        if start is None:
            raise truncated(stream, end.name) from None
        raise
    states = dict(sorted(segment_states(client.pool, stream, {*ids, *last}).items()))
    between = parts_between(stream, states, None if start is None else start.offsets, end.offsets)
    if between.lost:
        raise truncated(stream, end.name)
    return list(between.parts)


def truncated(stream: Stream, what: str) -> SegmentTruncatedError:
    """The error of a moment whose events are gone.

    Args:
        stream: the stream.
        what: the moment.
    """
    return SegmentTruncatedError(
        f'{what} of stream "{stream}" was truncated away: events that belong to it are gone; read a later one'
    )


def replaced(stream: Stream, what: str, version: int) -> SegmentTruncatedError:
    """The error of a moment whose rows others have taken the place of.

    Args:
        stream: the stream.
        what: the moment.
        version: the one that did it.
    """
    return SegmentTruncatedError(
        f'{what} of stream "{stream}" is gone: version {version} took the place of all its rows; read that one, or a '
        "later one"
    )


def _of(commit: Commit) -> Moment:
    return Moment(offsets=commit.cut, name=f"version {commit.version}", version=commit.version)


def _parsed(stream: Stream, text: str) -> StreamCut | None:
    try:
        if text.startswith("{"):
            return StreamCut.from_json(stream, text)
        cut = StreamCut.from_text(text)
    except ConfigurationError:
        return None
    return cut if isinstance(cut, StreamCut) else None
