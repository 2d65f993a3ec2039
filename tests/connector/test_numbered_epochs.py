"""What the commit log keeps of a real-time query that writes exactly once: each row is there once, or it is refused."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from connector_tools import batch, ledger_of, read_events
from waiting import eventually

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.positions import tail_cut
from pyspark_pravega.connector.log.opening import delete_ledger
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.numbered import MOST_ROWS, NumberedJob, RowOrigins, numbered
from pyspark_pravega.connector.write.plan import Epoch, WritePlan
from pyspark_pravega.connector.write.writer import take_over
from pyspark_pravega.errors import (
    DataLossError,
    EventEncodeError,
    QueryTakenOverError,
    TableChangedError,
    UnsupportedOperationError,
)
from pyspark_pravega.spark.types import BinaryType, LongType, StringType, StructType

pytestmark = pytest.mark.server

ROWS = StructType().add("event", BinaryType())
for name, kind in {
    "_stream": StringType(),
    "_segment": LongType(),
    "_offset": LongType(),
    "_index": LongType(),
}.items():
    ROWS = ROWS.add(name, kind)


class Query:
    """A real-time query whose sources have segments 0 and 1; their events are ten bytes long."""

    def __init__(
        self, client: Client, table: TableDefinition, key: str = "'all'", *, sources: int = 1, lists: bool = False
    ) -> None:
        self.id, self.client, self.table, self.lists = str(uuid.uuid4()), client, table, lists
        self.sources = [Stream(table.stream.scope, f"source{number}") for number in range(sources)]
        for source in self.sources:
            client.controller.create_stream(source, StreamConfiguration(scaling=ScalingPolicy(min_segments=2)))
        self.plan = self.planned(key)

    def planned(self, key: str) -> WritePlan:
        columns = {name: name for name in ROWS.fieldNames() if name != "_index"}
        parts = {"generators": ["posexplode"] if self.lists else [], "positions": ["_index"], "repeats": True}
        sources = [
            {"stream": str(one), "options": {}, "here": True, "own": [], "columns": columns, **parts}
            for one in self.sources
        ]
        origins = RowOrigins(query=self.id, sources=sources, operators=[])
        options = WriteOptions(routing_key=key)
        return replace(numbered(WritePlan.of(self.table, options), self.table, options, ROWS, origins), at_once=True)

    def write(
        self,
        run: str,
        epoch: int,
        start: tuple[int, int],
        *numbers: int,
        places: Sequence[int] = (0,),
        words: str = "",
    ) -> None:
        """Write some events of the sources' first segments, from a batch that begins at one event of each segment.

        Args:
            run: the driver.
            epoch: the batch.
            start: the events.
            numbers: which events of each source.
            places: of each event, the rows at these places of its list.
            words: more of each row.
        """
        cut = {segment: 10 * number for segment, number in enumerate(start)}
        job = NumberedJob(self.plan, run=run, epoch=epoch, start=dict.fromkeys(self.sources, cut))
        rows = [(source, number, place) for source in self.sources for number in numbers for place in places]
        found = batch(*(text(*row) + words.encode() for row in rows))
        for name, values in {
            "_stream": pa.array([str(source) for source, _, _ in rows]),
            "_segment": pa.array([0] * len(rows), pa.int64()),
            "_offset": pa.array([10 * number for _, number, _ in rows], pa.int64()),
            "_index": pa.array([place for *_, place in rows], pa.int32()),
        }.items():
            found = found.append_column(name, values)
        job.commit_job([job.write_task(iter([found]))], Epoch(query=self.id, number=epoch, run=run))

    def check(self, *numbers: int, places: Sequence[int] = (0,)) -> None:
        found = Counter(read_events(self.client, self.table))
        rows = [text(source, number, place) for source in self.sources for number in numbers for place in places]
        assert found == Counter(rows)


def text(source: Stream, number: int, place: int) -> bytes:
    return f"{source.name}/{number}/{place}".encode()


def test_rows_come_once_whoever_writes_them_and_whatever_is_sealed(client: Client, table: TableDefinition) -> None:
    query, controller = Query(client, table), client.controller
    take_over(query.plan, query.id, "first", epoch=0)
    query.write("first", 0, (0, 0), 0, 1, 2, 3)
    # Batch 0 is noted as over at event 2: who was killed has read further. So the sealed segment is needed.
    first = controller.current_segments(table.stream).ids
    controller.scale_to(table.stream, 2)
    query.write("first", 1, (2, 0), 2)
    known = ledger_of(client, table).progress(query.id).numbered
    assert known is not None
    assert known.since == first
    controller.scale_to(table.stream, 3)
    take_over(query.plan, query.id, "second", epoch=2)
    with pytest.raises(QueryTakenOverError):
        query.write("first", 2, (3, 0), 3)
    query.write("second", 2, (3, 0), 3, 4)
    query.write("second", 3, (5, 0), 5)
    query.check(*range(6))
    # All of the sealed segments' events are behind it now.
    known = ledger_of(client, table).progress(query.id).numbered
    assert known is not None
    assert (known.since, known.epoch) == (controller.current_segments(table.stream).ids, 3)
    with pytest.raises(DataLossError, match="older than what was written"):
        take_over(query.plan, query.id, "restored", epoch=2)

    # Micro-batches would write once more what came behind the last batch, and another key what it doesn't know.
    with pytest.raises(UnsupportedOperationError, match="go on with the real-time trigger"):
        take_over(WritePlan.of(table, WriteOptions()), query.id, "micro", epoch=4)
    with pytest.raises(UnsupportedOperationError, match="in another way than before"):
        take_over(query.planned("'other'"), query.id, "other", epoch=4)


def test_what_nobody_can_tell_any_more_is_refused(client: Client, table: TableDefinition) -> None:
    query, micro = Query(client, table), WritePlan.of(table, WriteOptions())
    take_over(micro, query.id, "micro", epoch=0)
    job = WriteJob(micro)
    job.commit_job([job.write_task(iter([batch(b"source0/0/0")]))], Epoch(query=query.id, number=0, run="micro"))
    # The driver died before Spark noted that micro-batch 0 is over.
    with pytest.raises(UnsupportedOperationError, match="run the query once more with the trigger that it had"):
        take_over(query.plan, query.id, "too early", epoch=0)
    take_over(query.plan, query.id, "first", epoch=1)
    query.write("first", 1, (1, 0), 1, 2)
    query.check(0, 1, 2)
    client.controller.scale_to(table.stream, 2)
    client.truncate(tail_cut(client.pool, table.stream))

    def refused() -> bool:
        try:
            query.write("first", 2, (2, 0), 2)
        except DataLossError as error:
            return "begin a new checkpoint" in str(error)
        return False

    # The controller deletes the segment a moment later.
    eventually(refused)
    query.check()


@pytest.mark.parametrize("sources", [1, 2])
def test_each_row_of_a_list_comes_once_wherever_its_event_was_broken_off(
    client: Client, table: TableDefinition, sources: int
) -> None:
    """Tasks die between two rows of one event; and sources have segments of the same numbers."""
    query = Query(client, table, sources=sources, lists=True)
    take_over(query.plan, query.id, "first", epoch=0)
    query.write("first", 0, (0, 0), 0, places=[0, 1, 2])
    query.write("first", 0, (0, 0), 1, places=[0, 1])
    client.controller.scale_to(table.stream, 2)
    take_over(query.plan, query.id, "second", epoch=0)
    query.write("second", 0, (0, 0), 0, 1, places=[0, 1, 2])
    query.write("second", 0, (0, 0), 1, 2, places=[0, 1, 2])
    query.check(0, 1, 2, places=[0, 1, 2])
    with pytest.raises(EventEncodeError, match=f"more than {MOST_ROWS} rows of one event"):
        query.write("second", 1, (3, 0), 3, places=[0, MOST_ROWS])
    # The last number of an event is below the first one of the next event, however small it is.
    query.write("second", 1, (3, 0), 3, places=[MOST_ROWS - 1])


def test_of_rows_that_are_others_the_second_time_those_stay_that_are_stored(
    client: Client, table: TableDefinition
) -> None:
    """As with rand(), or a service that is asked: a filter lets event 1 pass only the second time."""
    query = Query(client, table)
    take_over(query.plan, query.id, "first", epoch=0)
    query.write("first", 0, (0, 0), 0, 2)
    client.controller.scale_to(table.stream, 2)
    query.write("first", 0, (0, 0), 3)
    take_over(query.plan, query.id, "second", epoch=0)
    query.write("second", 0, (0, 0), 0, 1, 2, 3, 4, words=" later")
    rows = [text(query.sources[0], number, 0) for number in (0, 2, 3, 4)]
    assert Counter(read_events(client, table)) == Counter([*rows[:3], rows[3] + b" later"])


def test_another_checkpoint_is_another_query(client: Client, table: TableDefinition) -> None:
    query = Query(client, table)
    for _ in range(2):
        take_over(query.plan, query.id, "first", epoch=0)
        query.write("first", 0, (0, 0), 0, 1)
        query.id = str(uuid.uuid4())
        query.plan = query.planned("'all'")
    assert Counter(read_events(client, table)) == Counter(text(query.sources[0], number, 0) for number in (0, 0, 1, 1))


def test_a_target_that_is_made_again_beside_the_query_gets_nothing(client: Client, table: TableDefinition) -> None:
    query = Query(client, table)
    take_over(query.plan, query.id, "first", epoch=0)
    query.write("first", 0, (0, 0), 0, 1)
    configuration = table.configuration
    assert delete_ledger(client, table.stream)
    client.controller.delete_stream(table.stream, seal=True)
    with pytest.raises(TableChangedError, match="was dropped after"):
        query.write("first", 1, (2, 0), 2)
    client.controller.create_stream(table.stream, configuration)
    with pytest.raises(TableChangedError, match="dropped and made again"):
        query.write("first", 1, (2, 0), 2)
    again = replace(query.plan, segment_id=client.controller.current_segments(table.stream).ids[0])
    with pytest.raises(DataLossError, match="begin a new checkpoint"):
        take_over(again, query.id, "second", epoch=1)
    query.check()


def test_a_target_that_knows_nothing_of_the_checkpoint_is_refused(client: Client, table: TableDefinition) -> None:
    """It was dropped and made again; a new query begins with batch 0."""
    query = Query(client, table)
    with pytest.raises(DataLossError, match="begin a new checkpoint"):
        take_over(query.plan, query.id, "first", epoch=3)
    assert ledger_of(client, table).progress(query.id).run is None
    take_over(query.plan, query.id, "first", epoch=0)
