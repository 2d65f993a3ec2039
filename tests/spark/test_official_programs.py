"""Programs as they are written for Pravega's own Spark connector: each begins with a Pravega that holds nothing.

They are twins of the six that its authors publish: the same sources, sinks, options and columns, in words of our own.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from waiting import eventually

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn]

COLUMNS = ["CAST(event AS STRING)", "scope", "stream", "segment_id", "offset"]


class Programs:
    """The six, with what each is told by its environment."""

    def __init__(self, spark: SparkSession, controller: str, scope: str, checkpoints: Path) -> None:
        self.spark, self.controller, self.scope, self.checkpoints = spark, controller, scope, checkpoints

    def place(self, given: Any, stream: str, *, allow: bool = True) -> Any:
        if allow:
            given = given.option("allow_create_scope", True)
        return given.option("controller", self.controller).option("scope", self.scope).option("stream", stream)

    def file_to_pravega(self, file: Path) -> None:
        rows = self.spark.read.format("json").load(str(file))
        rows = rows.selectExpr("to_json(struct(*)) AS event", "room AS routing_key")
        writer = self.place(rows.write.mode("append").format("pravega"), "readings")
        writer.option("default_num_segments", "5").save()

    def pravega_to_console(self) -> DataFrame:
        read: DataFrame = self.place(self.spark.read.format("pravega"), "readings").load().selectExpr(*COLUMNS)
        return read

    def generated_to_pravega(self) -> DataStreamWriter:
        rows = self.spark.readStream.format("rate").option("rowsPerSecond", 5).option("numPartitions", 1).load()
        rows = rows.selectExpr("CAST(timestamp AS STRING) AS event", "CAST(value AS STRING) AS routing_key")
        writer: DataStreamWriter = self.place(self.started(rows, "generated").format("pravega"), "ticks")
        return writer

    def stream_to_console(self, name: str, **bounds: str) -> DataStreamWriter:
        rows = self.place(self.spark.readStream.format("pravega"), "ticks").options(**bounds).load()
        # The console's rows can't be looked at from here; those in memory can.
        return self.started(rows.selectExpr(*COLUMNS), name).format("memory").queryName(name)

    def pravega_to_pravega(self) -> DataStreamWriter:
        rows = (
            self.place(self.spark.readStream.format("pravega"), "ticks").option("start_stream_cut", "earliest").load()
        )
        rows = rows.selectExpr("event", "CAST(event AS STRING) AS routing_key")
        writer: DataStreamWriter = self.place(self.started(rows, "copied").format("pravega"), "copies", allow=False)
        return writer

    def started(self, rows: DataFrame, name: str) -> DataStreamWriter:
        writer = rows.writeStream.trigger(processingTime="100 milliseconds").outputMode("append")
        return writer.option("checkpointLocation", str(self.checkpoints / name))


def run(program: DataStreamWriter) -> None:
    """Let it come to the end of what is there, and stop it."""
    query = program.start()
    query.processAllAvailable()
    query.stop()


@pytest.fixture
def programs(spark: SparkSession, sandbox: Sandbox, tmp_path: Path) -> Programs:
    return Programs(spark, sandbox.controller_uri, f"their-{uuid.uuid4().hex[:12]}", tmp_path)


@pytest.mark.since_spark("4.1")
@pytest.mark.in_turn(8)
def test_the_six_programs_run(spark: SparkSession, client: Client, programs: Programs, tmp_path: Path) -> None:
    assert programs.pravega_to_console().count() == 0  # makes scope and stream
    readings = [{"id": number, "room": room, "degrees": number / 2} for number, room in enumerate("aabcb")]
    file = tmp_path / "readings.json"
    file.write_text("".join(json.dumps(reading) + "\n" for reading in readings))
    programs.file_to_pravega(file)
    shown = programs.pravega_to_console()
    assert shown.columns == ["event", "scope", "stream", "segment_id", "offset"]
    found = sorted((json.loads(row.event) for row in shown.collect()), key=lambda event: event["id"])
    assert found == readings
    rooms: dict[str, set[int]] = {}
    for row in shown.collect():
        rooms.setdefault(json.loads(row.event)["room"], set()).add(row.segment_id)
        assert (row.scope, row.stream) == (programs.scope, "readings")
    assert all(len(segments) == 1 for segments in rooms.values())

    # Those that read a stream are started before it is there, and go on when it has events.
    run(programs.stream_to_console("nothing", start_stream_cut="earliest"))
    run(programs.pravega_to_pravega())
    generated = programs.generated_to_pravega().start()
    eventually(lambda: generated.exception() or sum(one["numInputRows"] for one in generated.recentProgress) >= 5)
    generated.stop()
    assert generated.exception() is None
    run(programs.stream_to_console("seen", start_stream_cut="earliest"))
    run(programs.pravega_to_pravega())
    run(programs.stream_to_console("bounded", start_stream_cut="earliest", end_stream_cut="latest"))
    copies = programs.place(spark.read.format("pravega"), "copies", allow=False)
    assert spark.table("seen").count() >= 5
    ticks = sorted(bytes(row.event) for row in programs.place(spark.read.format("pravega"), "ticks").load().collect())
    assert ticks == sorted(row.event.encode() for row in spark.table("seen").collect())
    assert ticks == sorted(row.event.encode() for row in spark.table("bounded").collect())
    assert ticks == sorted(bytes(row.event) for row in copies.load().collect())
    names = spark.read.format("pravega").option("controller", programs.controller).option("scope", programs.scope)
    listed = names.option("metadata", "Streams").load()
    assert listed.schema.simpleString() == "struct<scope_name:string,stream_name:string>"
    assert sorted(row.stream_name for row in listed.collect()) == ["copies", "readings", "ticks"]


def test_its_defaults_and_its_rows(spark: SparkSession, client: Client, programs: Programs) -> None:
    ours = {"controller-uri": programs.controller, "stream": f"{programs.scope}/ticks"}
    rows = spark.sql("SELECT * FROM VALUES ('a', 'k'), ('b', NULL), ('c', NULL) AS t(event, routing_key)")
    programs.place(rows.write.format("pravega"), "ticks").mode("append").save()

    # Where only its options are used a stream begins at the tail, as there; with ours at the head.
    late = programs.stream_to_console("late").start()
    late.processAllAvailable()
    whole = spark.readStream.format("pravega").options(**ours).load()
    early = programs.started(whole, "early").format("memory").queryName("early").start()
    early.processAllAvailable()
    # Rows as they were read can be written: of the columns beside the event only a routing key counts.
    read = programs.place(spark.read.format("pravega"), "ticks").load()
    programs.place(read.where("event = X'61'").write.format("pravega"), "ticks").mode("append").save()
    late.processAllAvailable()
    early.processAllAvailable()
    late.stop()
    early.stop()
    assert [row.event for row in spark.table("late").collect()] == ["a"]
    assert sorted(bytes(row.event) for row in spark.table("early").collect()) == [b"a", b"a", b"b", b"c"]

    java = spark._jsparkSession.read().format("pravega").option("controller", programs.controller)
    java = java.option("scope", programs.scope).option("stream", "ticks")
    assert java.load().count() == 4
    assert (
        java.option("metadata", "StreamInfo").load().first().getString(1)
        == client.tail(Stream(programs.scope, "ticks")).to_text()
    )

    for query, words in [
        ("SELECT 1 AS event", 'column "event" of the rows for stream "{stream}" is of type int: cast it'),
        ("SELECT 'a' AS event, 1 AS routing_key", "CAST(routing_key AS STRING)"),
        ("SELECT 'a' AS event, 1 AS other", "other is unknown"),
    ]:
        with pytest.raises(AnalysisException) as refused:
            programs.place(spark.sql(query).write.format("pravega"), "ticks").mode("append").save()
        assert words.format(stream=f"{programs.scope}/ticks") in str(refused.value)
    with pytest.raises(AnalysisException, match="does not exist: make a table with the rows' columns"):
        programs.place(spark.range(1).write.format("pravega"), "misspelt").mode("append").save()
    with pytest.raises(AnalysisException, match="does not exist"):
        programs.place(spark.read.format("pravega"), "misspelt").option("allow_create_stream", "false").load()
    with pytest.raises(AnalysisException, match="does not exist"):
        programs.place(spark.read.format("pravega"), "misspelt").option("format", "avro").load()
    for reader in (spark.read, spark.readStream):
        with pytest.raises(AnalysisException, match=f'does not exist; did you mean "{programs.scope}/ticks"'):
            programs.place(reader.format("pravega"), "tiks", allow=False).load()
    assert list(client.controller.list_streams(programs.scope)) == ["ticks"]
