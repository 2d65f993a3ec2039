"""Queries with the real-time trigger: rows go on as they come, none is lost, and each key's stay in their order."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count
from pyspark.sql.streaming.query import StreamingQuery
from streaming_tools import (
    TIMEOUT_S,
    check_order,
    idle,
    kill_workers,
    make_stream,
    numbered,
    read_stream,
    real_time_batches,
    scope_of,
    workers_of,
    write,
)
from waiting import eventually

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.positions import tail_cut
from pyspark_pravega.connector.stream import SourceOffset

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.since_spark("4.3"), pytest.mark.in_turn]

WITHIN_S = 250.0
BATCH_MS = 100
"""How long a batch lasts: tests that wait for its end wait for so long."""
STATE_BATCH_MS = 1000
"""A batch with state starts two tasks. Where they begin later than the batch ends, no batch ever reads a row."""
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
_SPARKS_CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)


@pytest.fixture(autouse=True)
def real_time(spark: SparkSession) -> Iterator[None]:
    with real_time_batches(spark, BATCH_MS):
        yield
    spark.conf.unset(FORMAT)


def writer(rows: DataFrame, checkpoint: Path, batch_ms: int = BATCH_MS, /, **options: str) -> Any:
    begun: Any = rows.writeStream.option("checkpointLocation", str(checkpoint)).outputMode("update")
    return begun.options(**{"writer-mode": "at-least-once", **options}).trigger(realTime=f"{batch_ms} milliseconds")


def events_of(client: Client, stream: Stream) -> list[str]:
    return [event.decode() for batch in client.read(stream) for event in batch.payloads.to_pylist()]


def committed(checkpoint: Path) -> SourceOffset | None:
    """Where the last batch has ended that is over."""
    batches = [int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")]
    if not batches:
        return None
    return SourceOffset.from_json((checkpoint / "offsets" / str(max(batches))).read_text().splitlines()[-1])


def has_read_all(client: Client, stream: Stream, checkpoint: Path) -> bool:
    at = committed(checkpoint)
    return at is not None and dict(at[stream].cut) == dict(tail_cut(client.pool, stream))


def go_on(query: StreamingQuery, condition: Any) -> None:
    def met() -> bool:
        assert query.exception() is None, query.exception()
        return bool(condition())

    eventually(met, within_s=WITHIN_S)


def on_news(client: Client, stream: Stream, condition: Callable[[], bool]) -> Callable[[], bool]:
    """A condition that is a query of Spark's: it is asked when the stream has got longer, or half a second later."""
    tail, asked = dict[int, int](), 0.0

    def met() -> bool:
        nonlocal tail, asked
        now, at = dict(tail_cut(client.pool, stream)), time.monotonic()
        if now == tail and at < asked + 0.5:
            return False
        tail, asked = now, at
        return condition()

    return met


def test_rows_come_once_and_in_order_over_scales_and_changes_of_the_trigger(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    source, sink = make_stream(client, namespace, "s", segments=3), make_stream(client, namespace, "t")
    rows, table = read_stream(spark, f"{namespace}.s").select("event"), f"{namespace}.t"
    expected: list[str] = []

    def more(count: int) -> None:
        events = numbered(5, count, first=len(expected) // 5)
        write(client, source, events)
        expected.extend(events)

    def all_there() -> bool:
        return len(events_of(client, sink)) >= len(expected)

    controller = client.controller
    scales: list[Callable[[tuple[int, ...]], object]] = [
        lambda ids: controller.split_segment(source, ids[0], 2),
        lambda ids: controller.merge_segments(source, ids[1:3]),
        lambda ids: controller.scale_to(source, 2),
        lambda _: controller.scale_to(source, 1),
    ]
    more(20)
    query = writer(rows, tmp_path).toTable(table)
    try:
        go_on(query, lambda: has_read_all(client, source, tmp_path))
        workers = workers_of(spark)
        for scale in scales:
            more(10)
            scale(controller.current_segments(source).ids)
            more(10)
            go_on(query, all_there)
            check_order(events_of(client, sink))
        go_on(query, lambda: has_read_all(client, source, tmp_path))
        # Each batch takes the workers of the one before. Seen: Spark stopped the threads that write their input before
        # its end was written, and such a worker was waited for in vain for 10 s.
        assert workers <= workers_of(spark)
        metrics = json.loads(query.lastProgress.json)["sources"][0]["metrics"]
        assert {"maxBytesBehindLatest", "totalEventsBehindLatest"} <= metrics.keys()
    finally:
        query.stop()

    # In micro-batches, exactly once, from the checkpoint of the real-time query; and back. A task that hasn't ended yet
    # would write what comes now, and the micro-batch would write it again.
    eventually(lambda: idle(spark), within_s=WITHIN_S)
    more(10)
    controller.split_segment(source, controller.current_segments(source).ids[0], 2)
    more(10)
    batches = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).toTable(table)
    assert batches.awaitTermination(TIMEOUT_S)
    assert sorted(events_of(client, sink)) == sorted(expected)
    more(10)
    query = writer(rows, tmp_path).toTable(table)
    try:
        go_on(query, all_there)
    finally:
        query.stop()
    check_order(events_of(client, sink))
    assert sorted(events_of(client, sink)) == sorted(expected)


def test_a_checkpoint_goes_back_and_forth_between_the_triggers(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    source, sink = make_stream(client, namespace, "s", segments=2), make_stream(client, namespace, "t")
    rows, table = read_stream(spark, f"{namespace}.s").select("event"), f"{namespace}.t"
    # Without it Spark refuses in real time what micro-batches have begun.
    spark.conf.set(FORMAT, "2")
    expected: dict[str, list[int]] = {}

    def more(count: int) -> None:
        first = len(expected.get("k0", []))
        write(client, source, numbered(4, count, first=first))
        for key in range(4):
            expected.setdefault(f"k{key}", []).extend(range(first, first + count))

    def found(*, once: bool) -> dict[str, list[int]]:
        """Each key's numbers as they stand in the sink; or, where some may be there twice, as they came first."""
        events, numbers = events_of(client, sink), dict[str, list[int]]()
        for event in events if once else dict.fromkeys(events):
            key, number = event.split(":")
            numbers.setdefault(key, []).append(int(number))
        return numbers

    once = True
    for step, mode in enumerate(["exactly-once", "at-least-once"]):
        more(10)
        micro = rows.writeStream.option("checkpointLocation", str(tmp_path)).option("writer-mode", mode)
        batch = micro.trigger(availableNow=True).toTable(table)
        assert batch.awaitTermination(TIMEOUT_S)
        assert found(once=once) == expected
        more(10)
        client.controller.scale_to(source, 1 + step % 2)
        more(10)
        query = writer(rows, tmp_path).toTable(table)
        try:
            go_on(query, lambda: found(once=once) == expected)  # noqa: B023
            more(10)
            go_on(query, lambda: found(once=once) == expected)  # noqa: B023
            # Once the batch is over nothing is repeated; one that is stopped in its midst is.
            if step < 1:
                go_on(query, lambda: has_read_all(client, source, tmp_path))
            else:
                once = False
        finally:
            query.stop()
    more(10)
    batch = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).toTable(table)
    assert batch.awaitTermination(TIMEOUT_S)
    assert found(once=once) == expected


def test_a_checkpoint_of_format_1_goes_on_in_real_time_when_spark_is_told_so(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    source, sink = make_stream(client, namespace, "s"), make_stream(client, namespace, "t")
    rows = read_stream(spark, f"{namespace}.s").select("event")
    expected = numbered(3, 5)
    write(client, source, expected)
    batch = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert batch.toTable(f"{namespace}.t").awaitTermination(TIMEOUT_S)
    with pytest.raises(StreamingQueryException, match="does not support state store checkpoint format v1"):
        writer(rows, tmp_path).toTable(f"{namespace}.t").awaitTermination(TIMEOUT_S)
    more = numbered(3, 5, first=5)
    write(client, source, more)
    allowed = "spark.sql.streaming.realTimeMode.dangerouslyAllowCheckpointV1.enabled"
    spark.conf.set(allowed, "true")
    query = writer(rows, tmp_path).toTable(f"{namespace}.t")
    try:
        go_on(query, lambda: len(events_of(client, sink)) >= len(expected + more))
    finally:
        query.stop()
        spark.conf.unset(allowed)
    assert sorted(events_of(client, sink)) == sorted(expected + more)


def test_a_driver_that_dies_as_spark_notes_the_first_batch_leaves_a_file_that_is_passed_over(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    source, sink = make_stream(client, namespace, "s"), make_stream(client, namespace, "t")
    rows, table = read_stream(spark, f"{namespace}.s").select("event"), f"{namespace}.t"
    expected = numbered(3, 5)
    write(client, source, expected)
    query = writer(rows, tmp_path).toTable(table)
    try:
        go_on(query, lambda: has_read_all(client, source, tmp_path))
    finally:
        query.stop()

    # As a killed driver leaves it: the offsets of batch 0 are noted, and its commit is a file without its name yet.
    commits = tmp_path / "commits"
    (commits / "0").rename(commits / ".0.tmp")
    for folder in (commits, tmp_path / "offsets"):
        for file in folder.iterdir():
            if file.name not in ("0", ".0.crc", ".0.tmp") or (folder == commits and file.name == ".0.crc"):
                file.unlink()
    configured: Any = spark.conf.get(_CHECKPOINT_FILES)
    spark.conf.set(_CHECKPOINT_FILES, _SPARKS_CHECKPOINT_FILES)
    try:
        with pytest.raises(StreamingQueryException, match="commits should be empty on batch 0"):
            writer(rows, tmp_path).toTable(table).awaitTermination(TIMEOUT_S)
    finally:
        spark.conf.set(_CHECKPOINT_FILES, configured)

    expected += numbered(3, 5, first=5)
    write(client, source, numbered(3, 5, first=5))
    query = writer(rows, tmp_path).toTable(table)
    try:
        go_on(query, lambda: set(events_of(client, sink)) == set(expected))
    finally:
        query.stop()
    check_order(events_of(client, sink), again=True)


def test_killed_workers_lose_nothing(spark: SparkSession, client: Client, namespace: str, tmp_path: Path) -> None:
    source, sink = make_stream(client, namespace, "s", segments=2), make_stream(client, namespace, "t")
    rows = read_stream(spark, f"{namespace}.s").select("event")
    expected: list[str] = []
    kills = 0

    def expected_are_there() -> bool:
        return set(events_of(client, sink)) >= set(expected)

    for step in range(3):
        query = writer(rows, tmp_path).toTable(f"{namespace}.t")
        try:
            for _ in range(3):
                events = numbered(4, 50, first=len(expected) // 4)
                write(client, source, events)
                expected += events
                eventually(lambda: query.exception() or expected_are_there(), within_s=WITHIN_S)  # noqa: B023
                # A killed task is tried again, within its batch, and at last the query fails.
                kills += kill_workers(spark) if step < 2 else 0
        finally:
            query.stop()
    found = events_of(client, sink)
    assert kills > 3
    assert set(found) == set(expected)
    check_order(found, again=True)


def test_nested_rows_and_dropped_events(spark: SparkSession, client: Client, namespace: str, tmp_path: Path) -> None:
    """And columns of the table's own that are called as those that tell of a place."""
    own = "_stream INT, _segment INT, _offset INT, _at_segment INT, _at_offset INT, _is_row INT"
    columns = f"id BIGINT NOT NULL, tags ARRAY<STRING>, who STRUCT<name: STRING, age: INT>, {own}"
    spark.sql(f"CREATE TABLE {namespace}.s ({columns})")
    spark.sql(f"CREATE TABLE {namespace}.t ({columns})")
    table, stream, sink = f"{namespace}.s", Stream(scope_of(namespace), "s"), Stream(scope_of(namespace), "t")
    insert = "SELECT id, array(concat('t', id)), named_struct('name', concat('n', id), 'age', int(id))"
    insert += ", -7" * 6 + " FROM range({})"
    spark.sql(f"INSERT INTO {table} {insert.format('10')}")
    rows = read_stream(spark, table, mode="drop-malformed").where("id % 2 = 0")
    query = writer(rows, tmp_path).toTable(f"{namespace}.t")
    try:
        go_on(query, on_news(client, sink, lambda: spark.table(f"{namespace}.t").count() == 5))
        # These aren't rows. When nothing follows they have been read all the same.
        write(client, stream, ["x:1", "x:2"])
        client.controller.scale_to(stream, 2)
        spark.sql(f"INSERT INTO {table} {insert.format('10, 20')}")
        go_on(query, on_news(client, sink, lambda: spark.table(f"{namespace}.t").count() == 10))
        write(client, stream, [f"x:{number}" for number in range(20)])
        go_on(query, lambda: has_read_all(client, stream, tmp_path))
    finally:
        query.stop()
    expected = {number: ([f"t{number}"], (f"n{number}", number)) for number in range(0, 20, 2)}
    assert {row.id: (row.tags, tuple(row.who)) for row in spark.table(f"{namespace}.t").collect()} == expected


@pytest.mark.usefixtures("interpreted")
def test_state(spark: SparkSession, client: Client, namespace: str, tmp_path: Path) -> None:
    source = make_stream(client, namespace, "s", segments=2)
    sums, firsts = (Stream(scope_of(namespace), name) for name in ("counts", "firsts"))
    spark.sql(f"CREATE TABLE {namespace}.counts (key STRING, number BIGINT)")
    spark.sql(f"CREATE TABLE {namespace}.firsts (key STRING)")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        # One task follows the stream and one keeps the state; each holds a core.
        rows = read_stream(spark, f"{namespace}.s", maxPartitions=1).selectExpr("split(string(event), ':')[0] AS key")
        last = f"SELECT key, max(number) FROM {namespace}.counts GROUP BY key"
        counts = rows.groupBy("key").agg(count("*").alias("number"))
        query = writer(counts, tmp_path / "counts", STATE_BATCH_MS).toTable(f"{namespace}.counts")
        try:
            for step in range(1, 4):
                write(client, source, numbered(3, 10))
                wanted = {f"k{key}": 10 * step for key in range(3)}
                go_on(query, on_news(client, sums, lambda: dict(spark.sql(last).collect()) == wanted))  # noqa: B023
        finally:
            query.stop()
        query = writer(rows.dropDuplicates(["key"]), tmp_path / "firsts", STATE_BATCH_MS).toTable(f"{namespace}.firsts")
        try:
            go_on(query, on_news(client, firsts, lambda: spark.table(f"{namespace}.firsts").count() == 3))
            write(client, source, ["k1:1", "k9:1", "k9:2"])
            go_on(query, on_news(client, firsts, lambda: spark.table(f"{namespace}.firsts").count() == 4))
        finally:
            query.stop()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "4")
    assert sorted(row.key for row in spark.table(f"{namespace}.firsts").collect()) == ["k0", "k1", "k2", "k9"]


ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("begun_in_real_time", [True, False])
def test_a_query_with_state_changes_its_trigger(
    begun_in_real_time: bool, spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    """Its sums go on, whichever trigger has begun the checkpoint: with Spark's defaults where that was real time."""
    source, sums = make_stream(client, namespace, "s", segments=2), Stream(scope_of(namespace), "counts")
    spark.sql(f"CREATE TABLE {namespace}.counts (key STRING, number BIGINT)")
    conf = {"spark.sql.shuffle.partitions": "1"}
    if not begun_in_real_time:
        conf |= {FORMAT: "2", PROVIDER: ROCKS}
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        rows = read_stream(spark, f"{namespace}.s", maxPartitions=1).selectExpr("split(string(event), ':')[0] AS key")
        counts = rows.groupBy("key").agg(count("*").alias("number"))
        last = f"SELECT key, max(number) FROM {namespace}.counts GROUP BY key"
        for step in range(1, 5):
            write(client, source, numbered(3, 10))
            wanted = {f"k{key}": 10 * step for key in range(3)}
            query = writer(counts, tmp_path, STATE_BATCH_MS)
            if begun_in_real_time != bool(step % 2):
                query = query.trigger(processingTime="0 seconds")
            query = query.toTable(f"{namespace}.counts")
            try:
                go_on(query, on_news(client, sums, lambda: dict(spark.sql(last).collect()) == wanted))  # noqa: B023
                go_on(query, lambda: has_read_all(client, source, tmp_path))
            finally:
                query.stop()
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def test_what_is_refused_is_said_when_the_query_starts(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    make_stream(client, namespace, "s")
    spark.sql(f"CREATE TABLE {namespace}.t (event STRING) CLUSTERED BY (event) INTO 1 BUCKETS")
    spark.sql(f"CREATE TABLE {namespace}.v (event BINARY)")
    spark.sql(f"INSERT INTO {namespace}.v VALUES (X'00')")
    source, sink = f"{namespace}.s", f"{namespace}.t"
    changes = spark.readStream.option("startingVersion", 1).changes(f"{namespace}.v").select("event")
    refused: list[tuple[DataFrame, dict[str, str], str]] = [
        (
            read_stream(spark, source, maxEventsPerTrigger=5),
            {},
            r'"maxEventsPerTrigger" by a query with the real-time',
        ),
        (read_stream(spark, source, minPartitions=5), {}, r'"maxPartitions" says how many tasks there are'),
        (read_stream(spark, source, endStreamCut="latest"), {}, r'"endStreamCut" by a query'),
        (changes, {}, r"CHANGES of stream .* can't be read by a query with the real-time trigger"),
        (
            read_stream(spark, source),
            {"writer-mode": "exactly-once"},
            r'written exactly once by a query with the real-time trigger.*"writerMode", "at-least-once"',
        ),
        (read_stream(spark, source), {"cluster-by-key": "true"}, r'option\("clusterByKey", "false"\)'),
    ]
    streams = [frame.selectExpr("string(event) AS event") for frame, _, _ in refused]
    queries = [
        writer(rows, tmp_path / str(number), **refused[number][1]).toTable(sink) for number, rows in enumerate(streams)
    ]
    for query, (_, _, message) in zip(queries, refused, strict=True):
        with pytest.raises(StreamingQueryException, match=message):
            query.awaitTermination(TIMEOUT_S)
    assert spark.table(sink).count() == 0
    # Spark's own sentence says how to have a sink that it doesn't know.
    spark.conf.unset("spark.sql.streaming.realTimeMode.allowlistCheck")
    with pytest.raises(PySparkException, match=r"set spark.sql.streaming.realTimeMode.allowlistCheck to false"):
        writer(streams[-1], tmp_path / "allowlist").toTable(sink).awaitTermination(TIMEOUT_S)


def test_what_goes_wrong_in_a_worker_ends_the_query(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    # Each try of a task comes to what is wrong in this time.
    spark.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "3000")
    other = spark.newSession()

    def change(table: str) -> None:
        other.sql(f"ALTER TABLE {table} ALTER COLUMN v TYPE BIGINT")
        other.sql(f"INSERT INTO {table} VALUES (2, 5000000000)")

    def spoil(table: str) -> None:
        write(client, Stream(scope_of(namespace), table.rpartition(".")[2]), ["no event of Avro"])

    def drop(table: str) -> None:
        other.sql(f"DROP TABLE {table}")

    def has_one_row(table: str) -> bool:
        return spark.table(table).count() == 1

    wrongs: list[tuple[str, Callable[[str], None], str]] = [
        ("drop-malformed", change, r'TableChangedError.*column "v" was int, and is bigint'),
        ("fail-fast", spoil, r"EventDecodeError.*segment 0, offset "),
        ("fail-fast", drop, r"are gone before they were read|doesn't exist|NOT_FOUND"),
    ]
    for mode, does_wrong, text in wrongs:
        table = f"{namespace}.{does_wrong.__name__}"
        for name in (table, f"{table}_sink"):
            spark.sql(f"CREATE TABLE {name} (id BIGINT, v INT)")
        spark.sql(f"INSERT INTO {table} VALUES (1, 10)")
        begun = writer(read_stream(spark, table, mode=mode), tmp_path / table).trigger(realTime="3 seconds")
        query = begun.toTable(f"{table}_sink")
        try:
            sink = Stream(scope_of(namespace), f"{does_wrong.__name__}-sink")
            go_on(query, on_news(client, sink, partial(has_one_row, f"{table}_sink")))
            # A batch that ends so is tried again from its beginning: the row's has to be over.
            read = Stream(scope_of(namespace), does_wrong.__name__)
            go_on(query, partial(has_read_all, client, read, tmp_path / table))
            does_wrong(table)
            with pytest.raises(StreamingQueryException, match=text):
                query.awaitTermination(int(WITHIN_S))
        finally:
            query.stop()
        assert [tuple(row) for row in spark.table(f"{table}_sink").collect()] == [(1, 10)]


def test_the_continuous_trigger_is_refused(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    # Seen without the refusal: "Continuous execution does not support task retry", without a word of why.
    spark.sql(f"CREATE TABLE {namespace}.t (value BIGINT)")
    rows = spark.readStream.format("rate").option("numPartitions", 1).load().select("value")
    begun = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(continuous="1 second")
    with pytest.raises(PySparkException, match="can't be written by a query with the continuous trigger"):
        begun.toTable(f"{namespace}.t")
