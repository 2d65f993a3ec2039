"""What the commit log keeps of a real-time query that writes exactly once: each row is there once, or it is refused."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from connector_tools import batch, ledger_of, read_events
from waiting import eventually

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.positions import tail_cut
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.numbered import NumberedJob, RowOrigins, numbered
from pyspark_pravega.connector.write.plan import Epoch, WritePlan
from pyspark_pravega.connector.write.writer import take_over
from pyspark_pravega.errors import DataLossError, QueryTakenOverError, UnsupportedOperationError
from pyspark_pravega.spark.types import BinaryType, LongType, StructType

pytestmark = pytest.mark.server

ROWS = StructType().add("event", BinaryType()).add("_segment", LongType()).add("_offset", LongType())


class Query:
    """A real-time query whose source has segments 0 and 1; its events are ten bytes long."""

    def __init__(self, client: Client, table: TableDefinition, key: str = "'all'") -> None:
        self.id, self.client, self.table = str(uuid.uuid4()), client, table
        self.source = Stream(table.stream.scope, "source")
        client.controller.create_stream(self.source, StreamConfiguration(scaling=ScalingPolicy(min_segments=2)))
        self.plan = self.planned(key)

    def planned(self, key: str) -> WritePlan:
        source = {"stream": str(self.source), "options": {}, "here": True}
        columns = {name: name for name in ROWS.fieldNames()}
        origins = RowOrigins(query=self.id, sources=[source], operators=[], columns=columns)
        options = WriteOptions(routing_key=key)
        return replace(numbered(WritePlan.of(self.table, options), self.table, options, ROWS, origins), at_once=True)

    def write(self, run: str, epoch: int, start: tuple[int, int], *numbers: int) -> None:
        """Write some events of segment 0, from a batch that begins at one event of each segment."""
        cut = {segment: 10 * number for segment, number in enumerate(start)}
        job = NumberedJob(self.plan, run=run, epoch=epoch, start=cut)
        rows = batch(*(b"%d" % number for number in numbers))
        rows = rows.append_column("_segment", pa.array([0] * len(numbers), pa.int64()))
        rows = rows.append_column("_offset", pa.array([10 * number for number in numbers], pa.int64()))
        job.commit_job([job.write_task(iter([rows]))], Epoch(query=self.id, number=epoch, run=run))

    def check(self, *numbers: int) -> None:
        found = Counter(read_events(self.client, self.table))
        assert found == Counter(b"%d" % number for number in numbers)


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
    job.commit_job([job.write_task(iter([batch(b"0")]))], Epoch(query=query.id, number=0, run="micro"))
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
