"""One side of `benchmarks.peers`: a session of Pravega's own connector, or of Kafka's source and sink.

It runs in the environment of that connector, so it uses nothing of this folder but how lines are read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro, to_avro

HEADER = "X'0100000000'"
"""What an event begins with: it tells the encoding."""


def main() -> None:
    """Answer each line [what, stream or topic, events, options]. The argument is a file of settings."""
    given: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master(f"local[{given['threads']}]").appName("benchmark")
    for key, value in {
        "spark.driver.extraClassPath": given["class_path"],
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.driver.host": "localhost",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    rows = _cached(session, given["rows"], given["events"], given["threads"] * 2)
    print("ready", flush=True)
    for line in sys.stdin:
        what, name, _, options = json.loads(line)
        try:
            _do(session, given, rows, what, name, options)
            print("done", flush=True)
        except Exception as error:
            print(" ".join(str(error).split()), flush=True)
    session.stop()


def _cached(session: SparkSession, file: str, events: int, partitions: int) -> DataFrame:
    rows = session.read.parquet(file)
    copies = session.range(0, -(-events // rows.count()), 1, partitions)
    repeated = copies.withColumnRenamed("id", "copy").crossJoin(rows).drop("copy").limit(events)
    repeated = repeated.repartition(partitions).cache()
    assert repeated.count() == events
    return repeated


def _do(
    session: SparkSession, given: dict[str, Any], rows: DataFrame, what: str, name: str, options: dict[str, str]
) -> None:
    is_kafka, schema = given["format"] == "kafka", given["schema"]
    stream = "stream" if not is_kafka else "topic" if what == "write" else "subscribe"
    place = {stream: name, **given["options"], **options}
    if what == "write":
        event = f.concat(f.expr(HEADER), to_avro(f.struct("*"), schema))
        key, value = ("key", "value") if is_kafka else ("routing_key", "event")
        events = rows.select(f.col("customer").alias(key), event.alias(value))
        events.write.format(given["format"]).options(**place).mode("append").save()
        return
    read = session.read.format(given["format"]).options(**place).load()
    event = read.value if is_kafka else read.event
    if what == "raw":
        _to_noop(read.select(event))
        return
    columns = read.select(from_avro(f.expr(f"substring({'value' if is_kafka else 'event'}, 6)"), schema).alias("r"))
    if what == "sum":
        columns.selectExpr("sum(r.amount)", "avg(r.discount)").collect()
    elif what == "two columns":
        _to_noop(columns.select("r.id", "r.customer"))
    else:
        _to_noop(columns.select("r.*"))


def _to_noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    main()
