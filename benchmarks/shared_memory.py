"""Reads with batches in shared memory, and without, by turns: `python -m benchmarks.shared_memory --help`.

`--soak SECONDS` reads a table in a loop instead, beside a streaming query, and tells how much memory all of it has;
with `--by-socket` the same without shared memory.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from statistics import mean

from pyspark.sql import DataFrame, SparkSession

from benchmarks.catalog import session
from benchmarks.harness import Case, driver_pid, measure, process_tree, process_tree_cpu_seconds, table, tell
from benchmarks.ours import make_two_tables
from benchmarks.results import append, describe_machine
from pyspark_pravega.sandbox import Sandbox

SCOPE = "bench"
WARM_UPS = 5
"""How often each case runs before it is measured: so long the JVM compiles."""
ON, OFF = {"shared-memory": "16m"}, {"shared-memory": "0"}
STREAMED_EVENTS = 2000
"""What is written each second for the streaming query of a soak."""
SAMPLED_EACH_S = 10
_WHOLE_HEAP = "-Xms3g -XX:+AlwaysPreTouch"
"""Of a soak: all that the session may have, taken at the start, so that what grows is beside the heap."""


def main() -> None:
    """Run the benchmark as the command line says."""
    arguments = _arguments()
    with Sandbox(heap=arguments.heap, preallocate=True) as sandbox:
        java = _WHOLE_HEAP if arguments.soak else ""
        spark = session(sandbox.controller_uri, sandbox.schema_registry_uri, java=java)
        try:
            report = (_soaked if arguments.soak else _report)(spark, sandbox, arguments)
        finally:
            spark.stop()
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.shared_memory", sys.argv[1:])


def _report(spark: SparkSession, sandbox: Sandbox, arguments: argparse.Namespace) -> str:
    events, size = arguments.events, arguments.events_size
    tables = make_two_tables(sandbox, SCOPE, size, events)
    cases = [
        *_cases(spark, "raw", tables.raw, _to_noop),
        *_cases(spark, "decoded", tables.decoded, _to_noop),
        *_cases(spark, "sum of two columns", tables.decoded, _sum),
    ]
    for case in cases * WARM_UPS:
        case.run("", events)
    measured = measure(cases, runs=arguments.runs, events=events, stage=lambda: nullcontext(""), tell=tell)
    return table(f"{events:,} events of {size} bytes", measured, events)


def _soaked(spark: SparkSession, sandbox: Sandbox, arguments: argparse.Namespace) -> str:
    """Read both tables in a loop, beside a streaming query of a third one, which is written to each second."""
    tables = make_two_tables(sandbox, SCOPE, arguments.events_size, arguments.events)
    manner = OFF if arguments.by_socket else ON
    spark.sql(f"CREATE TABLE {_name('streamed')} (event BINARY) TBLPROPERTIES ('format' = 'raw')")
    over, written = threading.Event(), [0]
    samples: list[dict[str, float]] = []

    def write() -> None:
        while not over.wait(1):
            written[0] += tables.ours.write("streamed", tables.payloads, STREAMED_EVENTS)

    def sample() -> None:
        while not over.wait(SAMPLED_EACH_S):
            samples.append(_sample(spark))
            tell(_shown(samples[-1]))

    with tempfile.TemporaryDirectory() as checkpoint:
        stream = spark.readStream.options(**manner).table(_name("streamed")).writeStream.format("noop")
        query = stream.option("checkpointLocation", checkpoint).start()
        threads = [threading.Thread(target=beside) for beside in (write, sample)]
        for thread in threads:
            thread.start()
        reads, begin = 0, time.monotonic()
        try:
            while time.monotonic() - begin < arguments.soak:
                for name, read in ((tables.raw, _to_noop), (tables.decoded, _to_noop), (tables.decoded, _sum)):
                    read(spark.read.options(**manner).table(_name(name)))
                    reads += 1
        finally:
            over.set()
            for thread in threads:
                thread.join()
        batches = 0 if query.lastProgress is None else query.lastProgress["batchId"]
        query.stop()
    time.sleep(2)
    quarter = max(1, len(samples) // 4)
    lines = [f"{arguments.soak} s, {reads} reads, {batches} micro-batches of {written[0]:,} events; means of a quarter"]
    for number in range(1, 4):
        part = samples[number * quarter : (number + 1) * quarter] or samples[-1:]
        lines.append(f"{number + 1}: {_shown({key: mean(sample[key] for sample in part) for key in part[0]})}")
    lines.append(f"at the end: {_shown(_sample(spark))}")
    return "\n".join(lines)


def _sample(spark: SparkSession) -> dict[str, float]:
    """MiB of the JVM and its Python workers, of the rings that either has, how many are mapped, and open files."""
    assert spark._jvm is not None
    jvm = driver_pid(spark)
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    workers, kept = [], 0.0
    for pid in process_tree(jvm)[1:]:
        with suppress(OSError):  # it has ended meanwhile
            if b"daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
                workers.append(_resident(pid, "RssAnon"))
                kept += _resident(pid, "RssShmem")
    return {
        "JVM": _resident(jvm, "RssAnon"),
        "heap": runtime.totalMemory() / (1 << 20),
        "shared": _resident(jvm, "RssShmem"),
        "rings": Path(f"/proc/{jvm}/maps").read_text().count("memfd:pravega-batches"),
        "files": len(list(Path(f"/proc/{jvm}/fd").iterdir())),
        "Arrow": spark._jvm.pyspark.pravega.read.OwnedBatches.heldBytes() / (1 << 20),
        "workers": sum(workers),
        "processes": len(workers),
        "kept": kept,
    }


def _resident(pid: int, kind: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(f"{kind}:"))


def _shown(sample: dict[str, float]) -> str:
    return ", ".join(f"{key} {value:.0f}" for key, value in sample.items())


def _name(stream: str) -> str:
    return f"pravega.`{SCOPE}`.`{stream}`"


def _cases(spark: SparkSession, name: str, stream: str, query: Callable[[DataFrame], None]) -> list[Case]:
    jvm = driver_pid(spark)

    def case(name: str, options: dict[str, str], baseline: str | None = None) -> Case:
        def run(_: str, events: int) -> int:
            query(spark.read.options(**options).table(_name(stream)))
            return events

        return Case(name=name, run=run, cpu_seconds=lambda: process_tree_cpu_seconds(jvm), baseline=baseline)

    socket = f"{name}, by socket"
    return [case(socket, OFF), case(f"{name}, shared memory", ON, socket)]


def _to_noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _sum(rows: DataFrame) -> None:
    rows.selectExpr("sum(amount)", "avg(discount)").collect()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_memory", description=__doc__)
    parser.add_argument("--events", type=int, default=400_000, help="how many are read")
    parser.add_argument("--events-size", type=int, default=1000, help="bytes of an event without its frame, on average")
    parser.add_argument("--soak", type=int, default=0, metavar="SECONDS", help="read for so long, and tell the memory")
    parser.add_argument("--by-socket", action="store_true", help="a soak without shared memory")
    parser.add_argument("--runs", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--heap", default="4g", help="the server's heap; it holds all events")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
