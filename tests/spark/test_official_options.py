"""Programs written for Pravega's own Spark connector: its options and columns, in batch and in streaming reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from streaming_tools import make_stream, numbered, run_available, scope_of, write
from waiting import eventually

from pyspark_pravega.client import Client, ScaleType, Stream, StreamCut
from pyspark_pravega.client.positions.watermarks import watermarks
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn]


@pytest.fixture
def options(sandbox: Sandbox, namespace: str) -> dict[str, str]:
    return {"controller": sandbox.controller_uri, "scope": scope_of(namespace), "stream": "t"}


def test_cuts_bound_batch_and_streaming_reads(
    spark: SparkSession, client: Client, namespace: str, options: dict[str, str], tmp_path: Path
) -> None:
    stream = make_stream(client, namespace, "t", segments=2)
    write(client, stream, numbered(4, 3))
    info = spark.read.format("pravega").options(**options).option("metadata", "StreamInfo").load().collect()
    assert StreamCut.from_text(info[0].tail_stream_cut) == client.tail(stream)
    assert StreamCut.from_text(info[0].head_stream_cut) == client.controller.head(stream)
    client.controller.scale_to(stream, 3)
    write(client, stream, numbered(4, 3, first=3))
    bounds = {"start_stream_cut": info[0].tail_stream_cut, "end_stream_cut": "latest"}
    batch = spark.read.format("pravega").options(**options, **bounds).load()
    assert batch.columns == ["event", "scope", "stream", "segment_id", "offset"]
    assert sorted(bytes(row.event).decode() for row in batch.collect()) == sorted(numbered(4, 3, first=3))
    both = {"start_stream_cut": "earliest", "end_stream_cut": "unbounded"}
    assert spark.read.format("pravega").options(**options, **both).load().count() == 24
    frame = spark.readStream.format("pravega").options(**options, **bounds).load()
    assert sorted(run_available(frame, tmp_path).all_events) == sorted(numbered(4, 3, first=3))

    said = subprocess.run(
        [
            *(sys.executable, "-m", "pyspark_pravega.cli", "lag", str(tmp_path), "--json"),
            *("--controller", options["controller"]),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(said)["totalBytesBehindLatest"] == 0
    write(client, stream, ["k0:late"])
    command = [sys.executable, "-m", "pyspark_pravega.cli", "lag", tmp_path.as_uri(), "--controller"]
    table = subprocess.run([*command, options["controller"]], capture_output=True, text=True, check=True).stdout
    assert str(stream) in table
    assert "15" in table.splitlines()[2]


def test_a_stream_is_made_unless_that_is_forbidden(
    spark: SparkSession, client: Client, namespace: str, options: dict[str, str]
) -> None:
    stream = Stream(scope_of(namespace), "t")
    with pytest.raises(AnalysisException, match="does not exist"):
        spark.read.format("pravega").options(**options).option("allow_create_stream", "false").load()
    assert not client.controller.stream_exists(stream)
    making = {
        "default_num_segments": "3",
        "default_scale_factor": "2",
        "default_segment_target_rate_events_per_sec": "100",
    }
    assert spark.read.format("pravega").options(**options, **making).load().count() == 0
    configuration = client.controller.stream_configuration(stream)
    assert configuration.scaling.min_segments == 3
    assert configuration.scaling.scale_type is ScaleType.BY_EVENTS_PER_SECOND
    listed = spark.read.format("pravega").options(**options).option("metadata", "Streams").load().collect()
    assert [tuple(row) for row in listed] == [(stream.scope, "t")]


def test_pravega_s_watermarks_are_rows(
    spark: SparkSession, client: Client, namespace: str, options: dict[str, str]
) -> None:
    stream = make_stream(client, namespace, "t", segments=2)
    assert list(watermarks(client.pool, stream)) == []
    noted = iter(range(1_700_000_000_000, 1_800_000_000_000, 1_000))

    def some() -> list[object]:
        write(client, stream, numbered(4, 1))
        client.controller.note_timestamp(stream, "writer", next(noted), client.tail(stream))
        return list(watermarks(client.pool, stream))

    eventually(lambda: len(some()) >= 1, within_s=120)
    frame = spark.read.format("pravega").options(**options).option("metadata", "Watermarks").load()
    rows = frame.collect()
    first = rows[0]
    assert 1_700_000_000_000 <= first.lower_time <= first.upper_time < next(noted)
    assert first.lower_time % 1_000 == 0
    cut = StreamCut.from_text(first.stream_cut)
    assert isinstance(cut, StreamCut)
    assert set(cut) == {0, 1}
    assert [row.lower_time for row in rows] == sorted(row.lower_time for row in rows)


def test_writes_take_its_options(spark: SparkSession, client: Client, namespace: str, options: dict[str, str]) -> None:
    rows = spark.createDataFrame([(b"a",), (b"b",)], "event BINARY")
    writing = rows.write.format("pravega").options(**options).option("read_after_write_consistency", "true")
    writing = writing.option("default_num_segments", "2")
    for exactly_once in ("true", "false"):
        writing.option("exactly_once", exactly_once).mode("append").save()
    read = spark.read.format("pravega").options(**options).load()
    assert sorted(bytes(row.event) for row in read.collect()) == [b"a", b"a", b"b", b"b"]
    assert len(client.controller.current_segments(Stream(scope_of(namespace), "t")).ids) == 2
    with pytest.raises(AnalysisException, match="contradict each other"):
        writing.option("exactly_once", "true").option("writer-mode", "best-effort").mode("append").save()
