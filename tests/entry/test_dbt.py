"""`examples/dbt`: built and documented by dbt, against the Thrift server and in dbt's own process."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

import pyspark
import pytest
from entry_tools import CLI, ThriftServer, ask, clean_environment
from pyhive.exc import DatabaseError
from run_dbt_suite import run_suite

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.since_spark("4.2"), pytest.mark.in_turn(8, whole=True)]

ROOT = Path(__file__).parents[2]
DEMO = runpy.run_path(str(ROOT / "examples" / "nyc_flights.py"))
BUILT = {"model": 3, "seed": 1, "test": 12}
AIRPORTS = 3
PROGRAM = """
import json, sys
from dbt.cli.main import dbtRunner
for line in sys.stdin:
    for arguments in json.loads(line):
        ended = dbtRunner().invoke(arguments)
        if not ended.success:
            print(ended.exception)
            print("FAILED", flush=True)
            break
    else:
        print("ENDED", flush=True)
"""
"""Commands of dbt as they come, all in one process: dbt is loaded once, and the target `session` has one JVM."""
BUILT_IN_S = 550
PREFIX = Path(sys.prefix)
VENV = PREFIX.parent if PREFIX.name.startswith("spark-") else PREFIX
"""The environment with all tools, which that of another Spark lies in."""
OTHER_SPARK = [] if VENV == PREFIX else [str(Path(pyspark.__file__).parents[1])]
"""Where another Spark is, for programs of dbt's environment."""


@pytest.fixture(scope="session")
def dbt() -> Path:
    """The program `dbt`, in the environment that `make test` makes once and keeps."""
    command = ["make", "--no-print-directory", f"VENV={VENV}", f"PYTHON={VENV}/bin/python", f"-o{VENV}/.tools"]
    command += ["dbt-suite-tools"]
    subprocess.run(command, cwd=ROOT, check=True)
    return VENV / "dbt" / "bin" / "dbt"


@pytest.fixture(scope="module")
def own_tests(dbt: Path, thrift: ThriftServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[str]]:
    """What some of dbt's own tests print if they fail. They run beside the other tests: all of them mostly wait."""
    folder = tmp_path_factory.mktemp("own")

    def run() -> str:
        with (folder / "output").open("w+") as output:
            code = run_suite(dbt.with_name("python"), thrift.address, folder, ["-m", "sample", "-q"], output)
            output.seek(0)
            return output.read() if code else ""

    with ThreadPoolExecutor() as pool:
        yield pool.submit(run)


@pytest.fixture(scope="module")
def flights(thrift: ThriftServer, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cursor in whose session `flights_file` has January's flights; the stream has those of its first 4 days."""
    files = DEMO["unpack"](tmp_path_factory.mktemp("flights"))
    # Each statement reads the whole file, which begins with January.
    with files["flights"].open() as lines:
        january = [next(lines), *takewhile(lambda line: line.startswith("2013,1,"), lines)]
    files["flights"].write_text("".join(january))
    load = DEMO["LOAD"].format(columns=DEMO["COLUMNS"], **files)
    first = load.replace("SELECT * FROM flights_file", "SELECT * FROM flights_file WHERE month = 1 AND day <= 4")
    assert first != load
    with thrift.connect("ann") as connection, connection.cursor() as cursor:
        for statement in filter(str.strip, first.split(";")):
            ask(cursor, statement)
        yield cursor
        for namespace in ("nyc", "nyc_marts", "nyc_session_marts"):
            ask(cursor, f"DROP NAMESPACE IF EXISTS {namespace} CASCADE")


class Dbt:
    """A process that runs commands of dbt, which have to succeed."""

    def __init__(self, dbt: Path, project: Path, environment: Mapping[str, str]) -> None:
        self.project = project
        self._process = subprocess.Popen(
            [str(dbt.with_name("python")), "-c", PROGRAM],
            env={**clean_environment(environment), "NO_COLOR": "1"},
            cwd=project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, target: str, *commands: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        flags = ["--target", target, "--profiles-dir", "."]
        self._process.stdin.write(json.dumps([[*command.split(), *flags] for command in commands]) + "\n")
        self._process.stdin.flush()
        said = []
        for line in self._process.stdout:
            if line == "ENDED\n":
                return
            if line == "FAILED\n":
                break
            said.append(line)
        log = self.project / "logs" / "dbt.log"
        pytest.fail("".join(said)[-9000:] + (log.read_text()[-3000:] if log.exists() else ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=BUILT_IN_S)
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def running(
    dbt: Path, thrift: ThriftServer, sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dbt]:
    """dbt in a copy of the project, with the package that it names."""
    folder = tmp_path_factory.mktemp("project")
    written = shutil.ignore_patterns("target", "logs", "dbt_packages", "package-lock.yml")
    shutil.copytree(ROOT / "dbt-pravega", folder / "dbt-pravega")
    project = shutil.copytree(ROOT / "examples" / "dbt", folder / "examples" / "dbt", ignore=written)
    flags = subprocess.run(
        [*CLI, "config"], env=clean_environment(sandbox.environment()), capture_output=True, text=True, check=True
    ).stdout.strip()
    few_tasks = "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"
    host, port = thrift.address
    environment = {
        "FLIGHTS_THRIFT_HOST": host,
        "FLIGHTS_THRIFT_PORT": str(port),
        "PYSPARK_SUBMIT_ARGS": f"{flags} {few_tasks} pyspark-shell",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *OTHER_SPARK, os.environ.get("PYTHONPATH")])),
    }
    with Dbt(dbt, project, environment) as process:
        process.run("thrift", "deps")
        yield process


def builds_twice_and_documents(
    dbt: Dbt, target: str, schema: str, days: range, flights: Any, *, again: str = "build"
) -> None:
    """Build, let flights of more days come, build again, and make the docs."""
    project = dbt.project
    dbt.run(target, "build")
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    assert {result["status"] for result in results} == {"success", "pass"}
    assert Counter(result["unique_id"].split(".")[0] for result in results) == BUILT
    before = ask(flights, f"SELECT count(DISTINCT flown_on), sum(flights) FROM {schema}.daily_flights")
    assert before == ask(flights, "SELECT count(DISTINCT month, day), count(*) FROM nyc.flights")

    more = f"FROM flights_file WHERE month = 1 AND day BETWEEN {days[0]} AND {days[-1]}"
    ask(flights, f"INSERT INTO nyc.flights SELECT * {more}")
    dbt.run(target, again, "docs generate")
    added = ask(flights, f"SELECT rows FROM {schema}.`daily_flights$commits` ORDER BY version")
    assert added[1:] == [str(len(days) * AIRPORTS)]
    changes = f"{schema}.daily_flights CHANGES FROM VERSION 2 TO VERSION 2"
    assert ask(flights, f"SELECT sum(flights) FROM {changes}") == ask(flights, f"SELECT count(*) {more}")
    assert ask(flights, f"SELECT sum(flights) FROM {schema}.airline_delays") == ask(
        flights, "SELECT count(*) FROM nyc.flights"
    )

    catalog = json.loads((project / "target" / "catalog.json").read_text())
    assert catalog["errors"] is None
    kinds_of = {node.split(".")[-1]: description["metadata"]["type"] for node, description in catalog["nodes"].items()}
    assert kinds_of == {"stg_flights": "view", "airline_delays": "table", "daily_flights": "table", "airports": "table"}
    columns = catalog["nodes"]["model.flights.daily_flights"]["columns"]
    assert {name: column["type"] for name, column in columns.items()} == {
        "flown_on": "date", "origin": "string", "airport": "string", "flights": "bigint", "cancelled": "bigint",
    }  # fmt: skip
    assert set(catalog["sources"]) == {"source.flights.nyc.flights", "source.flights.nyc.airlines"}
    assert f"{schema}\tstg_flights\tfalse" in ask(flights, f"SHOW VIEWS IN {schema}")
    comments = ask(flights, f"DESCRIBE {schema}.stg_flights")
    assert "flown_on\tdate\tThe day of departure" in comments
    comments = ask(flights, f"DESCRIBE {schema}.daily_flights")
    assert "flights\tbigint\tThose that were planned" in comments
    # The second run has replaced the first one's rows by one commit, and the constraints hold for whoever writes.
    assert ask(flights, f"SELECT count(*) FROM {schema}.`airline_delays$commits`") != ["1"]
    with pytest.raises(DatabaseError, match="carrier"):
        ask(flights, f"INSERT INTO {schema}.airline_delays (name, flights) VALUES ('nobody', 1)")
    properties = ask(flights, f"SHOW TBLPROPERTIES {schema}.daily_flights ('retention')")
    assert properties == ["retention\t90 days"]


@pytest.mark.usefixtures("own_tests")  # which run meanwhile
def test_against_the_thrift_server(running: Dbt, flights: Any) -> None:
    builds_twice_and_documents(running, "thrift", "nyc_marts", range(5, 8), flights)


def test_in_a_session_of_its_own(running: Dbt, flights: Any) -> None:
    """What the tests of the project say of a second run, the other target has shown."""
    builds_twice_and_documents(running, "session", "nyc_session_marts", range(8, 10), flights, again="run")
    left = {path.name for path in running.project.iterdir()}
    assert left.isdisjoint({"metastore_db", "derby.log", "spark-warehouse"})


def test_some_of_dbt_s_own_tests_for_adapters(own_tests: Future[str]) -> None:
    """All of them are `make dbt-suite`."""
    failures = own_tests.result()
    assert not failures, failures[-9000:]
