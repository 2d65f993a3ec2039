"""A table most of whose rows are in the lake beside one whose rows are in the stream, Spark's own scan of the lake's
files, and the tiering itself: `python -m benchmarks.lake --help`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from benchmarks.catalog import session
from benchmarks.harness import Case, Measured, case_in, driver_pid, measure, process_tree, tell
from benchmarks.results import append, describe_machine
from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings
from pyspark_pravega.together import Begun

WARM_UPS = 10
"""With fewer Java still compiles what reads the lake: two columns took 1.3 s then, and 0.7 behind them."""
NAMESPACE = "pravega.bench"
STREAM, TIERED = f"{NAMESPACE}.stream", f"{NAMESPACE}.tiered"
SEGMENTS = 4
COMMITS = 20
_IN_LAKE = 9
"""Tenths of the rows."""
_INDEX = "'index-columns' = 'at'"
"""Rows that aren't in the lake yet are passed over by this, where the lake's are by what its files tell."""
_COLUMNS = ("id * {0}", "concat('text ', (id + {0}) % 1000)", "id * 0.25D + {0}", "CAST((id + {0}) % 100 AS INT)")
_EVENTS, _EVENT_BYTES = 5_000, 100
"""What the writer beside a tiering writes at once."""
_WRITES = 500
"""And how often to one stream."""
_CASES = {
    "two columns, a tenth of the time": lambda rows, tenth: _sum(rows.where(tenth)),
    "two columns": lambda rows, _: _sum(rows),
    "all columns to noop": lambda rows, _: (
        rows.drop("_segment", "_offset", "_version").write.format("noop").mode("overwrite").save()
    ),
    "count(*)": lambda rows, _: rows.count(),
}


def main() -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lake", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="how many rows each table has")
    parser.add_argument("--columns", type=int, default=20, help="how many columns, three at least")
    parser.add_argument("--runs", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--heap", default="10g", help="the server's heap; it holds all that is written")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    arguments = parser.parse_args()
    with Sandbox(heap=arguments.heap, preallocate=True) as sandbox, tempfile.TemporaryDirectory() as folder:
        spark = session(sandbox.controller_uri, sandbox.schema_registry_uri)
        spark.conf.set("spark.sql.catalog.pravega.lake.warehouse", folder)
        try:
            report = _Benchmark(spark, sandbox, arguments.events, arguments.columns, arguments.runs, folder).report()
        finally:
            spark.stop()
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.lake", sys.argv[1:])


@dataclass
class _Benchmark:
    """Tables of the same rows, and what is measured of them."""

    spark: SparkSession
    sandbox: Sandbox
    events: int
    columns: int
    runs: int
    folder: str
    lines: list[str] = field(default_factory=list)

    def report(self) -> str:
        """Measure; gives what came out, in Markdown."""
        self.spark.sql(f"CREATE NAMESPACE {NAMESPACE}")
        names = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in self._rows(0, 0).schema)
        lake = f", 'lake' = 'iceberg', 'lake-keep-in-stream' = '0 ms', {_INDEX}"
        for table, more in ((STREAM, ""), (TIERED, lake)):
            self.spark.sql(f"CREATE TABLE {table} ({names}) TBLPROPERTIES ('segments' = '{SEGMENTS}'{more})")
        in_lake = COMMITS * _IN_LAKE // 10
        for commit in range(in_lake):
            self._append(STREAM, commit)
        for commit in range(in_lake // 2):
            self._append(TIERED, commit)
        self._tier(beside=False)
        for commit in range(in_lake // 2, in_lake):
            self._append(TIERED, commit)
        self._tier(beside=True)
        tiered = partial(self.spark.table, TIERED)
        files = [str(path) for path in Path(self.folder).glob("bench/tiered/data/*.parquet")]
        size = sum(Path(path).stat().st_size for path in files)
        self.lines.append(f"{len(files)} files of {size / 1e6:,.0f} MB in all.")
        self._table(
            "rows in files",
            self.events * _IN_LAKE // 10,
            self._cases(lake=tiered, Parquet_scan_by_Spark=lambda: self.spark.read.parquet(*files)),
        )
        for table in (STREAM, TIERED):
            for commit in range(in_lake, COMMITS):
                self._append(table, commit)
        self.lines += ["", f"The table with a lake has {_INDEX}. The one that is in the stream only has no index."]
        stream = partial(self.spark.table, STREAM)
        self._table("rows", self.events, self._cases(lake_and_stream=tiered, stream=stream))
        # What the lake itself saves where a condition is on a column that an index has.
        self.spark.sql(f"ALTER TABLE {STREAM} SET TBLPROPERTIES ({_INDEX})")
        self.spark.sql("CALL pravega.system.index(table => 'bench.stream')").collect()
        self.lines += ["", "With that index on both:"]
        self._table("rows", self.events, self._cases(lake_and_stream=tiered, stream=stream)[:2])
        return "\n".join(self.lines)

    def _rows(self, first: int, last: int) -> DataFrame:
        more = [f"{_COLUMNS[at % len(_COLUMNS)].format(at)} AS c{at}" for at in range(2, self.columns)]
        return self.spark.range(first, last, 1, 2).selectExpr("id", "timestamp_seconds(id) AS at", *more)

    def _append(self, table: str, commit: int) -> None:
        first, last = self.events * commit // COMMITS, self.events * (commit + 1) // COMMITS
        self._rows(first, last).writeTo(table).append()
        tell(f"{table}: rows up to {last:,}")

    def _tier(self, *, beside: bool) -> None:
        """Let the lake have what is in the stream, alone or beside a writer to another stream.

        What others on the host do changes what a writer writes by a factor of two within seconds. So the process that
        tiers is halted each other second: what is written then is what the writer writes alone.
        """
        pid = driver_pid(self.spark)
        written: list[int] = []
        # The process that tiers is gone behind it.
        with _watching(pid) as highest, _writing(self.sandbox, written) if beside else nullcontext():
            begin = time.perf_counter()
            call = Begun(lambda: self.spark.sql("CALL pravega.system.tier(table => 'bench.tiered')").collect())
            rates = _by_turns(call, pid, written) if beside else []
            rows = call.result()[0]["rows"]
            seconds = sum(rate.seconds for rate in rates[:1]) or time.perf_counter() - begin
        words = f"Tiered: {rows:,} rows in {seconds:.1f} s, {rows / seconds / 1e6:.2f} M rows/s"
        if beside:
            both, alone = (rate.writes / rate.seconds for rate in rates)
            words += f", beside a writer that wrote {both * _EVENTS / 1e3:,.0f},000 events/s, {both / alone:.2f} times "
            words += "what it wrote in between, while the tiering was halted each other second"
        self.lines.append(f"{words}. The largest Python process has had {max(highest.values()) >> 10:,} MiB.")
        tell(self.lines[-1])

    def _cases(self, **sides: Callable[[], DataFrame]) -> list[Case]:
        """Each query over one side's rows, then over the other's."""
        first, last = self.events * 6 // 10, self.events * 7 // 10
        tenth = f"at >= timestamp_seconds({first}) AND at < timestamp_seconds({last})"
        return [
            case_in(self.spark, f"{name}: {side.replace('_', ' ')}", partial(_run, query, rows, tenth))
            for name, query in _CASES.items()
            for side, rows in sides.items()
        ]

    def _table(self, of: str, rows: int, cases: list[Case]) -> None:
        """Measure cases, of which each second one is beside the one before."""
        for case in cases * WARM_UPS:
            case.run("", rows)
        measured = measure(cases, runs=self.runs, events=rows, stage=lambda: nullcontext(""), tell=tell)
        self.lines += ["", f"| {rows:,} {of}, {self.columns} columns | s | CPU, s | beside | s | CPU, s | times |"]
        self.lines.append("|---|--:|--:|---|--:|--:|--:|")
        for ours, other in zip(measured[::2], measured[1::2], strict=True):
            cells = [ours.case.name, *_figures(ours, rows), other.case.name.rpartition(": ")[2], *_figures(other, rows)]
            ratio = other.events_per_second(rows) / ours.events_per_second(rows)
            self.lines.append(f"| {' | '.join(cells)} | {1 / ratio:.2f} |")


@dataclass
class _Rate:
    """What a writer has written in windows of one kind."""

    writes: int = 0
    seconds: float = 0.0


def _by_turns(call: Begun[list[Row]], pid: int, written: list[int]) -> list[_Rate]:
    """Halt the process that tiers each other second until it is through.

    Args:
        call: the tiering.
        pid: a process above it.
        written: gets an entry for each write.

    Returns:
        What was written while it went on, and while it was halted.
    """
    rates = [_Rate(), _Rate()]
    while not (own := [one for one in process_tree(pid) if b"lake.apart" in _command(one)]) and not call.done():
        time.sleep(0.01)
    while not call.done():
        for rate, signal_ in zip(rates, (signal.SIGCONT, signal.SIGSTOP), strict=True):
            with suppress(ProcessLookupError):
                os.kill(own[0], signal_)
            begin, first = time.perf_counter(), len(written)
            wait([call], 1)
            rate.seconds += time.perf_counter() - begin
            rate.writes += len(written) - first
    return rates


def _command(pid: int) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _run(query: Callable[[DataFrame, str], object], rows: Callable[[], DataFrame], tenth: str) -> None:
    query(rows(), tenth)


def _figures(one: Measured, rows: int) -> tuple[str, str]:
    cpu = one.cpu_microseconds_per_event(rows) * rows / 1e6
    return f"{rows / one.events_per_second(rows):.2f}", f"{cpu:.2f}"


@contextmanager
def _writing(sandbox: Sandbox, written: list[int]) -> Iterator[None]:
    """Write to streams of its own all the time, as fast as it goes. The servers' memory holds the newest two only.

    Args:
        sandbox: where.
        written: gets an entry for each `_EVENTS` events that are acknowledged.
    """
    ended = threading.Event()
    events = pa.array([bytes(_EVENT_BYTES)] * _EVENTS, pa.binary())
    keys = pa.array([str(number % 1000) for number in range(_EVENTS)])

    def write() -> None:
        with Client(Settings.resolve(environ=sandbox.environment())) as client:

            def remove(stream: Stream) -> None:
                client.controller.seal_stream(stream)
                client.controller.delete_stream(stream)

            removed: list[Begun[None]] = []
            while not ended.is_set():
                stream = Stream("bench", f"beside-{time.time_ns()}")
                scaling = ScalingPolicy(min_segments=SEGMENTS)
                client.controller.create_stream(stream, StreamConfiguration(scaling=scaling))
                with client.writer(stream) as writer:
                    for _ in range(_WRITES):
                        if ended.is_set():
                            break
                        writer.write_batch(events, keys)
                        writer.flush()
                        written.append(_EVENTS)
                removed.append(Begun(partial(remove, stream)))
            for one in removed:
                one.result()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _watching(pid: int) -> Iterator[dict[int, int]]:
    """The most memory that each process below another one has had, in KiB; looked at 20 times a second.

    Args:
        pid: the other one.
    """
    ended, highest = threading.Event(), {0: 0}

    def watch() -> None:
        while not ended.wait(0.05):
            highest.update({one: _highest_kib(one) or highest.get(one, 0) for one in process_tree(pid)[1:]})

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield highest
    finally:
        ended.set()
        thread.join()


def _highest_kib(pid: int) -> int:
    """The most memory that a process has had."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def _sum(rows: DataFrame) -> None:
    rows.selectExpr("sum(id)", "sum(c4)").collect()


if __name__ == "__main__":
    main()
