"""A streaming query in a process of its own, which may be killed: each micro-batch becomes a file of one line an event.

Arguments: controller, table, checkpoint, folder for the batches, options as JSON, `available-now` or `go-on`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import pyspark_pravega


def main(controller: str, table: str, checkpoint: str, folder: str, options: str, trigger: str) -> None:
    builder: SparkSession.Builder = SparkSession.builder
    builder = pyspark_pravega.configure(builder.master("local[2]").appName("chaos"), controller=controller)
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "localhost",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def keep(frame: DataFrame, batch: int) -> None:
        lines = [bytes(row.event).decode() for row in frame.collect()]
        unfinished = Path(folder) / f".{batch}"
        unfinished.write_text("".join(line + "\n" for line in lines))
        os.replace(unfinished, Path(folder) / str(batch))

    frame = session.readStream.options(**json.loads(options)).table(table).select("event")
    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    now = trigger == "available-now"
    query = (writer.trigger(availableNow=True) if now else writer.trigger(processingTime="0 seconds")).start()
    print("started", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
