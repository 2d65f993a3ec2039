"""This checkout beside an earlier one, or beside an older Spark: `python -m benchmarks.checkouts --help`.

They take turns on the same servers. Each side is a program of its own with the environment of its checkout (`make
setup` there), a session with two task slots, and the catalog as `configure` sets it. The programs do one thing after
the other, never two at a time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Case, measure, table, tell
from benchmarks.ours import THREADS, make_two_tables
from benchmarks.results import append, describe_machine
from benchmarks.sides import Side
from pyspark_pravega.sandbox import Sandbox

SCOPE = "bench"
BEFORE, HERE = "before", "here"
PYTHON = Path(".venv/bin/python")
_SIDE = Path(__file__).with_name("checkout_side.py")


def main() -> None:
    """Run the benchmark as the command line says."""
    arguments = _arguments()
    with Sandbox(heap=arguments.heap, preallocate=True) as sandbox:
        report = _report(sandbox, arguments)
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.checkouts", sys.argv[1:])


def side_of(checkout: Path, sandbox: Sandbox, rows: Path, events: int, *, python: Path = PYTHON) -> Side:
    """Start the program of a checkout.

    Args:
        checkout: its folder.
        sandbox: the servers.
        rows: a Parquet file of the different rows that it may have to write.
        events: how many it writes then.
        python: which of the checkout's Pythons.
    """
    addresses = (sandbox.controller_uri, sandbox.schema_registry_uri or "")
    # -P: what the program imports comes from its own checkout, not from the folder of this file.
    command = [str(checkout / python), "-P", str(_SIDE), *addresses, str(rows), str(events), str(THREADS)]
    return Side(command, checkout)


def _report(sandbox: Sandbox, arguments: argparse.Namespace) -> str:
    size, events = arguments.events_size, arguments.events
    tables = make_two_tables(sandbox, SCOPE, size, events)
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pravega-bench-"))) / "rows.parquet"
        pq.write_table(pa.Table.from_batches([tables.rows]), file)
        sides = {
            name: stack.enter_context(closing(side_of(checkout.resolve(), sandbox, file, events, python=python)))
            for name, checkout, python in (
                (BEFORE, arguments.before, arguments.python),
                (HERE, Path(__file__).parents[1], PYTHON),
            )
        }
        decoded = ("new workers",) if arguments.new_workers else ("decoded", "two columns", "sum", "count")
        streams = {} if arguments.new_workers else {"raw": tables.raw}
        streams |= dict.fromkeys(decoded, tables.decoded)
        reads = [case for what, stream in streams.items() for case in _cases(sides, what, stream)]
        for case in reads * arguments.warm_ups:
            case.run("", events)
        measured = measure(reads, runs=arguments.runs, events=events, stage=lambda: nullcontext(""), tell=tell)
        report = table(f"read: {events:,} events of {size} bytes", measured, events)
        if arguments.writes:
            writes = _cases(sides, "write", None)
            for case in writes * arguments.warm_ups:
                with tables.ours.fresh_stream() as stream:
                    case.run(stream, events)
            measured = measure(
                writes, runs=arguments.runs, events=events, stage=tables.ours.fresh_checked(events), tell=tell
            )
            report += "\n\n" + table("written", measured, events)
        return report


def _cases(sides: dict[str, Side], what: str, stream: str | None) -> list[Case]:
    cases = []
    for name, side, options in (
        (BEFORE, BEFORE, {}),
        (HERE, HERE, {"shared-memory": "0"}),
        (f"{HERE}, shared memory", HERE, {"shared-memory": "16m"}),
    ):
        if stream is None and "shared memory" in name:
            continue  # a write has none

        def run(fresh: str, events: int, side: str = side, options: dict[str, str] = options) -> int:
            return sides[side].do(what, f"pravega.`{SCOPE}`.`{stream or fresh}`", events, options)

        baseline = None if side == BEFORE else f"{what}, {BEFORE}"
        cases.append(Case(name=f"{what}, {name}", run=run, cpu_seconds=sides[side].cpu_seconds, baseline=baseline))
    return cases


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkouts", description=__doc__)
    parser.add_argument("before", type=Path, help="the folder of the other checkout")
    parser.add_argument(
        "--python", type=Path, default=PYTHON, help="which of its Pythons, as .venv/spark-4.0/bin/python for Spark 4.0"
    )
    parser.add_argument("--events", type=int, default=400_000, help="how many are read, and written")
    parser.add_argument("--events-size", type=int, default=1000, help="bytes of an event without its frame, on average")
    parser.add_argument("--runs", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--warm-ups", type=int, default=5, help="how often each case runs before: so long JVMs compile")
    parser.add_argument(
        "--new-workers", action="store_true", help="measure only a sum by new workers; its CPU is without theirs"
    )
    parser.add_argument("--writes", action="store_true", help="measure writes, too")
    parser.add_argument("--heap", default="6g", help="the server's heap; it holds all events")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
