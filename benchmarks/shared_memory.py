"""Reads with batches in shared memory, and without, by turns: `python -m benchmarks.shared_memory --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from benchmarks.catalog import session
from benchmarks.events import make_rows
from benchmarks.harness import Case, measure, process_tree_cpu_seconds, table
from benchmarks.ours import SEGMENTS, Ours
from benchmarks.results import append, describe_machine
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

SCOPE = "bench"
WARM_UPS = 5
"""How often each case runs before it is measured: so long the JVM compiles."""
RAW = StructType([StructField("event", BinaryType())])
ON = {"shared-memory": "16m"}


def main() -> None:
    """Run the benchmark as the command line says."""
    arguments = _arguments()
    with Sandbox(heap=arguments.heap, preallocate=True) as sandbox:
        spark = session(sandbox.controller_uri, sandbox.schema_registry_uri)
        try:
            report = _report(spark, sandbox, arguments)
        finally:
            spark.stop()
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.shared_memory", sys.argv[1:])


def _report(spark: SparkSession, sandbox: Sandbox, arguments: argparse.Namespace) -> str:
    settings = Settings.resolve(
        {"controller-uri": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri, "timeout": "120"}
    )
    catalog = Catalog(settings)
    catalog.create_namespace([SCOPE])
    ours = Ours(catalog, SCOPE)
    size, events = arguments.events_size, arguments.events
    decoded = ours.create_table().stream.name
    codec = catalog.load_table([SCOPE], decoded).for_writing()
    rows = make_rows(codec, size)
    ours.write(decoded, rows, events)
    raw = catalog.create_table([SCOPE], "raw", RAW, [], {"format": "raw", "segments": str(SEGMENTS)})
    payloads = pa.RecordBatch.from_arrays([codec.encode(rows)], schema=raw.for_writing().schema)
    ours.write(raw.stream.name, payloads, events)
    cases = [
        *_cases(spark, "raw", raw.stream.name, _to_noop),
        *_cases(spark, "decoded", decoded, _to_noop),
        *_cases(spark, "sum of two columns", decoded, _sum),
    ]
    for case in cases * WARM_UPS:
        case.run("", events)
    measured = measure(cases, runs=arguments.runs, events=events, stage=lambda: nullcontext(""), tell=_tell)
    return table(f"{events:,} events of {size} bytes", measured, events)


def _cases(spark: SparkSession, name: str, stream: str, query: Callable[[DataFrame], None]) -> list[Case]:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc.pid

    def case(name: str, options: dict[str, str], baseline: str | None = None) -> Case:
        def run(_: str, events: int) -> int:
            query(spark.read.options(**options).table(f"pravega.`{SCOPE}`.`{stream}`"))
            return events

        return Case(name=name, run=run, cpu_seconds=lambda: process_tree_cpu_seconds(jvm), baseline=baseline)

    socket = f"{name}, by socket"
    return [case(socket, {}), case(f"{name}, shared memory", ON, socket)]


def _to_noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _sum(rows: DataFrame) -> None:
    rows.selectExpr("sum(amount)", "avg(discount)").collect()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_memory", description=__doc__)
    parser.add_argument("--events", type=int, default=400_000, help="how many are read")
    parser.add_argument("--events-size", type=int, default=1000, help="bytes of an event without its frame, on average")
    parser.add_argument("--runs", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--heap", default="4g", help="the server's heap; it holds all events")
    parser.add_argument("--record", action="store_true", help="append the results to benchmarks/RESULTS.md")
    return parser.parse_args()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
