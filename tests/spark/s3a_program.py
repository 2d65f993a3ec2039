"""A streaming query from one table into another, whose checkpoint is in a bucket: it is ended and started again.

Arguments: the namespace, the checkpoint. Standard input: a line of JSON with Spark's configuration. Prints a line of
JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import pyspark_pravega


def main(namespace: str, checkpoint: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.driver.host", "localhost")
    for name, value in json.loads(sys.stdin.readline()).items():
        builder = builder.config(name, value)
    spark = pyspark_pravega.configure(builder).getOrCreate()
    source, target = f"pravega.{namespace}.source", f"pravega.{namespace}.target"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS pravega.{namespace}")
    for table in (source, target):
        spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, name STRING)")

    def run() -> None:
        rows = spark.readStream.table(source)
        writer = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.toTable(target).awaitTermination()

    for first in (0, 100, 200):
        spark.sql(f"INSERT INTO {source} SELECT id, concat('n', id) FROM range({first}, {first + 100})")
        run()
    run()
    counted = spark.sql(f"SELECT count(*) AS c, count(DISTINCT id) AS d, sum(id) AS s FROM {target}").first()
    spark.sql(f"INSERT INTO {source} SELECT id, 'late' FROM range(5)")
    assert counted is not None
    print(json.dumps(list(counted)))
    spark.stop()


main(*sys.argv[1:])
