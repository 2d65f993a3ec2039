"""A program whose metrics Spark serves: it reads and writes, and prints those of Pravega."""

from __future__ import annotations

import json
import sys
import urllib.request

from pyspark.sql import SparkSession

import pyspark_pravega

TABLE = "pravega.metered.a"


def served(session: SparkSession) -> dict[str, float]:
    """What a Prometheus would read from Spark's own address, by source and metric."""
    assert session.sparkContext.uiWebUrl
    with urllib.request.urlopen(f"{session.sparkContext.uiWebUrl}/metrics/prometheus") as answer:
        lines = answer.read().decode().splitlines()
    found = [line.partition("_driver_pravega_")[2].rpartition(" ") for line in lines if "_driver_pravega_" in line]
    return {name.partition("{")[0]: float(value) for name, _, value in found}


def main(checkpoint: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.port", "0")
    servlet = "spark.metrics.conf.*.sink.prometheusServlet"
    builder = builder.config(f"{servlet}.class", "org.apache.spark.metrics.sink.PrometheusServlet")
    builder = builder.config(f"{servlet}.path", "/metrics/prometheus")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = pyspark_pravega.configure(builder).getOrCreate()
    session.sql("CREATE NAMESPACE pravega.metered")
    session.sql(f"CREATE TABLE {TABLE} (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    session.sql(f"CREATE TABLE {TABLE}2 LIKE {TABLE}")
    session.sql(f"INSERT INTO {TABLE} SELECT id FROM range(100)")
    session.sql(f"INSERT INTO {TABLE} SELECT id FROM range(50)")
    written = served(session)
    assert session.sql(f"SELECT id FROM {TABLE}").toArrow().num_rows == 150
    read = served(session)
    query = session.readStream.table(TABLE).writeStream.option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).toTable(f"{TABLE}2").awaitTermination()
    streamed = served(session)
    ((size,),) = session.sql(f"SELECT sum(bytes) FROM {TABLE[:-1]}`a$commits`").collect()
    answers = {"written": written, "read": read, "streamed": streamed, "bytes": size}
    session.sql("DROP NAMESPACE pravega.metered CASCADE")
    session.stop()
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1])
