"""Spark with a query that writes each micro-batch into three tables as one transaction, in a process to be killed.

Arguments: the controller, and the registry. Each line of its input is a command: JSON with `statements` is SQL; JSON
with `source`, `sinks`, `checkpoint`, `query` and `most` starts the query; `stop` ends it. A query that fails is started
again from its checkpoint, as an operator does. It answers `started` (each time), `executed` and `stopped`.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery
from stream_program import session_of

import pyspark_pravega

_LOOK_S = 0.1


def start(session: SparkSession, what: dict[str, Any]) -> StreamingQuery:
    all_rows, latest, some = what["sinks"]

    def store(batch: DataFrame, epoch: int) -> None:
        rows = batch.select("id", "who", functions.lit(epoch).cast("bigint").alias("epoch"))
        with pyspark_pravega.transaction(batch.sparkSession, "pravega", query=what["query"], epoch=epoch):
            rows.writeTo(all_rows).append()
            # The last row of each key.
            rows.groupBy("who").agg(functions.max("id").alias("id"), functions.max("epoch").alias("epoch")).select(
                rows.columns
            ).writeTo(latest).append()
            rows.where("id % 3 = 0").writeTo(some).append()
            rows.where("id % 3 = 1").writeTo(some).append()

    reader = session.readStream.option("maxEventsPerTrigger", what["most"]).table(what["source"])
    writer = reader.writeStream.foreachBatch(store).option("checkpointLocation", what["checkpoint"])
    return writer.trigger(processingTime="0 seconds").start()


def keep(session: SparkSession, what: dict[str, Any], over: threading.Event) -> None:
    """Run a query until it is over, whatever becomes of it."""
    while not over.is_set():
        try:
            query = start(session, what)
            print("started", flush=True)
            while not over.is_set():
                query.awaitTermination(_LOOK_S)  # type: ignore[arg-type]
            query.stop()
        except PySparkException as error:
            print(error, file=sys.stderr, flush=True)


def main(controller: str, registry: str) -> None:
    conf = {
        "spark.sql.catalog.pravega.schema-registry-uri": registry,
        "spark.sql.shuffle.partitions": "1",
    }
    session = session_of(controller, "local[2]", conf)
    print("ready", flush=True)
    over, running = threading.Event(), threading.Thread()
    for line in sys.stdin:
        if line.strip() == "stop":
            over.set()
            running.join()
            print("stopped", flush=True)
        elif "statements" in (command := json.loads(line)):
            for statement in command["statements"]:
                session.sql(statement)
            print("executed", flush=True)
        else:
            over = threading.Event()
            running = threading.Thread(target=keep, args=(session, command, over))
            running.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
