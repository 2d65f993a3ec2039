"""A program whose metrics Spark serves, to Prometheus and by JMX: it reads and writes, and prints those of Pravega.

As in a notebook, its JVM has had a session that was stopped before the program knew of Pravega (`late_program.py` has
one that goes on). It prints how many catalog processes there are, too.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

from late_program import catalog_processes, configured_late
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

TABLE = "pravega.metered.a"


def served(session: SparkSession) -> dict[str, float]:
    """What a Prometheus would read from Spark's own address, by source and metric."""
    assert session.sparkContext.uiWebUrl
    with urllib.request.urlopen(f"{session.sparkContext.uiWebUrl}/metrics/prometheus") as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples]
    parts = [(sample.name.partition("_driver_pravega_"), sample.value) for sample in samples]
    return {name: value for (_, mark, name), value in parts if mark}


def beans(session: SparkSession) -> dict[str, float]:
    """What a program that asks by JMX would read, called as Prometheus has it."""
    jvm = session._jvm
    assert jvm is not None
    gateway = session.sparkContext._gateway
    assert gateway is not None
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    # The server's class is hidden from reflection; the interface that it fulfils is not.
    interface = jvm.java.lang.Class.forName("javax.management.MBeanServer")
    methods = {method.getName(): method for method in interface.getMethods() if method.getParameterCount() == 2}

    def call(method: str, *arguments: object) -> Any:
        array = gateway.new_array(jvm.java.lang.Object, len(arguments))
        for place, argument in enumerate(arguments):
            array[place] = argument
        return methods[method].invoke(server, array)

    found = {}
    for name in call("queryNames", jvm.javax.management.ObjectName("metrics:*"), None):
        source, mark, metric = name.getKeyProperty("name").partition(".driver.pravega.")[2].partition(".")
        if mark:
            attribute = "Value" if metric == "heldBytes" else "Count"
            found[f"{source}_{metric}_{attribute}"] = float(call("getAttribute", name, attribute))
    return found


def main(checkpoint: str) -> None:
    stopped = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    assert stopped.range(3).count() == 3
    stopped.stop()
    builder = SparkSession.builder.config("spark.ui.enabled", "true").config("spark.ui.port", "0")
    servlet = "spark.metrics.conf.*.sink.prometheusServlet"
    builder = builder.config(f"{servlet}.class", "org.apache.spark.metrics.sink.PrometheusServlet")
    builder = builder.config(f"{servlet}.path", "/metrics/prometheus")
    builder = builder.config("spark.metrics.conf.*.sink.jmx.class", "org.apache.spark.metrics.sink.JmxSink")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = configured_late(builder)
    assert session is not stopped
    session.sql("CREATE NAMESPACE pravega.metered")
    session.sql(f"CREATE TABLE {TABLE} (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    session.sql(f"CREATE TABLE {TABLE}2 (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    session.sql(f"INSERT INTO {TABLE} SELECT id FROM range(100)")
    session.sql(f"INSERT INTO {TABLE} SELECT id FROM range(50)")
    written = served(session)
    assert session.sql(f"SELECT id FROM {TABLE}").toArrow().num_rows == 150
    read = served(session)
    query = session.readStream.table(TABLE).writeStream.option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).toTable(f"{TABLE}2").awaitTermination()
    streamed, by_jmx = served(session), beans(session)
    ((size,),) = session.sql(f"SELECT sum(bytes) FROM {TABLE[:-1]}`a$commits`").collect()
    ((copied,),) = session.sql(f"SELECT sum(id) FROM {TABLE}2").collect()
    answers = {"written": written, "read": read, "streamed": streamed, "beans": by_jmx, "bytes": size}
    answers |= {"copied": copied, "processes": catalog_processes(session, "metered")}
    session.sql("DROP NAMESPACE pravega.metered CASCADE")
    session.stop()
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1])
