"""Streams as sources of streaming queries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from streaming_tools import (
    TIMEOUT_S,
    Batches,
    make_stream,
    numbered,
    read_stream,
    run_available,
    scope_of,
    start,
    write,
)

from pyspark_pravega.client import Client
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_a_table_is_read_from_its_head_and_then_its_tail(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT, name STRING) CLUSTERED BY (name) INTO 3 BUCKETS")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1, 'a'), (2, 'b')")
    frame = spark.readStream.table(f"{namespace}.t")
    assert frame.isStreaming

    found = run_available(frame, tmp_path)
    assert sorted(row for rows in found.rows.values() for row in rows) == [Row(id=1, name="a"), Row(id=2, name="b")]

    spark.sql(f"INSERT INTO {namespace}.t VALUES (3, NULL)")
    again = run_available(frame, tmp_path)
    assert [row for rows in again.rows.values() for row in rows] == [Row(id=3, name=None)]
    assert run_available(frame, tmp_path).rows == {}


def test_metadata_columns_can_be_streamed(spark: SparkSession, client: Client, namespace: str, tmp_path: Path) -> None:
    stream = make_stream(client, namespace, "t")
    write(client, stream, ["a:1", "b:22"])
    frame = spark.readStream.table(f"{namespace}.t").select("_offset", "event", "_segment")
    found = run_available(frame, tmp_path)
    assert found.rows == {
        0: [Row(_offset=0, event=bytearray(b"a:1"), _segment=0), Row(_offset=11, event=bytearray(b"b:22"), _segment=0)]
    }


def test_a_running_query_sees_new_events_through_scales(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    stream = make_stream(client, namespace, "t", segments=2)
    sink = Batches()
    query = start(spark.readStream.table(f"{namespace}.t"), tmp_path, sink)
    try:
        for part in range(4):
            write(client, stream, numbered(5, 3, first=3 * part))
            client.controller.scale_to(stream, [3, 1, 4, 2][part])
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert sorted(sink.all_events) == sorted(numbered(5, 12))
    for key in range(5):
        assert [event for event in sink.all_events if event.startswith(f"k{key}:")] == [
            f"k{key}:{number}" for number in range(12)
        ]


def test_limits_cut_batches_at_events(spark: SparkSession, client: Client, namespace: str, tmp_path: Path) -> None:
    stream = make_stream(client, namespace, "t", segments=2)
    write(client, stream, numbered(10, 10))
    found = run_available(read_stream(spark, f"{namespace}.t", maxEventsPerTrigger=30), tmp_path / "events")
    assert [len(batch) for batch in found.events] == [30, 30, 30, 10]
    assert sorted(found.all_events) == sorted(numbered(10, 10))
    # An event takes 12 bytes with its frame.
    found = run_available(read_stream(spark, f"{namespace}.t", maxBytesPerTrigger="300"), tmp_path / "bytes")
    assert [len(batch) for batch in found.events] == [25, 25, 25, 25]
    assert sorted(found.all_events) == sorted(numbered(10, 10))


def test_available_now_stops_at_what_was_there_when_it_began(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    stream = make_stream(client, namespace, "t", segments=2)
    write(client, stream, numbered(4, 25))
    late = iter(range(25, 1000))

    class Writing(Batches):
        def __call__(self, frame, batch):  # type: ignore[no-untyped-def]
            super().__call__(frame, batch)
            write(client, stream, numbered(4, 1, first=next(late)))
            client.controller.scale_to(stream, 2 + batch % 2)

    frame = read_stream(spark, f"{namespace}.t", maxEventsPerTrigger=20)
    found = run_available(frame, tmp_path, Writing())
    assert sorted(found.all_events) == sorted(numbered(4, 25))
    assert len(found.rows) >= 5
    rest = run_available(frame, tmp_path)
    assert sorted(rest.all_events) == sorted(numbered(4, len(found.rows), first=25))


@pytest.mark.since_spark("4.2")
def test_by_options_it_is_the_same(
    spark: SparkSession, sandbox: Sandbox, client: Client, namespace: str, tmp_path: Path
) -> None:
    one, other = (make_stream(client, namespace, name, segments=2) for name in ("one", "other"))
    write(client, one, numbered(3, 10))
    write(client, other, [f"o{event}" for event in numbered(3, 10)])
    frame = (
        spark.readStream.format("pravega")
        .option("controller", sandbox.controller_uri)
        .option("stream", f"{one},{other}")
        .option("maxEventsPerTrigger", "20")
        .load()
    )
    assert frame.columns == ["event", "scope", "stream", "segment_id", "offset"]
    found = run_available(frame, tmp_path)
    assert [len(batch) for batch in found.events] == [20, 20, 20]
    assert {(row.scope, row.stream) for rows in found.rows.values() for row in rows} == {
        (one.scope, "one"),
        (one.scope, "other"),
    }
    assert sorted(found.all_events) == sorted([*numbered(3, 10), *(f"o{event}" for event in numbered(3, 10))])
    write(client, one, ["k0:new"])
    assert run_available(frame, tmp_path).all_events == ["k0:new"]


def test_truncation_under_a_lagging_query_is_an_error_or_skipped(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    stream = make_stream(client, namespace, "t")
    write(client, stream, numbered(1, 5))
    run_available(read_stream(spark, f"{namespace}.t"), tmp_path)
    write(client, stream, numbered(1, 5, first=5))
    middle = client.tail(stream)
    write(client, stream, numbered(1, 5, first=10))
    client.truncate(middle)

    with pytest.raises(StreamingQueryException) as refused:
        run_available(read_stream(spark, f"{namespace}.t"), tmp_path)
    message = str(refused.value)
    assert "PRAVEGA_DATA_LOSS" in message
    assert '{"0":60}' in message.replace("\\", "")
    assert middle.to_json() in message.replace("\\", "")
    assert "failOnDataLoss" in message

    found = run_available(read_stream(spark, f"{namespace}.t", failOnDataLoss="false"), tmp_path)
    assert found.all_events == numbered(1, 5, first=10)


def test_a_stream_made_again_is_noticed(spark: SparkSession, client: Client, namespace: str, tmp_path: Path) -> None:
    stream = make_stream(client, namespace, "t")
    write(client, stream, numbered(1, 5))
    run_available(read_stream(spark, f"{namespace}.t"), tmp_path)
    client.controller.delete_stream(stream, seal=True)
    make_stream(client, namespace, "t")
    write(client, stream, numbered(1, 20))
    with pytest.raises(StreamingQueryException, match="deleted and made again"):
        run_available(read_stream(spark, f"{namespace}.t"), tmp_path)
    found = run_available(read_stream(spark, f"{namespace}.t", failOnDataLoss="false"), tmp_path)
    assert found.all_events == numbered(1, 20)


def test_starts_and_ends(spark: SparkSession, client: Client, namespace: str, tmp_path: Path) -> None:
    stream = make_stream(client, namespace, "t", segments=2)
    table = f"{namespace}.t"
    write(client, stream, numbered(4, 5))
    first = client.tail(stream)
    client.controller.scale_to(stream, 3)
    write(client, stream, numbered(4, 5, first=5))
    second = client.tail(stream)
    write(client, stream, numbered(4, 5, first=10))
    middle = sorted(numbered(4, 5, first=5))
    bounds = {"startStreamCut": first.to_json(), "endStreamCut": second.to_text()}
    assert sorted(run_available(read_stream(spark, table, **bounds), tmp_path / "1").all_events) == middle
    read = spark.read.options(**bounds).table(table)
    assert sorted(bytes(row.event).decode() for row in read.collect()) == middle
    latest = read_stream(spark, table, startStreamCut="latest")
    assert run_available(latest, tmp_path / "2").all_events == []
    write(client, stream, ["k0:late"])
    assert run_available(latest, tmp_path / "2").all_events == ["k0:late"]
    ended = read_stream(spark, table, endStreamCut="latest")
    assert len(run_available(ended, tmp_path / "3").all_events) == 61
    write(client, stream, ["k0:later"])
    assert run_available(ended, tmp_path / "3").all_events == []


def test_a_start_may_be_a_time(spark: SparkSession, client: Client, namespace: str, tmp_path: Path) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id INT)")
    for number in range(4):
        spark.sql(f"INSERT INTO {table} VALUES ({number})")
    from pyspark_pravega.client import Stream
    from pyspark_pravega.connector.log import open_ledger

    ledger = open_ledger(client, Stream(scope_of(namespace), "t"))
    assert ledger is not None
    third = ledger.commits([3])[0].committed_at
    found = run_available(read_stream(spark, table, startTimestamp=third), tmp_path / "1")
    assert [row.id for rows in found.rows.values() for row in rows] == [2, 3]
    assert sorted(row.id for row in spark.read.option("startTimestamp", third).table(table).collect()) == [2, 3]
    assert [row.id for row in spark.read.option("endTimestamp", third).table(table).collect()] == [0, 1]
    assert spark.read.option("startTimestamp", "2020-01-01").table(table).count() == 4


def test_lag_is_in_the_progress(spark: SparkSession, client: Client, namespace: str, tmp_path: Path) -> None:
    stream = make_stream(client, namespace, "t", segments=2)
    write(client, stream, numbered(10, 10))
    query = start(read_stream(spark, f"{namespace}.t", maxEventsPerTrigger=40), tmp_path, Batches(), available_now=True)
    assert query.awaitTermination(TIMEOUT_S)
    progress = [json.loads(p.json) for p in query.recentProgress]
    metrics = [p["sources"][0]["metrics"] for p in progress if p["numInputRows"]]
    assert {
        "minBytesBehindLatest", "maxBytesBehindLatest", "avgBytesBehindLatest", "totalBytesBehindLatest",
        "minEventsBehindLatest", "maxEventsBehindLatest", "avgEventsBehindLatest", "totalEventsBehindLatest",
    } <= metrics[0].keys()  # fmt: skip
    assert int(metrics[0]["totalEventsBehindLatest"]) in (60, 20)
    assert progress[-1]["sources"][0]["endOffset"]["streams"][str(stream)]["cut"] == {
        str(segment): offset for segment, offset in client.tail(stream).items()
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"maxEventsPerTrigger": "none"}, '"maxEventsPerTrigger" must be a number from 1'),
        ({"maxEventPerTrigger": "5"}, 'did you mean "maxEventsPerTrigger"?'),
        ({"maxTriggerDelay": "5s"}, '"minEventsPerTrigger" events: give that, too'),
        ({"startStreamCut": "yesterday"}, "must be earliest, latest, unbounded, a cut"),
        ({"startStreamCut": '{"7":0}'}, "has no segment 7"),
        ({"startTimestamp": "2020-01-01"}, "needs versions, and stream"),
        ({"failOnDataLoss": "maybe"}, "must be true or false"),
    ],
)
def test_wrong_options_are_named(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path, given: dict[str, str], words: str
) -> None:
    make_stream(client, namespace, "t")
    with pytest.raises(Exception) as refused:
        run_available(read_stream(spark, f"{namespace}.t", **given), tmp_path)
    assert words in str(refused.value).replace("\\", "")
