"""A soak over nested rows: is the JVM's direct memory flat? `python -m benchmarks.nested --seconds 600`.

Full reads, sums, reads that stop early, and an Arrow function, which lets Spark keep batches, take turns on one table
of two INSERTs in four segments.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import LongType

import pyspark_pravega
from pyspark_pravega.sandbox import Sandbox

ROWS = 100_000
"""The rows of each INSERT."""
TELL_EVERY_S = 30


def main() -> None:
    """Run the soak; prints the memory every half minute."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=600)
    seconds = arguments.parse_args().seconds
    with Sandbox(heap="3g") as sandbox:
        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
        spark = (
            pyspark_pravega.configure(
                builder, controller=sandbox.controller_uri, schema_registry=sandbox.schema_registry_uri
            )
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        soak(spark, seconds)
        spark.stop()


def soak(spark: SparkSession, seconds: float) -> None:
    spark.sql("CREATE NAMESPACE pravega.soak")
    spark.sql(
        "CREATE TABLE pravega.soak.nested (id BIGINT NOT NULL, "
        "st STRUCT<x: INT, y: STRUCT<z: STRING, l: ARRAY<STRUCT<p: INT, q: STRING>>>>, "
        "m MAP<STRING, STRUCT<v: BIGINT, w: STRING>>) CLUSTERED BY (id) INTO 4 BUCKETS"
    )
    for first in (0, ROWS):
        spark.sql(
            "INSERT INTO pravega.soak.nested SELECT id, named_struct('x', int(id), 'y', IF(id % 5 = 0, NULL, "
            "named_struct('z', concat('z', id), 'l', array(named_struct('p', int(id), 'q', 'qqqqqqqqqq'))))), "
            "map(concat('k', id % 7), named_struct('v', id, 'w', 'wwwwwwwwwwwwwwwwwwww')) "
            f"FROM range({first}, {first + ROWS})"
        )
    rows = spark.table("pravega.soak.nested")
    plus_one = successor()
    begin = last_report = time.monotonic()
    read = 0
    while time.monotonic() - begin < seconds:
        sums = rows.selectExpr("sum(st.x)", "max(st.y.z)", "count(*)").first()
        assert sums == (ROWS * (2 * ROWS - 1), f"z{ROWS - 1}", 2 * ROWS), sums
        rows.write.format("noop").mode("append").save()
        ones = rows.select("*", plus_one("id").alias("p")).selectExpr("sum(p - id)", "max(st.y.l[0].q)").first()
        assert ones == (2 * ROWS, "qqqqqqqqqq"), ones
        rows.limit(5).collect()
        read += 3 * 2 * ROWS
        if time.monotonic() - last_report >= TELL_EVERY_S:
            last_report = time.monotonic()
            print(f"{last_report - begin:4.0f} s, {read:,} rows: {memory(spark)}", flush=True)


def successor() -> Callable[[str], Column]:
    """A function of Arrow arrays."""

    def plus_one(number: pa.Array) -> pa.Array:
        return pc.add(number, 1)

    make: Callable[..., Callable[[str], Column]] = arrow_udf
    return make(plus_one, LongType())


def memory(spark: SparkSession) -> str:
    """What the JVM holds beside its heap, and as the system sees it."""
    jvm = spark._jvm
    assert jvm is not None
    arrow = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory()
    direct = jvm.io.netty.util.internal.PlatformDependent.usedDirectMemory()
    status = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return f"Arrow {arrow >> 20} MiB, direct memory {direct >> 20} MiB, resident {resident >> 10} MiB"


if __name__ == "__main__":
    main()
