"""A Spark program that reads a table in shared memory, over and over, until it is killed.

Arguments: controller, schema registry, table, `shared-memory`. It prints `reads`, and the JVM's process id.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import pyspark_pravega


def main(controller: str, registry: str, table: str, manner: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    builder = pyspark_pravega.configure(builder, controller=controller, schema_registry=registry)
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "localhost",
        "spark.driver.memory": "1g",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    assert spark._jvm is not None
    print("reads", spark._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
    while True:
        spark.read.option("shared-memory", manner).table(table).selectExpr("sum(id)", "sum(length(st))").collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
