"""Spark with a query that writes each micro-batch into three tables as one transaction, in a process to be killed.

Arguments: the controller, and the registry. Each line of its input is a command: JSON with `statements` is SQL; JSON
with `source`, `sinks`, `checkpoint`, `query` and `most` starts the query; `stop` ends it. A query that fails is started
again from its checkpoint, as an operator does. It answers `started` (each time), `executed` and `stopped`.
"""

from __future__ import annotations

import sys
from typing import Any

from kept_query import obey
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery
from stream_program import session_of

import pyspark_pravega


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


def main(controller: str, registry: str) -> None:
    conf = {
        "spark.sql.catalog.pravega.schema-registry-uri": registry,
        "spark.sql.shuffle.partitions": "1",
    }
    session = session_of(controller, "local[2]", conf)
    obey(session, start)


if __name__ == "__main__":
    main(*sys.argv[1:])
