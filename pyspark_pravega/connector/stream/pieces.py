"""A range of a stream, read piece by piece: what `CALL copy` copies, and how much of it at a time.

Where the commit log knows the range's versions a piece is some whole versions, else it is some bytes. No piece goes on
behind a scale: a segment and its successors are never in one piece, so that tasks keep the order of keys. A
version that lies on both sides of a scale is in two pieces for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.client.positions import CutOrder, SegmentRanges, compare_cuts, proper_cut
from pyspark_pravega.connector.lake import added_between, table_begin
from pyspark_pravega.connector.log import Commit, Ledger, Tiered, lies_behind, open_ledger, settle, take_snapshot
from pyspark_pravega.connector.read import (
    check_order,
    commit_of,
    commits_between,
    moment_of,
    replaced,
    truncated,
)
from pyspark_pravega.connector.stream.admission import Admission, Limits
from pyspark_pravega.connector.stream.frontier import StreamFrontier
from pyspark_pravega.errors import ConfigurationError

_MOST_VERSIONS = 1000
"""In one piece."""


@dataclass(frozen=True, kw_only=True)
class StreamRange:
    """What lies between two moments of a stream."""

    begin: StreamCut
    end: StreamCut
    first: int | None = None
    """The first version; None where it begins with what is there, or at a cut."""
    last: int | None = None
    """The last version; None where it isn't one of versions."""


@dataclass(frozen=True, kw_only=True)
class PieceEnd:
    """Where a piece ends."""

    cut: StreamCut
    version: int | None = None
    """The version that ends there, where the range is one of versions."""


def range_of(client: Client, stream: Stream, from_version: str | None, to_version: str | None) -> StreamRange:
    """A range of a stream by its versions, or by cuts where one of them is named, or the stream has no versions.

    Args:
        client: the cluster.
        stream: the stream.
        from_version: the first version; or a cut, or a cut's name, behind which it begins. None for all that is there.
        to_version: the last version; or a cut, or a cut's name. None for the last version, or the stream's end.

    Raises:
        VersionNotFoundError: there is no such version, or it isn't known any more.
        SegmentTruncatedError: events of it were truncated away, or another version took the place of its rows.
        ConfigurationError: it ends before it begins; so does InvalidStreamCutError.
    """
    ledger = open_ledger(client, stream)
    texts = [text.strip() for text in (from_version, to_version) if text is not None]
    state = None if ledger is None else settle(client, ledger)
    if ledger is not None and state is not None and state.version and all(map(_is_number, texts)):
        first = None if from_version is None else int(from_version)
        last = commit_of(ledger, stream, state.version if to_version is None else int(to_version))
        stream_range = _by_versions(client, ledger, first, last, state.replaced_rows)
        if first is None and compare_cuts(client.controller, stream_range.begin, stream_range.end) not in _FORWARD:
            if to_version is not None:
                raise truncated(stream, f"version {last.version}")
            # All of it was truncated, and nothing has come since.
            return StreamRange(begin=stream_range.begin, end=stream_range.begin, last=last.version)
        return stream_range
    begin = table_begin(client, stream) if from_version is None else _cut(client, stream, from_version, before=True)
    end = take_snapshot(client, stream, ledger).cut if to_version is None else _cut(client, stream, to_version)
    end = StreamFrontier(client, stream).at(proper_cut(client, stream, end)).cut
    check_order(begin, end)
    client.controller.segments_between(stream, begin, end)
    return StreamRange(begin=begin, end=end)


class Pieces:
    """Finds the pieces of a range. Used by one thread at a time."""

    def __init__(self, client: Client, wanted: StreamRange, *, size: int, single: bool = False) -> None:
        """Begin.

        Args:
            client: the cluster.
            wanted: the range.
            size: how many bytes a piece has at most; one version alone may have more.
            single: whether a piece is to hold one version only.
        """
        self._client, self._range, self._size, self._single = client, wanted, size, single
        self._stream = wanted.begin.stream
        self._admission = Admission(client)

    def behind(self, reached: PieceEnd) -> PieceEnd | None:
        """Where the next piece ends; None when there is none.

        Args:
            reached: where it begins.

        Raises:
            VersionNotFoundError: versions that are to be read aren't known any more.
            DataLossError: events that are to be read are gone.
        """
        if reached.cut == self._range.end:
            return None
        tiered = self._ahead_in_lake(reached)
        if tiered is not None:
            return self._some_in_lake(reached, tiered)
        if self._range.last is None:
            return PieceEnd(cut=self._some_bytes(reached.cut, self._range.end, self._size))
        ledger = open_ledger(self._client, self._stream)
        assert ledger is not None
        if reached.version is not None:
            return self._some_versions(ledger, reached.cut, reached.version)
        oldest = ledger.first_commit()
        first = self._first_behind(ledger, reached.cut, self._range.last if oldest is None else oldest.version)
        # Before the oldest there may be many versions of which nothing is known any more.
        size = None if oldest is not None and oldest.version == 1 else self._size
        cut = self._some_bytes(reached.cut, first.cut, size)
        return PieceEnd(cut=cut, version=first.version if cut == first.cut else None)

    def _ahead_in_lake(self, reached: PieceEnd) -> Tiered | None:
        """What lies in the lake, where the next events lie there only."""
        ledger = open_ledger(self._client, self._stream)
        tiered = None if ledger is None else ledger.state().tiered
        if tiered is None or not tiered.kept:
            return None
        return None if lies_behind(SegmentRanges(self._client, self._stream), reached.cut, tiered.kept_cut) else tiered

    def _some_in_lake(self, reached: PieceEnd, tiered: Tiered) -> PieceEnd:
        """A piece in the lake, where scales don't matter: tasks keep the order of keys across them."""
        ledger = open_ledger(self._client, self._stream)
        assert ledger is not None
        ranges = SegmentRanges(self._client, self._stream)
        end = proper_cut(self._client, self._stream, tiered.cut, ranges)
        is_last = not lies_behind(ranges, self._range.end, tiered.cut)
        whole = PieceEnd(cut=self._range.end, version=self._range.last) if is_last else PieceEnd(cut=end)
        if self._range.last is None:
            return whole
        last = min(tiered.version, self._range.last)
        if not is_last:
            whole = PieceEnd(cut=end, version=tiered.version)
        if reached.version is None:
            oldest = ledger.first_commit()
            if oldest is None or oldest.version > last:
                return whole
            first = self._first_behind(ledger, reached.cut, oldest.version)
            return first if first.version is not None and first.version <= last else whole
        piece_end, size = None, 0
        for expected, commit in enumerate(commits_between(ledger, reached.version + 1, last), reached.version + 1):
            size += commit.bytes
            is_full = size > self._size or expected > reached.version + _MOST_VERSIONS
            if commit.version != expected or (piece_end is not None and is_full):
                break
            piece_end = PieceEnd(cut=self._end_of(commit), version=expected)
            if self._single:
                break
        if piece_end is None:
            # It says why it isn't there.
            commit_of(ledger, self._stream, reached.version + 1)
            return whole
        return piece_end

    def _some_versions(self, ledger: Ledger, reached: StreamCut, version: int) -> PieceEnd:
        assert self._range.last is not None
        piece_end, size = None, 0
        for expected, commit in enumerate(commits_between(ledger, version + 1, self._range.last), version + 1):
            if commit.version != expected:
                break
            cut = self._end_of(commit)
            size += commit.bytes
            is_scaled = cut.keys() != reached.keys()
            if piece_end is not None and (is_scaled or size > self._size or expected > version + _MOST_VERSIONS):
                return piece_end
            if is_scaled:
                until = self._some_bytes(reached, cut, None)
                return PieceEnd(cut=until, version=expected if until == cut else None)
            piece_end = PieceEnd(cut=cut, version=expected)
            if self._single:
                return piece_end
        if piece_end is None:
            # It says why it isn't there.
            return PieceEnd(cut=self._end_of(commit_of(ledger, self._stream, version + 1)), version=version + 1)
        return piece_end

    def _first_behind(self, ledger: Ledger, begin: StreamCut, oldest: int) -> PieceEnd:
        """The first version that is known and ends behind a cut."""
        assert self._range.last is not None
        piece_end = PieceEnd(cut=self._range.end, version=self._range.last)
        low, high = oldest, self._range.last
        while low < high:
            middle = (low + high) // 2
            cut = self._end_of(commit_of(ledger, self._stream, middle))
            if compare_cuts(self._client.controller, begin, cut) is CutOrder.BEFORE:
                piece_end, high = PieceEnd(cut=cut, version=middle), middle
            else:
                low = middle + 1
        return piece_end

    def _some_bytes(self, reached: StreamCut, end: StreamCut, size: int | None) -> StreamCut:
        frontier = StreamFrontier(self._client, self._stream)
        look = frontier.look(frontier.at(reached), end)
        available = {(self._stream, s): (start, look.ends[s]) for s, start in look.position.items()}
        ends = self._admission.admit(available, Limits(max_bytes=size))
        return StreamCut(self._stream, {segment_id: offset for (_, segment_id), offset in ends.items()})

    def _end_of(self, commit: Commit) -> StreamCut:
        if commit.version == self._range.last:
            return self._range.end
        return proper_cut(self._client, self._stream, commit.cut)


_FORWARD = (CutOrder.BEFORE, CutOrder.SAME)


def _by_versions(client: Client, ledger: Ledger, first: int | None, last: Commit, replaced_rows: int) -> StreamRange:
    stream = ledger.stream
    if first is not None and first > last.version:
        # A later one than there is says so itself.
        commit_of(ledger, stream, first)
        raise ConfigurationError(f'version {last.version} of stream "{stream}" comes before version {first}')
    if min(last.version, first or last.version) < replaced_rows:
        raise replaced(stream, f"version {first or last.version}", replaced_rows)
    end = proper_cut(client, stream, last.cut)
    if first is None:
        return StreamRange(begin=table_begin(client, stream), end=end, last=last.version)
    begins: Mapping[int, int] = commit_of(ledger, stream, first).begins
    if not begins:
        # What it has added must be there, all of it.
        added_between(client, ledger, first, first)
        begins = table_begin(client, stream) if first == 1 else commit_of(ledger, stream, first - 1).cut
    return StreamRange(begin=proper_cut(client, stream, begins), end=end, first=first, last=last.version)


def _cut(client: Client, stream: Stream, text: str, *, before: bool = False) -> StreamCut:
    """The cut that a version's text means: of a number the version's end, or the one before it."""
    if before and _is_number(text):
        number = int(text)
        return table_begin(client, stream) if number == 1 else _cut(client, stream, str(number - 1))
    return proper_cut(client, stream, moment_of(client, stream, text).offsets)


def _is_number(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit()
