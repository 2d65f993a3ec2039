"""A streaming query in a process of its own, which may be killed.

Arguments: controller, table, checkpoint, sink, options as JSON, `available-now` or `go-on`. The sink is a folder, in
which each micro-batch becomes a file of one line an event, or `table:` and a table, which gets each event once, however
often it is in the first one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import pyspark_pravega


def session_of(controller: str, master: str, conf: Mapping[str, str]) -> SparkSession:
    """A quiet session of a program that may be killed, with these settings beside those of all such programs."""
    builder: SparkSession.Builder = SparkSession.builder
    builder = pyspark_pravega.configure(builder.master(master).appName("chaos"), controller=controller)
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "localhost",
        "spark.driver.memory": "1g",
        **conf,
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def main(controller: str, table: str, checkpoint: str, sink: str, options: str, trigger: str) -> None:
    session = session_of(controller, "local[2]", {"spark.sql.shuffle.partitions": "2"})

    def keep(frame: DataFrame, batch: int) -> None:
        lines = [bytes(row.event).decode() for row in frame.collect()]
        unfinished = Path(sink) / f".{batch}"
        unfinished.write_text("".join(line + "\n" for line in lines))
        os.replace(unfinished, Path(sink) / str(batch))

    frame = session.readStream.options(**json.loads(options)).table(table).select("event")
    to_table = sink.startswith("table:")
    writer = frame.dropDuplicates(["event"]).writeStream if to_table else frame.writeStream.foreachBatch(keep)
    writer = writer.option("checkpointLocation", checkpoint)
    writer = (
        writer.trigger(availableNow=True) if trigger == "available-now" else writer.trigger(processingTime="0 seconds")
    )
    query = writer.toTable(sink.removeprefix("table:")) if to_table else writer.start()
    print("started", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
