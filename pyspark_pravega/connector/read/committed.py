"""What versions of a stream have added, as ranges of bytes of its segments."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.client.positions import SegmentRanges, parts_between
from pyspark_pravega.client.segments import SegmentState, segment_states
from pyspark_pravega.connector.log import Commit, Ledger
from pyspark_pravega.connector.read.partitions import PACKED_BYTES, SlicePartition, pack
from pyspark_pravega.connector.read.versions import Moment, commit_of, parts_until, truncated
from pyspark_pravega.errors import ConfigurationError, SegmentTruncatedError, VersionNotFoundError

Longs = npt.NDArray[np.int64]

MOST_ADDITIONS = 4_000_000
"""How many additions, of one version to one segment each, are planned at once: some 100 MB of memory."""
_AT_ONCE = 200
"""How many commits are asked for in one look."""
_LOOKED_AT = 50
"""In how many versions at once it is looked for events."""
_OFFSETS_AT_ONCE = 1_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class CommittedRange:
    """A range of a segment's bytes, and which version has added which part of it.

    What others have written since the commit before belongs to a version, too.
    """

    part: SegmentPart
    ends: Longs
    """Ascending: behind the part's start each version's bytes end here."""
    versions: Longs
    times: Longs
    """When each was committed, in milliseconds since 1970."""

    def __reduce__(self) -> tuple[Callable[..., CommittedRange], tuple[SegmentPart, bytes, bytes, bytes]]:
        # Plans travel to the JVM and on to the tasks. Differences are small, so little is left of them.
        return _unpacked, (self.part, _packed(self.ends), _packed(self.versions), _packed(self.times))

    def indexes(self, offsets: Longs) -> Longs:
        """For each event the index, in `versions` and `times`, of what has added it.

        Args:
            offsets: where the events begin in the segment.
        """
        return np.searchsorted(self.ends, offsets, side="right")

    def between(self, first: int, last: int) -> CommittedRange:
        """A part of it.

        Args:
            first: the index of the first addition.
            last: the index behind the last one.
        """
        start = int(self.ends[first - 1]) if first else self.part.start
        part = replace(self.part, start=start, end=int(self.ends[last - 1]))
        some = slice(first, last)
        return CommittedRange(part=part, ends=self.ends[some], versions=self.versions[some], times=self.times[some])

    def pieces(self, size: int) -> Iterator[CommittedRange]:
        """It in pieces of whole versions.

        Args:
            size: how many bytes a piece has at most; one version alone may have more.
        """
        first, start = 0, self.part.start
        while first < len(self.ends):
            last = max(first + 1, int(np.searchsorted(self.ends, start + size, side="right")))
            yield self.between(first, last)
            first, start = last, int(self.ends[last - 1])


class CommittedPartition(SlicePartition):
    """Ranges of segments that versions have added, read by one task."""

    def __init__(self, ranges: Sequence[CommittedRange]) -> None:
        super().__init__([one.part for one in ranges])
        self.ranges = tuple(ranges)


def committed_partitions(ranges: Sequence[CommittedRange]) -> list[CommittedPartition]:
    """Share what versions have added out among tasks: small ranges share one, large ones are split between versions.

    Args:
        ranges: what versions have added.
    """
    pieces = (piece for one in ranges for piece in one.pieces(PACKED_BYTES))
    return [CommittedPartition(some) for some in pack(pieces, lambda piece: piece.part.size)]


def committed_ranges(
    client: Client,
    ledger: Ledger,
    first: int,
    last: int,
    *,
    fail_on_data_loss: bool = True,
    begins: Mapping[int, int] | None = None,
) -> list[CommittedRange]:
    """What versions have added.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.
        fail_on_data_loss: whether what isn't there any more is an error, or left out.
        begins: a cut at which the first version's events begin, too, in place of that of the version before: where the
            stream was scaled between the two, segments of the other one may be gone.

    Returns:
        Ranges with events, ordered by segment and then by version.

    Raises:
        VersionNotFoundError: one of them, or the one before the first one, isn't known any more.
        SegmentTruncatedError: a part of it was truncated away.
        ConfigurationError: it is too much for one plan.
    """
    additions = _Additions(client, ledger, fail_on_data_loss=fail_on_data_loss)
    before: Commit | None = None
    expected = max(1, first - 1)
    for commit in commits_between(ledger, expected, last):
        if commit.version > expected and fail_on_data_loss:
            # It says why it isn't there.
            commit_of(ledger, ledger.stream, expected)
        expected = commit.version + 1
        if commit.version >= first and (before is not None or commit.version == 1):
            additions.add(before, commit)
            if additions.count > MOST_ADDITIONS:
                raise ConfigurationError(
                    f'versions {first} to {last} of stream "{ledger.stream}" have too many changes to be read at once: '
                    f"versions {first} to {commit.version} alone have added events to segments {additions.count} "
                    f"times, and {MOST_ADDITIONS} is the most; read fewer versions at once, or read them by a "
                    "streaming query"
                )
        before = commit if begins is None or commit.version != first - 1 else replace(commit, cut=dict(begins))
    if expected <= last and fail_on_data_loss:
        commit_of(ledger, ledger.stream, expected)
    return _still_there(client, ledger.stream, additions.ranges(), fail_on_data_loss=fail_on_data_loss)


def first_whole_version(client: Client, ledger: Ledger, first: int, last: int) -> int:
    """The first of some versions that no truncation has taken anything from.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.

    Returns:
        One more than `last` where there is none.
    """

    def look(version: int) -> None:
        # One without events isn't gone, and says nothing of those behind it.
        for begin in range(version, last + 1, _LOOKED_AT):
            if committed_ranges(client, ledger, begin, min(last, begin + _LOOKED_AT - 1)):
                return

    return first_that_is_there(first, last, look)


def first_that_is_there(first: int, last: int, look: Callable[[int], object]) -> int:
    """The first of some versions of which nothing is gone. What is gone is gone from the front.

    Args:
        first: the first version.
        last: the last one.
        look: looks at a version, and raises when something of it is gone.

    Returns:
        One more than `last` where there is none.
    """
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        try:
            look(middle)
        except (SegmentTruncatedError, VersionNotFoundError):
            low = middle + 1
        else:
            high = middle
    return low


def commits_between(ledger: Ledger, first: int, last: int) -> Iterator[Commit]:
    """Versions in their order, asked for some at a time; those that aren't there are left out.

    Args:
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.
    """
    for begin in range(first, last + 1, _AT_ONCE):
        yield from ledger.commits(range(begin, min(last + 1, begin + _AT_ONCE)))


class _Additions:
    """Collects what each version has added to each segment, as columns of numbers."""

    def __init__(self, client: Client, ledger: Ledger, *, fail_on_data_loss: bool) -> None:
        self._client, self._ledger, self._fail_on_data_loss = client, ledger, fail_on_data_loss
        self._stream = ledger.stream
        self._segments = SegmentRanges(client, self._stream)
        self._row: list[Commit] = []
        """Versions that follow each other, whose cuts name the same segments."""
        self._by_segment: dict[int, list[Longs]] = {}
        """Arrays of four rows: starts, ends, versions and times."""
        self.count = 0

    def add(self, before: Commit | None, commit: Commit) -> None:
        """Add a version, behind those that were added.

        Args:
            before: the version before; None for the first one of all.
            commit: the version.
        """
        if before is None or before.cut.keys() != commit.cut.keys():
            self._settle_row()
            self._add_parts(commit, self._parts(before, commit))
            return
        if not self._row or self._row[-1] is not before:
            self._settle_row()
            self._row = [before]
        self._row.append(commit)
        if len(self._row) * len(commit.cut) > _OFFSETS_AT_ONCE:
            self._settle_row()

    def ranges(self) -> list[CommittedRange]:
        """All of it; where something between two versions is missing a new range begins."""
        self._settle_row()
        ranges = []
        for segment_id in sorted(self._by_segment):
            starts, ends, versions, times = np.concatenate(self._by_segment[segment_id], axis=1)
            borders = [0, *(np.flatnonzero(starts[1:] != ends[:-1]) + 1).tolist(), len(starts)]
            for first, last in pairwise(borders):
                some = slice(first, last)
                part = SegmentPart(
                    stream=self._stream, segment_id=segment_id, start=int(starts[first]), end=int(ends[last - 1])
                )
                ranges.append(CommittedRange(part=part, ends=ends[some], versions=versions[some], times=times[some]))
        return ranges

    def _settle_row(self) -> None:
        """The stream wasn't scaled between these versions: nobody has to be asked."""
        row, self._row = self._row, []
        if len(row) < 2:
            return
        segment_ids = sorted(row[0].cut)
        offsets = np.maximum(0, np.array([[commit.cut[s] for s in segment_ids] for commit in row], np.int64))
        sizes = np.diff(offsets, axis=0)
        for index in np.flatnonzero((sizes < 0).any(axis=1))[:1]:
            # It says what is wrong.
            states = dict.fromkeys(segment_ids, SegmentState(start_offset=0, write_offset=0, sealed=False))
            parts_between(self._stream, states, row[index].cut, row[index + 1].cut)
        versions = np.array([commit.version for commit in row[1:]], np.int64)
        times = np.array([commit.committed_at for commit in row[1:]], np.int64)
        for column, segment_id in enumerate(segment_ids):
            some = np.flatnonzero(sizes[:, column])
            if len(some):
                self._keep(segment_id, offsets[some, column], offsets[some + 1, column], versions[some], times[some])

    def _add_parts(self, commit: Commit, parts: Sequence[SegmentPart]) -> None:
        for part in parts:
            if part.size:
                numbers = (part.start, part.end, commit.version, commit.committed_at)
                self._keep(part.segment_id, *(np.array([number], np.int64) for number in numbers))

    def _keep(self, segment_id: int, *columns: Longs) -> None:
        self._by_segment.setdefault(segment_id, []).append(np.stack(columns))
        self.count += len(columns[0])

    def _parts(self, before: Commit | None, commit: Commit) -> list[SegmentPart]:
        start = None if before is None else Moment(offsets=before.cut, name=f"version {before.version}")
        end = Moment(offsets=commit.cut, name=f"version {commit.version}")
        try:
            parts = parts_until(self._client, self._stream, start, end, self._segments)
            if (
                start is None
                and any(part.start for part in parts)
                and (sum(part.size for part in parts) < commit.bytes or self._ledger.state().has_lake)
            ):
                # The stream begins where the first version ends, or behind.
                raise truncated(self._stream, end.name)
            return parts
        except SegmentTruncatedError:
            if self._fail_on_data_loss:
                raise
            return []


def _still_there(
    client: Client, stream: Stream, ranges: list[CommittedRange], *, fail_on_data_loss: bool
) -> list[CommittedRange]:
    states = segment_states(client.pool, stream, {one.part.segment_id for one in ranges})
    there, lost = [], []
    for one in ranges:
        state = states[one.part.segment_id]
        if state is not None and state.start_offset <= one.part.start:
            there.append(one)
            continue
        lost.append(int(one.versions[0]))
        if state is not None and state.start_offset < one.part.end:
            rest = one.between(int(np.searchsorted(one.ends, state.start_offset, side="right")), len(one.ends))
            start = max(rest.part.start, state.start_offset)
            there.append(replace(rest, part=replace(rest.part, start=start)))
    if lost and fail_on_data_loss:
        raise SegmentTruncatedError(
            f'a part of version {min(lost)} of stream "{stream}" was truncated away: events that belong to it are '
            "gone; begin with a later one"
        )
    return there


def _packed(numbers: Longs) -> bytes:
    return zlib.compress(np.diff(numbers, prepend=0).astype("<i8").tobytes(), 1)


def _unpacked(part: SegmentPart, *packed: bytes) -> CommittedRange:
    ends, versions, times = (np.cumsum(np.frombuffer(zlib.decompress(data), "<i8")) for data in packed)
    return CommittedRange(part=part, ends=ends, versions=versions, times=times)
