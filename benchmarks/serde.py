"""Events to rows and back: the native codec, the plain one, and Spark's own functions, in one run on one core each."""

from __future__ import annotations

import argparse
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from benchmarks import results, serde_rows
from benchmarks.harness import driver_pid, process_tree_cpu_seconds
from pyspark_pravega.sandbox import Bundle, fetch
from pyspark_pravega.serde import describe
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.encodings import WriterSchema, header
from pyspark_pravega.serde.formats import AVRO, JSON, PROTOBUF, Schema, schema_for
from tests.jars.java_client import compile_java

JARS = Path(__file__).parents[1] / "tests" / "jars"
SPARK_AVRO = Bundle("spark-avro", JARS / "spark-avro.xml", JARS / "spark-avro.sha256")
BATCH = 10_000
"""Events in a batch: about what a read of a megabyte holds."""
PLAIN_SHARE = 10
"""Of how many events the slow plain codecs of JSON and Protobuf are given one."""


@dataclass(frozen=True, kw_only=True)
class Encodings:
    """One schema, whatever the id."""

    schema: Schema

    def writer_schema(self, encoding_id: int) -> WriterSchema:
        assert encoding_id == 0
        text = "" if self.schema.format == PROTOBUF else self.schema.data.decode()
        return WriterSchema(schema_text=text, schema_data=self.schema.data, type=self.schema.type)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Rows in a format."""

    name: str
    schema: Schema
    columns: StructType
    batch: pa.RecordBatch
    payloads: pa.Array
    """The rows as events with headers."""

    @property
    def encodings(self) -> Encodings:
        return Encodings(schema=self.schema)

    def bodies(self) -> pa.Array:
        """The events without headers, as Spark's functions take them."""
        return pa.array([event[len(header(0)) :] for event in self.payloads.to_pylist()], pa.binary())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="keep the results, and show them in RESULTS.md")
    arguments = parser.parse_args()
    lines = [
        f"{arguments.events:,} events; CPU time of one thread, best of {arguments.runs} runs; codec: {describe()}.",
        "",
        "| | events/s | bytes/event | times Spark's | times Spark's, net |",
        "|---|--:|--:|--:|--:|",
    ]
    with spark_session() as spark:
        for subject in subjects(arguments.events):
            for line in measured(subject, spark, arguments.runs):
                print(line, flush=True)
                lines.append(line)
    if arguments.record:
        command = ["--events", str(arguments.events), "--runs", str(arguments.runs), "--record"]
        results.append("\n".join(lines), "benchmarks.serde", command)


def subjects(events: int) -> Iterator[Subject]:
    """The rows in each format."""
    for name, columns, make in (
        ("flat", serde_rows.FLAT, serde_rows.flat),
        ("nested", serde_rows.NESTED, serde_rows.nested),
    ):
        for table_format in (AVRO, JSON, PROTOBUF):
            schema = schema_for(table_format, columns, name="rows", namespace="benchmark")
            of_schema = schema.columns()
            batch = make(events, to_arrow_schema(of_schema, timezone="UTC"))
            codec = schema.codec(of_schema, Encodings(schema=schema), write_id=0)
            payloads = pa.concat_arrays([codec.encode(part) for part in batches(batch)])
            yield Subject(
                name=f"{table_format}, {name}", schema=schema, columns=of_schema, batch=batch, payloads=payloads
            )


def measured(subject: Subject, spark: SparkSession, runs: int) -> Iterator[str]:
    """Lines of the table."""
    size = subject.payloads.nbytes / len(subject.payloads)
    decode, encode = in_spark(subject, spark, runs)
    codec = subject.schema.codec(subject.columns, subject.encodings, write_id=0)
    plain = subject.schema.plain_codec(subject.columns, subject.encodings, write_id=0)
    for what, by_spark in (("decode", decode), ("encode", encode)):
        if by_spark is not None:
            yield row(f"{subject.name}: {what}, {by_spark.name}", by_spark.rate, size, None)
            if by_spark.net != by_spark.rate:
                yield row(f"{subject.name}: {what}, {by_spark.name}, net", by_spark.net, size, None)
        for name, one in (("native" if codec is not plain else "the same as", codec), ("plain", plain)):
            slow = one is plain and subject.schema.format != AVRO
            rate = of_codec(one, subject, what, runs, share=PLAIN_SHARE if slow else 1)
            yield row(f"{subject.name}: {what}, {name}", rate, size, by_spark)


def row(name: str, rate: float, size: float, baseline: BySpark | None) -> str:
    times = f"{rate / baseline.rate:.1f} | {rate / baseline.net:.1f}" if baseline else " | "
    return f"| {name} | {rate:,.0f} | {size:.0f} | {times} |"


def of_codec(codec: Codec, subject: Subject, what: str, runs: int, *, share: int) -> float:
    """Events a second of one of our codecs."""
    count = len(subject.payloads) // share
    parts = batches(subject.batch.slice(0, count))
    events = [subject.payloads.slice(i, BATCH) for i in range(0, count, BATCH)]
    if what == "decode":
        return count / best(lambda: [codec.decode(part, codec.schema.names) for part in events], runs)
    return count / best(lambda: [codec.encode(part) for part in parts], runs)


def batches(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [batch.slice(i, BATCH) for i in range(0, batch.num_rows, BATCH)]


def best(work: Callable[[], Any], runs: int) -> float:
    """CPU seconds of the best run."""
    times = []
    for _ in range(runs):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return min(times)


@dataclass(frozen=True, kw_only=True)
class BySpark:
    """What there is to compare with."""

    name: str
    rate: float
    """Events a second of a query that does nothing else with its rows."""
    net: float
    """The same without the time that the query takes for the same rows without the function."""


def in_spark(subject: Subject, spark: SparkSession, runs: int) -> tuple[BySpark | None, BySpark | None]:
    """Spark's functions for a format: decoding and encoding."""
    if subject.schema.format == PROTOBUF:
        rate = parsed_by_java(subject, runs)
        return BySpark(name="Java DynamicMessage.parseFrom alone", rate=rate, net=rate), None
    with tempfile.TemporaryDirectory() as folder:
        events, rows = f"{folder}/events", f"{folder}/rows"
        pq.write_table(pa.table({"body": subject.bodies()}), events, compression="none")
        pq.write_table(pa.Table.from_batches([subject.batch]), rows, compression="none")
        with cached(spark.read.parquet(events)) as binary, cached(spark.read.parquet(rows)) as plain:
            idle_decode = spark_seconds(binary.select(f.length("body")), spark, runs)
            idle_encode = spark_seconds(plain, spark, runs)
            read, write = functions_of(subject)
            decode = spark_seconds(binary.select(read(f.col("body")).alias("r")).select("r.*"), spark, runs)
            encode = spark_seconds(plain.select(f.length(write(f.struct("*")).cast("binary"))), spark, runs)
    count = len(subject.payloads)
    names = {AVRO: ("from_avro", "to_avro"), JSON: ("from_json", "to_json")}[subject.schema.format]
    return (
        BySpark(name=f"Spark's {names[0]}", rate=count / decode, net=count / (decode - idle_decode)),
        BySpark(name=f"Spark's {names[1]}", rate=count / encode, net=count / (encode - idle_encode)),
    )


def functions_of(subject: Subject) -> tuple[Callable[[Column], Column], Callable[[Column], Column]]:
    if subject.schema.format == AVRO:
        from pyspark.sql.avro.functions import from_avro, to_avro

        text = subject.schema.data.decode()
        return lambda column: from_avro(column, text), lambda column: to_avro(column, text)
    columns = from_arrow_schema(to_arrow_schema(subject.columns, timezone="UTC"))
    return lambda column: f.from_json(column.cast("string"), columns), f.to_json


@contextmanager
def cached(frame: DataFrame) -> Iterator[DataFrame]:
    rows = frame.coalesce(1).cache()
    rows.count()
    yield rows
    rows.unpersist()


def spark_seconds(frame: DataFrame, spark: SparkSession, runs: int) -> float:
    """CPU seconds of the best run of a query on one thread; the first ones warm the JVM up."""
    process = driver_pid(spark)
    times = []
    for _ in range(runs + 3):
        before = process_tree_cpu_seconds(process)
        frame.write.format("noop").mode("overwrite").save()
        times.append(process_tree_cpu_seconds(process) - before)
    return min(times)


def parsed_by_java(subject: Subject, runs: int) -> float:
    """Events a second that Java parses as dynamic messages: from_protobuf does that, and then makes rows of them."""
    with tempfile.TemporaryDirectory() as folder:
        java = compile_java(
            Path(__file__).parent / "protobuf_java", Path(folder), controller_uri="", schema_registry_uri=""
        )
        bodies = subject.bodies().to_pylist()
        schema, events = Path(folder, "schema"), Path(folder, "events")
        schema.write_bytes(subject.schema.data)
        packed = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
        events.write_bytes(struct.pack(">i", len(bodies)) + packed)
        answer = java.run(
            "ProtobufDecode", str(schema), subject.schema.type.rpartition(".")[2], str(events), str(runs + 3)
        )
    return 1e9 / float(answer.split()[0])


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    jars = ",".join(str(path) for path in sorted(fetch(SPARK_AVRO).glob("*.jar")))
    session = (
        SparkSession.builder.master("local[1]")
        .appName("serde")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.host", "localhost")
        .config("spark.sql.session.timeZone", "UTC")
        # One compiler and collector thread don't hide the work of the one that is measured.
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


if __name__ == "__main__":
    main()
