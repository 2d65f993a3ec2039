"""From where to where a read goes: what bounds mean in a stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.client.positions import check_cut, proper_cut
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.bounds import Bound, CutName, Offsets, PerStream, Time, Word
from pyspark_pravega.connector.log import VERSION_EVERY, open_ledger, take_snapshot
from pyspark_pravega.connector.option_names import END_CUT, END_TIME, START_CUT, START_TIME
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read.times import mark_before
from pyspark_pravega.connector.read.versions import commit_until, cut_names, named_cut
from pyspark_pravega.errors import ConfigurationError, InvalidStreamCutError, SegmentTruncatedError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Extent:
    """From where to where a read of one stream goes."""

    start: StreamCut | Word
    """A cut, the head (EARLIEST), or the tail when the query begins (LATEST)."""
    end: StreamCut | Word
    """A cut; the tail when the query begins (LATEST); none (UNBOUNDED), which is the tail for a batch; or the head
    (EARLIEST), where nothing was committed before the time that is given."""
    is_final: bool = True
    """Whether the bounds mean the same later: a time that hasn't passed may not."""

    def is_of(self, segment_ids: Collection[int]) -> bool:
        """Whether a stream is still the one that its cuts are of, and has not lost all that they name.

        Args:
            segment_ids: what the stream has. One that is dropped and made again has others.
        """
        named = [segment_id for cut in (self.start, self.end) if isinstance(cut, StreamCut) for segment_id in cut]
        return not named or not set(named).isdisjoint(segment_ids)


@dataclass(frozen=True)
class _Resolved:
    """What a bound means in a stream."""

    at: StreamCut | Word
    is_final: bool = True
    """As of `Extent`."""


def resolve_extent(client: Client, stream: Stream, options: ReadOptions, *, streams: int = 1) -> Extent:
    """What a read's bounds mean in a stream.

    Args:
        client: the cluster.
        stream: the stream.
        options: hold the bounds.
        streams: how many streams the query reads.

    Raises:
        ConfigurationError: a bound says nothing about this stream, or is the name of no cut.
        InvalidStreamCutError: it isn't a cut of the stream, or the end lies before the start.
    """
    first, behind = _start(client, stream, options, streams), _end(client, stream, options, streams)
    start, end = first.at, behind.at
    if start is Word.LATEST and end is not Word.UNBOUNDED:
        raise ConfigurationError(
            f'option "{options.word(START_CUT)}" can\'t be latest where the end is given: nothing would be read'
        )
    # Where nothing was committed before the time that is given, the end is the head.
    last = client.controller.head(stream) if end is Word.EARLIEST and isinstance(start, StreamCut) else end
    if isinstance(start, StreamCut) and isinstance(last, StreamCut):
        check_order(start, last)
        # Between cuts of segments that have nothing in common only the controller knows.
        client.controller.segments_between(stream, start, last)
    return Extent(start=start, end=end, is_final=first.is_final and behind.is_final)


def resolve_start(client: Client, stream: Stream, options: ReadOptions, *, streams: int = 1) -> StreamCut | Word:
    """Where a read begins; see `Extent.start`, and `resolve_extent`."""
    return _start(client, stream, options, streams).at


def resolve_end(client: Client, stream: Stream, options: ReadOptions, *, streams: int = 1) -> StreamCut | Word:
    """Where a read ends; see `Extent.end`, and `resolve_extent`."""
    return _end(client, stream, options, streams).at


def resolve_extents(client: Client, streams: Sequence[Stream], options: ReadOptions) -> list[Extent]:
    """What a read's bounds mean in each of its streams, when a query is defined.

    Args:
        client: the cluster.
        streams: the query's streams.
        options: hold the bounds; without any nothing is asked.

    Returns:
        One for each stream; nothing without bounds.

    Raises:
        ConfigurationError: as `resolve_extent`, and so is InvalidStreamCutError.
    """
    for key, bound in ((START_CUT, options.start), (END_CUT, options.end)):
        if isinstance(bound, PerStream):
            names = [str(stream) for stream in streams]
            for name in bound.bounds.keys() - set(names):
                raise ConfigurationError(
                    f'option "{options.word(key)}" names stream "{name}", which isn\'t read{did_you_mean(name, names)}'
                )
    if not options.has_bounds:
        return []
    return [resolve_extent(client, stream, options, streams=len(streams)) for stream in streams]


def check_order(start: StreamCut, end: Mapping[int, int]) -> None:
    """Refuse an end that lies before its start in a segment.

    Raises:
        InvalidStreamCutError: it does.
    """
    for segment_id, offset in end.items():
        if 0 <= offset < start.get(segment_id, 0):
            raise InvalidStreamCutError(
                f'the end of a read of stream "{start.stream}" lies before its start in segment {segment_id}: '
                f"{offset} < {start[segment_id]}"
            )


def _start(client: Client, stream: Stream, options: ReadOptions, streams: int) -> _Resolved:
    option = options.word(START_TIME if isinstance(options.start, Time) else START_CUT)
    start = _resolve(client, stream, options.start, option, streams)
    return _Resolved(Word.EARLIEST) if start.at is Word.UNBOUNDED else start


def _end(client: Client, stream: Stream, options: ReadOptions, streams: int) -> _Resolved:
    option = options.word(END_TIME if isinstance(options.end, Time) else END_CUT)
    end = _resolve(client, stream, options.end, option, streams)
    if end.at is Word.EARLIEST and not isinstance(options.end, Time):
        raise ConfigurationError(f'option "{option}" can\'t be earliest: nothing would be read')
    return end


def _resolve(client: Client, stream: Stream, bound: Bound, option: str, streams: int) -> _Resolved:
    if isinstance(bound, Word):
        return _Resolved(bound)
    if isinstance(bound, Time):
        return _at_time(client, stream, bound, option)
    if isinstance(bound, PerStream):
        if str(stream) not in bound.bounds:
            raise ConfigurationError(f'option "{option}" says nothing about stream "{stream}"')
        return _resolve(client, stream, bound.bounds[str(stream)], option, 1)
    if streams > 1:
        raise ConfigurationError(
            f'option "{option}" gives one cut for {streams} streams: write a JSON object, as in '
            '{"scope/one":"earliest","scope/two":{"0":120}}'
        )
    if isinstance(bound, CutName):
        cut = named_cut(client, stream, bound.name)
        if cut is None:
            words = [word.value for word in Word]
            hint = did_you_mean(bound.name, [*cut_names(client, stream), *words])
            raise ConfigurationError(
                f'option "{option}" must be earliest, latest, unbounded, a cut as JSON like {{"0":120}}, one in the '
                f"Java client's base64, or a cut's name: "
                + (bound.refusal or f'no cut is called "{bound.name[:60]}"{hint}')
            )
        return _Resolved(_checked(client, stream, cut))
    return _Resolved(_checked(client, stream, bound.of(stream) if isinstance(bound, Offsets) else bound))


def _checked(client: Client, stream: Stream, cut: StreamCut) -> StreamCut:
    if cut.stream != stream:
        raise ConfigurationError(f'a cut of stream "{cut.stream}" can\'t bound a read of stream "{stream}"')
    try:
        check_cut(client.pool, cut)
    except SegmentTruncatedError:
        # Whether that matters is failOnDataLoss's to say.
        pass
    return cut


def _at_time(client: Client, stream: Stream, time: Time, option: str) -> _Resolved:
    """The cut behind which everything lies that was written at a time or later, or the head.

    The head isn't final: of what is truncated later, the commit log tells whether it was of that time.

    Pravega 0.13 itself can't tell a cut at a time, so the commit log does. Of a stream without versions the watermarks
    do, in the writers' own measure of time.
    """
    ledger = open_ledger(client, stream)
    if ledger is None or not ledger.state().version:
        mark, is_last = mark_before(client, stream, time.milliseconds)
        if mark is not None:
            return _Resolved(mark.cut, is_final=is_last)
        if ledger is None or take_snapshot(client, stream, ledger).size:
            raise ConfigurationError(
                f'option "{option}" needs versions, and stream "{stream}" has none: nothing was written to it through '
                "this package, and its writers note no time; Pravega itself can't tell a cut at a time: give a cut or "
                f'"earliest", or let versions be made, by the table property "{VERSION_EVERY}" or by CALL take_version'
            )
        return _Resolved(Word.EARLIEST, is_final=False)
    is_final = time.milliseconds <= now_ms()
    before = commit_until(ledger, time.milliseconds - 1)
    if before is None:
        return _Resolved(Word.EARLIEST, is_final=False)
    return _Resolved(proper_cut(client, stream, before.cut), is_final=is_final)
