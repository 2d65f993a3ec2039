"""Tables with keys beside tables without: `python -m benchmarks.keyed --help`.

One run: the last row of each key beside a read of all events, one key of many segments, MERGE into many keys, and
INSERT and a streaming query of the same rows into either kind of table. What is compared runs by turns in one session.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.catalog import SEGMENTS, by_turns, session
from benchmarks.results import append
from pyspark_pravega.sandbox import Sandbox

SCOPE = "pravega.keyed"
READS, WARM_UPS = 9, 12
"""How often a short read of all rows is measured at least, and how often it is done before: what a JVM that has run
only a few compiles meanwhile, and the other core's work, are as long as the reads themselves."""
MICRO_BATCHES = 4
"""Of a streaming query."""
COLUMNS = "id BIGINT NOT NULL, customer STRING, product STRING, quantity INT, amount DOUBLE, at TIMESTAMP"
ROW = (
    "concat('customer-', id % 10000) AS customer, concat('product-', id % 500) AS product, "
    "CAST(id % 10 AS INT) AS quantity, id * 0.25D AS amount, timestamp_micros(1767225600000000 + id * 1000000) AS at"
)


def main() -> None:
    """Run the benchmark as the command line says."""
    arguments = _arguments()
    events, keys, runs = arguments.events, arguments.keys, arguments.runs
    started = time.monotonic()
    with Sandbox(heap=arguments.heap, preallocate=True) as sandbox:
        spark = session(sandbox.controller_uri, sandbox.schema_registry_uri)
        try:
            spark.sql(f"CREATE NAMESPACE {SCOPE}")
            rows = [
                *_latest(spark, events, keys, runs),
                *_compacted(spark, arguments.merged_into, runs),
                *_one_key(spark, events, runs),
                *_merge(spark, arguments.merged_into, arguments.merged, runs),
                *_upserts(spark, events, keys, runs),
                *_streamed(spark, events, keys, runs),
            ]
        finally:
            spark.stop()
    report = "\n".join(
        [
            f"{events:,} events over {keys:,} keys, {SEGMENTS} segments, 6 Avro columns. Median of {runs} runs by "
            f"turns; {time.monotonic() - started:.0f} s in all.",
            "",
            "| | with a key | beside | ratio |",
            "|---|--:|--:|--:|",
            *rows,
        ]
    )
    print(f"\n{report}")
    if arguments.record:
        append(report, "benchmarks.keyed", sys.argv[1:])


def _create(spark: SparkSession, name: str, segments: int, *, keyed: bool) -> str:
    table = f"{SCOPE}.{name}"
    constraint = ", PRIMARY KEY (id) NOT ENFORCED" if keyed else ""
    routing = "" if keyed else "'routing-key' = 'id', "
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}{constraint}) TBLPROPERTIES ({routing}'segments' = '{segments}')")
    return table


def _noop(spark: SparkSession, query: str) -> None:
    spark.sql(query).write.format("noop").mode("overwrite").save()


def _latest(spark: SparkSession, events: int, keys: int, runs: int) -> list[str]:
    table = _create(spark, "latest", SEGMENTS, keyed=True)
    for first in range(0, events, keys):
        spark.sql(f"INSERT INTO {table} SELECT id % {keys} AS id, {ROW} FROM range({first}, {first + keys})")
    same = _create(spark, "same_rows", SEGMENTS, keyed=False)
    spark.sql(f"INSERT INTO {same} SELECT * FROM {table}")
    assert spark.table(table).count() == keys
    log = f"{SCOPE}.`latest$log`"
    window = (
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY _segment DESC, _offset DESC) AS n "
        f"FROM (SELECT *, _segment, _offset FROM {log})) WHERE n = 1"
    )
    read, all_events, by_window, without, count = by_turns(
        runs,
        lambda: _noop(spark, f"SELECT * FROM {table}"),
        lambda: _noop(spark, f"SELECT * FROM {log}"),
        lambda: _noop(spark, window),
        lambda: _noop(spark, f"SELECT * FROM {same}"),
        lambda: spark.sql(f"SELECT count(*) FROM {table}").collect(),
    )
    rate = f"{events / read / 1e6:.2f} M events/s"
    return [
        f"| last rows, all columns to noop | {read:.2f} s ({rate}) | all events {all_events:.2f} s | "
        f"{read / all_events:.2f} |",
        f"| the same | {read:.2f} s | a window function over the events {by_window:.2f} s | {by_window / read:.2f} |",
        f"| the same | {read:.2f} s | a table of the last rows only {without:.2f} s | {read / without:.2f} |",
        f"| `count(*)` | {count:.2f} s ({events / count / 1e6:.2f} M events/s) | | |",
    ]


def _compacted(spark: SparkSession, keys: int, runs: int) -> list[str]:
    table, same = _create(spark, "twice", SEGMENTS, keyed=True), _create(spark, "once", SEGMENTS, keyed=False)
    for name in (table, table, same):
        spark.sql(f"INSERT INTO {name} SELECT id, {ROW} FROM range({keys})")
    begin = time.perf_counter()
    spark.sql(f"CALL pravega.system.compact(table => '{table.removeprefix('pravega.')}')").collect()
    seconds = time.perf_counter() - begin
    read, without = by_turns(
        max(READS, runs),
        lambda: _noop(spark, f"SELECT * FROM {table}"),
        lambda: _noop(spark, f"SELECT * FROM {same}"),
        warm_ups=WARM_UPS,
    )
    return [
        f"| `CALL compact`, {2 * keys:,} events over {keys:,} keys | {seconds:.2f} s | | |",
        f"| {keys:,} compacted rows, all columns to noop | {read:.2f} s | a table of the same rows, without a key "
        f"{without:.2f} s | {read / without:.2f} |",
    ]


def _one_key(spark: SparkSession, keys: int, runs: int) -> list[str]:
    table = _create(spark, "many_segments", 64, keyed=True)
    spark.sql(f"INSERT INTO {table} SELECT id, {ROW} FROM range({keys})")
    one, every = by_turns(
        runs,
        lambda: spark.sql(f"SELECT * FROM {table} WHERE id = 77").collect(),
        lambda: spark.sql(f"SELECT * FROM {table} WHERE CAST(id AS STRING) = '77'").collect(),
    )
    return [f"| `WHERE id = x`, 64 segments | {one:.3f} s | all segments {every:.3f} s | {every / one:.1f} |"]


def _merge(spark: SparkSession, keys: int, merged: int, runs: int) -> list[str]:
    table = _create(spark, "merged", SEGMENTS, keyed=True)
    spark.sql(f"INSERT INTO {table} SELECT id, {ROW} FROM range({keys})")
    statement = (
        f"MERGE INTO {table} t USING (SELECT id * 90 AS id, {ROW} FROM range({merged})) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    merge, insert = by_turns(
        runs,
        lambda: spark.sql(statement),
        lambda: spark.sql(f"INSERT INTO {table} SELECT id * 90 AS id, {ROW} FROM range({merged})"),
    )
    return [
        f"| MERGE of {merged:,} rows into {keys:,} keys | {merge:.2f} s | INSERT of them {insert:.2f} s | "
        f"{merge / insert:.1f} |"
    ]


def _upserts(spark: SparkSession, events: int, keys: int, runs: int) -> list[str]:
    spark.sql(f"SELECT id % {keys} AS id, {ROW} FROM range({events})").cache().createOrReplaceTempView("rows_to_write")
    spark.table("rows_to_write").count()
    with_key, without = (
        _create(spark, "upserts", SEGMENTS, keyed=True),
        _create(spark, "appends", SEGMENTS, keyed=False),
    )
    upsert, append_ = by_turns(
        runs,
        lambda: spark.sql(f"INSERT INTO {with_key} SELECT * FROM rows_to_write"),
        lambda: spark.sql(f"INSERT INTO {without} SELECT * FROM rows_to_write"),
    )
    return [
        f"| INSERT of {events:,} rows | {upsert:.2f} s ({events / upsert / 1e6:.2f} M events/s) | "
        f"without a key {append_:.2f} s | {append_ / upsert:.2f} |"
    ]


def _streamed(spark: SparkSession, events: int, keys: int, runs: int) -> list[str]:
    """The same rows by a streaming query, from files that hold a micro-batch each."""
    with_key, without = (
        _create(spark, "upserted", SEGMENTS, keyed=True),
        _create(spark, "appended", SEGMENTS, keyed=False),
    )
    with tempfile.TemporaryDirectory() as folder:
        files, checkpoints = Path(folder) / "rows", iter(range(1 << 20))
        rows = spark.sql(f"SELECT id % {keys} AS id, {ROW} FROM range({events})").repartition(MICRO_BATCHES)
        rows.write.parquet(str(files))
        source = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(files))

        def run(table: str) -> None:
            writer = source.writeStream.option("checkpointLocation", f"{folder}/checkpoint-{next(checkpoints)}")
            writer.trigger(availableNow=True).toTable(table).awaitTermination()

        upsert, append_ = by_turns(runs, lambda: run(with_key), lambda: run(without))
    return [
        f"| a streaming query of them, {MICRO_BATCHES} micro-batches | {upsert:.2f} s "
        f"({events / upsert / 1e6:.2f} M events/s) | without a key {append_:.2f} s | {append_ / upsert:.2f} |"
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyed", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="events that are read and written")
    parser.add_argument("--keys", type=int, default=200_000, help="how many different keys they have")
    parser.add_argument("--merged", type=int, default=10_000, help="rows that a MERGE brings")
    parser.add_argument("--merged-into", type=int, default=1_000_000, help="keys of the table that it goes into")
    parser.add_argument("--runs", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--heap", default="6g", help="the server's heap; it holds all events")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
