"""The planning of streaming reads, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from client_tools import append, framed, make_stream
from connector_tools import begin, numbered, raw_table, run_task
from pyspark.sql.types import StructType

from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.connector.bounds import Bound, parse_bound, parse_time
from pyspark_pravega.connector.official import event_rows
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.stream.lag import lag_of, summary
from pyspark_pravega.connector.stream.offsets import SourceOffset
from pyspark_pravega.connector.stream.reader import SeveralStreamsReader
from pyspark_pravega.connector.stream.source import StreamSource
from pyspark_pravega.connector.table.definition import TableDefinition, raw_definition
from pyspark_pravega.errors import ConfigurationError, DataLossError, InvalidStreamCutError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


class Query:
    """Runs micro-batches as Spark does: each offset only from those before it, read by another object."""

    def __init__(self, client: Client, settings: Settings, *streams: Stream, **options: object) -> None:
        bounds: dict[str, Bound] = {
            name: parse_bound(name, text) for name in ("start", "end") if isinstance(text := options.get(name), str)
        }
        for name in ("start", "end"):
            if f"{name}_time" in options:
                bounds[name] = parse_time(name, str(options.pop(f"{name}_time")))
        self.options = ReadOptions(**{**options, **bounds})  # type: ignore[arg-type]
        self.source = StreamSource(client, streams, self.options)
        definitions = [raw_definition(settings, stream, {}) for stream in streams]
        self._reader = SeveralStreamsReader(definitions, ["event"], self.options)
        self.offset = self.source.initial_offset()

    def batch(self, target: SourceOffset | None = None) -> list[str]:
        """The next micro-batch's events; empty when there is none."""
        end = self.source.latest_offset(self.offset, target=target)
        end = SourceOffset.from_json(end.to_json())
        events = self.read(self.offset, end)
        assert bool(events) == (end != self.offset)
        self.offset = end
        return events

    def batches(self, target: SourceOffset | None = None) -> list[list[str]]:
        """All micro-batches until nothing is left."""
        micro_batches = []
        while batch := self.batch(target):
            micro_batches.append(batch)
        return micro_batches

    def read(self, start: SourceOffset, end: SourceOffset) -> list[str]:
        return [
            event.decode()
            for partition in self.source.partitions(start, end)
            for batch in self._reader.read(partition)
            for event in batch.column("event").to_pylist()
        ]


def write(client: Client, stream: Stream, events: list[str]) -> None:
    with client.writer(stream) as writer:
        writer.write_batch([event.encode() for event in events], [event.split(":")[0] for event in events])


def events(first: int, count: int, *, keys: int = 5) -> list[str]:
    return [f"k{key}:{number}" for number in range(first, first + count) for key in range(keys)]


def position(query: Query, stream: Stream) -> dict[int, int]:
    return dict(query.offset[stream].cut)


def test_successors_come_when_their_predecessors_are_behind_the_offsets(
    client: Client, settings: Settings, scope: str
) -> None:
    stream = make_stream(client, scope, "s", segments=2)
    write(client, stream, events(0, 3))
    client.controller.scale_stream(stream, [0, 1], [(0.0, 0.2), (0.2, 0.7), (0.7, 1.0)])
    write(client, stream, events(3, 3))
    query = Query(client, settings, stream)
    assert sorted(query.batch()) == sorted(events(0, 3))
    assert set(position(query, stream)) == {0, 1}
    assert sorted(query.batch()) == sorted(events(3, 3))
    assert position(query, stream) == client.tail(stream)
    assert query.batch() == []


def test_a_merge_waits_for_the_slower_predecessor(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=2)
    append(client, stream, 0, framed(b"a"), framed(b"b"), framed(b"c"), framed(b"d"))
    append(client, stream, 1, framed(b"x"))
    (merged,) = client.controller.scale_to(stream, 1).ids
    append(client, stream, merged, framed(b"after"))
    query = Query(client, settings, stream, max_events=2)
    # Of the second segment there are 9 bytes and half of what comes after both: "x" comes late in it.
    assert [sorted(batch) for batch in query.batches()] == [["a", "b"], ["x"], ["c", "d"], ["after"]]
    assert position(query, stream) == {merged: 13}


def test_epochs_without_events_take_no_batch(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=1)
    for segments in (2, 1, 3):
        client.controller.scale_to(stream, segments)
    query = Query(client, settings, stream)
    assert query.batch() == []
    assert position(query, stream) == {0: 0}
    write(client, stream, events(0, 2))
    assert [sorted(batch) for batch in query.batches()] == [sorted(events(0, 2))]


def test_limits_take_the_same_share_of_each_segment_and_end_at_events(
    client: Client, settings: Settings, scope: str
) -> None:
    stream = make_stream(client, scope, "s", segments=3)
    sizes = {"a": 100, "b": 4, "c": 50}
    for segment, (letter, size) in enumerate(sizes.items()):
        append(client, stream, segment, *[framed(f"{letter}{i:03d}".encode()) for i in range(size)])
    query = Query(client, settings, stream, max_events=30)
    read: list[str] = []
    for batch in query.batches():
        assert len(batch) == min(30, 154 - len(read))
        read += batch
        shares = {letter: sum(event[0] == letter for event in read) / size for letter, size in sizes.items()}
        for letter, size in sizes.items():
            assert abs(shares[letter] - shares["a"]) <= 1 / size + 1 / 100
    assert sorted(read) == sorted(f"{letter}{i:03d}" for letter, size in sizes.items() for i in range(size))


@pytest.mark.parametrize("limit", [{"max_events": 150}, {"max_bytes": 2100}], ids=["events", "bytes"])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "way", ["plain", "versions", "versions, then plain", "scaled", "scaled versions", "two streams"]
)
@pytest.mark.in_turn
def test_what_was_written_in_order_comes_in_order_of_time(
    client: Client, settings: Settings, scope: str, way: str, limit: dict[str, int], *, restarts: bool
) -> None:
    """Segments have different numbers of keys. No event comes much later than one that was written after it."""
    count, allowed = 3000, 250
    streams = [make_stream(client, scope, name, segments=3) for name in ("s", "t")[: 2 if way == "two streams" else 1]]
    if "versions" in way:
        table = raw_table(client, settings, scope, segments=3, name="v")
        streams = [table.stream]
    expected = []
    for first in range(0, count, 500):
        for one, stream in enumerate(streams):
            # The second stream has a fifth of what the first one has.
            numbers = range(first, first + 500, 1 + 4 * one)
            some = [f"k{number % 7}:{number:05d}" for number in numbers]
            expected += some
            if "versions" in way and not (way.endswith("plain") and first >= 1500):
                commit(table, some)
            else:
                write(client, stream, some)
            if "scaled" in way and first in (1000, 2000):
                merged = {1000: [0], 2000: sorted(client.tail(stream))[:2]}[first]
                client.controller.scale_stream(stream, merged, [*_halved(client, stream, merged)])
    query = Query(client, settings, *streams, **limit)
    read: list[str] = []
    latest, late = 0, 0
    while batch := query.batch():
        numbers_of_batch = [int(event.split(":")[1]) for event in batch]
        late = max(late, latest - min(numbers_of_batch))
        latest = max(latest, *numbers_of_batch)
        read += batch
        # A version of 500 events is read whole.
        times = 4 if "versions" in way else 1
        assert len(batch) <= times * limit.get("max_events", len(batch))
        assert sum(len(event) + 8 for event in batch) <= times * limit.get("max_bytes", 1 << 30)
        if restarts:
            before, query = query, Query(client, settings, *streams, **limit)
            query.offset = before.offset
    assert sorted(read) == sorted(expected)
    assert late <= allowed, late


def commit(table: TableDefinition, some: list[str]) -> None:
    """Events with their keys, as one version, written by one task."""
    definition = event_rows(table, StructType().add("event", "binary").add("routing_key", "string"))
    assert definition is not None
    writer = begin(definition)
    columns = {"event": [event.encode() for event in some], "routing_key": [event.split(":")[0] for event in some]}
    writer.commit([writer.write_partition(0, iter([pa.record_batch(columns)]))])


def _halved(client: Client, stream: Stream, segments: list[int]) -> list[tuple[float, float]]:
    """Two new ranges in the place of some neighbours."""
    ranges = client.controller.segment_ranges(stream, segments).values()
    low, high = min(one.min_key for one in ranges), max(one.max_key for one in ranges)
    return [(low, (low + high) / 2), ((low + high) / 2, high)]


def test_with_fewer_events_than_segments_all_get_their_turn(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=4)
    for segment in range(4):
        append(client, stream, segment, *[framed(b"%d" % segment)] * 3)
    query = Query(client, settings, stream, max_events=1)
    batches = query.batches()
    assert [len(batch) for batch in batches] == [1] * 12
    assert {batch[0] for batch in batches[:4]} == {"0", "1", "2", "3"}


def test_bytes_are_limited_but_an_event_always_fits(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=2)
    append(client, stream, 0, framed(b"x" * 200_000), framed(b"small"), framed(b"y" * 300_000))
    append(client, stream, 1, framed(b"z" * 30), framed(b"w" * 30))
    query = Query(client, settings, stream, max_bytes=100)
    sizes = [sum(8 + len(event) for event in batch) for batch in query.batches()]
    assert sum(sizes) == 200_008 + 13 + 300_008 + 2 * 38
    assert sorted(size for size in sizes if size > 100) == [200_008, 300_008]


def test_a_minimum_is_waited_for_but_not_beyond_the_delay(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s")
    query = Query(client, settings, stream, min_events=10, max_delay_s=3600)
    write(client, stream, events(0, 1))
    assert query.batch() == []
    # A query that ends with what is there doesn't wait.
    target = query.source.target()
    waiting = Query(client, settings, stream, min_events=10, max_delay_s=3600)
    assert len(waiting.batch(target)) == 5
    impatient = Query(client, settings, stream, min_events=10, max_delay_s=0)
    assert len(impatient.batch()) == 5
    write(client, stream, events(1, 1))
    assert len(query.batch()) == 10


def test_a_target_ends_a_query_though_the_stream_goes_on(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=2)
    write(client, stream, events(0, 4))
    client.controller.scale_to(stream, 3)
    write(client, stream, events(4, 4))
    query = Query(client, settings, stream, max_events=7)
    target = query.source.target()
    write(client, stream, events(8, 4))
    client.controller.scale_to(stream, 2)
    write(client, stream, events(12, 4))
    read_events = [event for batch in query.batches(target) for event in batch]
    assert sorted(read_events) == sorted(events(0, 8))
    assert query.offset == target
    assert sorted(event for batch in query.batches() for event in batch) == sorted(events(8, 8))


def test_a_sealed_stream_is_read_to_its_end(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=2)
    write(client, stream, events(0, 2))
    client.controller.scale_to(stream, 1)
    write(client, stream, events(2, 2))
    client.controller.seal_stream(stream)
    query = Query(client, settings, stream)
    assert [sorted(batch) for batch in query.batches(query.source.target())] == [
        sorted(events(0, 2)),
        sorted(events(2, 2)),
    ]


def test_our_commits_are_whole_in_a_batch(client: Client, settings: Settings, scope: str) -> None:
    table = raw_table(client, settings, scope, segments=4)
    query = Query(client, settings, table.stream)
    for number in range(5):
        writer = begin(table)
        written = [run_task(writer, *numbered(f"{number}-{task}", 50)) for task in range(2)]
        assert query.batch() == []
        writer.commit(written)
        assert len(query.batch()) == 100


def test_large_parts_are_split_and_small_ones_share_a_task(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=8)
    append(client, stream, 0, *[framed(b"x" * 1000)] * 2000)
    for segment in range(1, 8):
        append(client, stream, segment, framed(b"y"))
    few = Query(client, settings, stream)
    end = few.source.latest_offset(few.offset)
    assert len(few.source.partitions(few.offset, end)) == 2
    many = Query(client, settings, stream, min_partitions=6)
    partitions = many.source.partitions(many.offset, end)
    assert len(partitions) >= 6
    assert len(many.read(many.offset, end)) == 2007


def test_a_lost_segment_s_successors_are_where_it_goes_on(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=2)
    write(client, stream, events(0, 3))
    query = Query(client, settings, stream, max_events=4)
    tolerant = Query(client, settings, stream, max_events=4, fail_on_data_loss=False)
    query.batch()
    tolerant.offset = query.offset
    client.controller.split_segment(stream, 0)
    write(client, stream, events(3, 3))
    middle = client.tail(stream)
    write(client, stream, events(6, 3))
    client.truncate(middle)
    with pytest.raises(DataLossError, match="segment"):
        query.batch()
    assert sorted(event for batch in tolerant.batches() for event in batch) == sorted(events(6, 3))


def test_a_subscriber_is_told_what_was_committed(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=2)
    query = Query(client, settings, stream, subscriber="billing")
    query.source.subscribe()
    assert client.controller.subscribers(stream) == (f"{scope}/billing",)
    write(client, stream, events(0, 3))
    query.batch()
    query.source.commit(query.offset)
    # Pravega refuses a cut before the one that it was told last.
    with pytest.raises(InvalidStreamCutError):
        client.controller.update_subscriber(stream, f"{scope}/billing", client.controller.head(stream))
    query.source.commit(query.offset)


def test_lag_counts_what_is_not_read_in_segments_to_come_too(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s")
    append(client, stream, 0, framed(b"a"), framed(b"b"))
    client.controller.split_segment(stream, 0)
    later = client.controller.current_segments(stream).ids
    writer = SegmentWriter(client.pool, stream, later[0])
    writer.append(framed(b"c" * 92) * 5000, 5000)
    writer.flush()
    writer.close()
    query = Query(client, settings, stream)
    figures = summary(lag_of(client, query.source.behind(query.offset)))
    assert figures["totalBytesBehindLatest"] == str(18 + 500_000)
    assert figures["totalEventsBehindLatest"] == "5002"
    assert figures["minBytesBehindLatest"] == "0"
    assert figures["maxEventsBehindLatest"] == "5000"
    query.batches()
    assert summary(lag_of(client, query.source.behind(query.offset)))["maxBytesBehindLatest"] == "0"


def test_a_java_cut_that_has_not_reached_a_segment_is_a_start(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s", segments=2)
    append(client, stream, 0, framed(b"a"), framed(b"b"))
    append(client, stream, 1, framed(b"x"))
    (merged,) = client.controller.scale_to(stream, 1).ids
    append(client, stream, merged, framed(b"after"))
    cut = StreamCut(stream, {0: 9, merged: -1})
    query = Query(client, settings, stream, start=cut.to_text())
    assert query.batches() == [["b"], ["after"]]


def test_a_checkpoint_of_other_streams_is_refused(client: Client, settings: Settings, scope: str) -> None:
    one, other = make_stream(client, scope, "one"), make_stream(client, scope, "other")
    query = Query(client, settings, one)
    with pytest.raises(ConfigurationError, match="use another checkpointLocation"):
        Query(client, settings, other).source.latest_offset(query.offset)
    with pytest.raises(ConfigurationError, match="for 2 streams"):
        Query(client, settings, one, other, start=StreamCut(one, {0: 0}).to_text())
    both = Query(client, settings, one, other, start=f'{{"{one}":"latest","{other}":{{"0":0}}}}')
    assert set(both.offset) == {one, other}


def test_an_end_before_its_start_is_refused(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "s")
    append(client, stream, 0, framed(b"a"), framed(b"b"))
    with pytest.raises(InvalidStreamCutError, match="before its start"):
        Query(client, settings, stream, start='{"0":9}', end='{"0":0}')
    ended = Query(client, settings, stream, end='{"0":9}')
    assert ended.batches() == [["a"]]


@pytest.mark.parametrize("text", ["latest", '{"STREAM":"latest"}'], ids=["one word", "a word for a stream"])
def test_an_end_at_the_tail_stays_where_it_was_when_the_query_began(
    client: Client, settings: Settings, scope: str, text: str
) -> None:
    stream = make_stream(client, scope, "s", segments=2)
    write(client, stream, events(0, 3))
    text = text.replace("STREAM", str(stream))
    first = Query(client, settings, stream, end=text, max_events=5)
    write(client, stream, events(3, 2))
    client.controller.scale_to(stream, 3)
    write(client, stream, events(5, 2))
    read = first.batch()
    for _ in range(5):
        # Another process, or another driver, has the checkpoint and nothing else.
        again = Query(client, settings, stream, end=text, max_events=5)
        again.offset = SourceOffset.from_json(first.offset.to_json())
        read += again.batch(again.source.target())
        read += again.batch()
        first = again
    assert sorted(read) == sorted(events(0, 3))
    # Who takes the end away goes on.
    endless = Query(client, settings, stream)
    endless.offset = first.offset
    read += [event for batch in endless.batches() for event in batch]
    assert sorted(read) == sorted(events(0, 7))


def test_a_checkpoint_without_its_end_takes_the_tail(client: Client, settings: Settings, scope: str) -> None:
    # So those of early versions are.
    stream = make_stream(client, scope, "s")
    write(client, stream, events(0, 1))
    begun = Query(client, settings, stream)
    begun.batches()
    write(client, stream, events(1, 1))
    ended = Query(client, settings, stream, end="latest")
    ended.offset = begun.offset
    assert [sorted(batch) for batch in ended.batches()] == [sorted(events(1, 1))]
    assert ended.offset[stream].end == client.tail(stream)
