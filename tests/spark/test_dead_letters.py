"""Events that can't be decoded go to a table of dead letters, whatever dies meanwhile."""

from __future__ import annotations

from pathlib import Path
from time import sleep

import pytest
from procedure_driver import DeathError, Driver
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from streaming_tools import kill_workers, run_available, scope_of

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import History, Intent, open_ledger, take_snapshot
from pyspark_pravega.connector.log.entries import OTHERS
from pyspark_pravega.connector.log.history import forget_versions
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]

LETTERS = (
    "(source STRING NOT NULL, segment BIGINT NOT NULL, offset BIGINT NOT NULL, encoding_id INT, reason STRING, "
    "event BINARY, at TIMESTAMP) TBLPROPERTIES ('primary-key' = 'source, segment, offset')"
)
GOOD, BAD, PARTS = 1_000, 50, 5


def spoil(client: Client, stream: Stream, payload: bytes) -> None:
    """Append an event that isn't the table's."""
    with client.writer(stream) as writer:
        writer.write(payload, payload.hex())


def bad_event(table_format: str, number: int) -> bytes:
    """An event with the table's header and a body that is no row."""
    bodies = {"avro": b"\xff" * 11, "json": b"{" + str(number).encode(), "protobuf": b"\xff\xff"}
    return b"\x01\0\0\0\0" + bodies[table_format] + number.to_bytes(2)


@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
@pytest.mark.in_turn(8)
def test_each_bad_event_is_a_dead_letter_once_and_each_good_one_a_row(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path, table_format: str
) -> None:
    """Of several INSERTs in two segments; workers are killed, and the query is started anew."""
    source, sink, letters = (f"{namespace}.{name}_{table_format}" for name in ("source", "sink", "letters"))
    spark.sql(f"CREATE TABLE {letters} {LETTERS}")
    for table, properties in ((source, f", 'bad-events' = 'stream:{letters.removeprefix('pravega.')}'"), (sink, "")):
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT, name STRING) CLUSTERED BY (name) INTO 2 BUCKETS "
            f"TBLPROPERTIES ('format' = '{table_format}'{properties})"
        )
    stream = Stream(scope_of(namespace), f"source-{table_format}")
    payloads = [bad_event(table_format, number) for number in range(BAD)]
    for part in range(PARTS):
        first = part * GOOD // PARTS
        spark.sql(f"INSERT INTO {source} SELECT id, 'k' || id % 7 FROM range({first}, {first + GOOD // PARTS})")
        for payload in payloads[part::PARTS]:
            spoil(client, stream, payload)
    places = {
        (str(stream), row._segment, row._offset): bytes(row._corrupt_event)
        for row in spark.sql(
            f"SELECT _segment, _offset, _corrupt_event FROM {source} WITH ('mode' = 'permissive') "
            "WHERE _corrupt_event IS NOT NULL"
        ).collect()
    }
    assert sorted(places.values()) == sorted(payloads)

    kills: list[int | None] = []  # The batch after which each one came; none before the first batch is over.
    while True:
        kills_before = len(kills)
        query = (
            spark.readStream.option("maxEventsPerTrigger", 100)
            .table(source)
            .writeStream.option("checkpointLocation", str(tmp_path / table_format))
            .trigger(availableNow=True)
            .toTable(sink)
        )
        try:
            while query.isActive:
                progress = query.lastProgress
                batch = int(progress["batchId"]) if progress else None
                if table_format == "avro" and len(kills) < 3 and batch not in kills and kill_workers(spark):
                    kills.append(batch)
                sleep(0.1)
            query.awaitTermination()
            break
        except StreamingQueryException:
            if len(kills) == kills_before:
                raise  # It didn't fail because of a worker.
    assert kills or table_format != "avro"
    assert sorted(row.id for row in spark.table(sink).collect()) == list(range(GOOD))
    found = spark.table(letters).collect()
    assert {(row.source, row.segment, row.offset): bytes(row.event) for row in found} == places
    assert len(found) == BAD
    assert all(row.reason and row.at and row.encoding_id == 0 for row in found)
    # A batch read leaves bad events out, as the property says, and writes nothing.
    events = spark.table(letters.replace("letters", "`letters") + "$log`").count()
    assert spark.table(source).count() == GOOD
    assert spark.table(letters.replace("letters", "`letters") + "$log`").count() == events
    # One that is asked to tells of them, too: of the same places.
    option = f"WITH ('bad-events' = 'stream:{letters.removeprefix('pravega.')}')"
    assert spark.sql(f"SELECT count(DISTINCT id) FROM {source} {option}").collect() == [(GOOD,)]
    assert spark.table(letters).count() == BAD


def test_what_can_not_take_bad_events_is_refused_when_the_query_is_defined(
    spark: SparkSession, sandbox: Sandbox, namespace: str, tmp_path: Path
) -> None:
    scope = scope_of(namespace)
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT)")
    spark.sql(f"CREATE TABLE {namespace}.letters {LETTERS}")
    spark.sql(f"CREATE TABLE {namespace}.other (id BIGINT)")
    refused = {
        f"stream:{scope}/none": "does not exist: make it by CREATE TABLE",
        f"stream:{scope}/other": "has other columns, or another primary key; make it by CREATE TABLE",
        f"stream:{scope}/t": "can't go to that stream itself",
        "letters": "names no table: write namespace.table",
        "stream:letters": "names no table: write namespace.table",
    }
    for value, words in refused.items():
        with pytest.raises((AnalysisException, PravegaError), match=words):
            spark.sql(f"SELECT * FROM {namespace}.t WITH ('bad-events' = '{value}')").collect()
        with pytest.raises((AnalysisException, StreamingQueryException, PravegaError), match=words):
            run_available(spark.readStream.option("badEvents", value).table(f"{namespace}.t"), tmp_path / "refused")
    good = f"stream:{scope}/letters"
    with pytest.raises(AnalysisException, match="contradict each other"):
        spark.sql(f"SELECT * FROM {namespace}.t WITH ('bad-events' = '{good}', 'mode' = 'permissive')").collect()
    with pytest.raises(AnalysisException, match="contradict each other"):
        spark.sql(f"ALTER TABLE {namespace}.t SET TBLPROPERTIES ('bad-events' = '{good}', 'mode' = 'permissive')")
    # An option of the query is stronger than the table's property, with the catalog and without.
    spark.sql(f"ALTER TABLE {namespace}.t SET TBLPROPERTIES ('bad-events' = '{good}')")
    plain = {"controller-uri": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}
    without = spark.readStream.format("pravega").options(**plain, stream=f"{scope}/t", mode="fail-fast").load()
    for number, streamed in enumerate((spark.readStream.option("mode", "fail-fast").table(f"{namespace}.t"), without)):
        assert not any(run_available(streamed, tmp_path / f"strict {number}").rows.values())


def sweep(catalog: Catalog, stream: Stream) -> None:
    """Commit a version without rows, and let the log of a table forget all that were before."""
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    state = ledger.state()
    nothing = Intent(job=OTHERS, transactions=(), rows=0, bytes=0, started_at=now_ms())
    cut = take_snapshot(catalog.client, stream, ledger).cut
    state = ledger.complete(state, committed_at=now_ms(), cut=cut, without_rows=nothing)
    forget_versions(ledger._table, state.version, History(versions=1))


def test_dead_letters_are_redelivered_once_when_their_schema_is_there(
    spark: SparkSession,
    client: Client,
    catalog: Catalog,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events of a program that was quicker than the registry, and some that nobody will ever decode. The target's log
    has swept each version before the call after it."""
    source, sink, letters = (f"{namespace}.{name}" for name in ("source", "sink", "letters"))
    spark.sql(f"CREATE TABLE {letters} {LETTERS}")
    spark.sql(
        f"CREATE TABLE {source} (id BIGINT, name STRING) CLUSTERED BY (name) INTO 2 BUCKETS "
        f"TBLPROPERTIES ('bad-events' = 'stream:{letters.removeprefix('pravega.')}')"
    )
    spark.sql(f"CREATE TABLE {sink} (id BIGINT, name STRING)")
    spark.sql(f"INSERT INTO {source} VALUES (1, 'one')")
    stream = Stream(scope_of(namespace), "source")
    early = list(range(40, 60))
    for number in early:
        # By the schema that comes next, with the encoding id that it will get: a long, a text and a text, none is null.
        spoil(client, stream, b"\x01\0\0\0\x01\x02" + bytes([2 * number]) + b"\x02\x02n\x02\x04ab")
    for number in range(3):
        spoil(client, stream, bad_event("avro", number))
    arguments = [table.removeprefix("pravega.") for table in (letters, source, sink)]
    run = spark.readStream.table(source).writeStream.option("checkpointLocation", str(tmp_path / "c"))
    run.trigger(availableNow=True).toTable(sink).awaitTermination()
    assert spark.table(letters).count() == len(early) + 3
    texts = ", ".join(map(repr, arguments))
    assert spark.sql(f"CALL pravega.system.redeliver({texts})").collect() == [(str(stream), 23, 0, 23, None)]

    for table in (source, sink):
        spark.sql(f"ALTER TABLE {table} ADD COLUMN note STRING")
    spark.sql(f"INSERT INTO {source} VALUES (2, 'two', 'b')")
    driver = Driver(spark, catalog, "redeliver", monkeypatch)
    for steps in range(20):
        try:
            row = driver.run(arguments, steps=steps)
            break
        except DeathError:
            sweep(catalog, Stream(scope_of(namespace), "sink"))
    assert steps >= 5, "it has died before and behind INSERT, DELETE and each note"
    assert row[3] == 3
    assert row[4] is None or row[4] in range(2, 3 * steps), "the version of the piece, which the log has swept"
    assert sorted(row.id for row in spark.table(sink).collect()) == [1, *early]
    assert {row.note for row in spark.table(sink).collect() if row.id != 1} == {"ab"}
    assert spark.table(letters).count() == 3
    assert spark.sql(f"CALL pravega.system.redeliver({texts})").collect() == [(str(stream), 3, 0, 3, None)]
    for others, words in (
        ((letters, source, source), "are three tables"),
        ((source, letters, sink), "has other columns, or another primary key"),
        ((letters, f"{namespace}.none", sink), "does not exist"),
    ):
        named = ", ".join(repr(table.removeprefix("pravega.")) for table in others)
        with pytest.raises(AnalysisException, match=words):
            spark.sql(f"CALL pravega.system.redeliver({named})")
