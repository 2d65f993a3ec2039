"""What all tests share: servers, a client, a Spark session; one of each in each test process."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import tempfile
import uuid
import warnings
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from class_archives import ARCHIVES
from class_archives import options as archive_options
from class_archives import present as present_archives
from error_tools import java_traces
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from java_tools import make_home
from server_tools import FORMAT_CLASSES, KINDS, Servers, kinds_named, wants_thrift
from since import SPARK, is_missing
from turns import others, turn, words

from pyspark_pravega.client import Client
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark import versions

if TYPE_CHECKING:
    from entry_tools import ThriftServer, ThriftServers
    from pyspark.sql import SparkSession
    from spark_tools import Sessions

    from pyspark_pravega.catalog.catalog import Catalog
    from tests.jars.kept_java import KeptPrograms

# Property tests on machines that are busy with something else, too; HYPOTHESIS_EXAMPLES=5000 digs deeper.
hypothesis_settings.register_profile(
    "patient",
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("patient")

_SERVERS = pytest.StashKey[Servers]()
_THRIFT_SERVERS = pytest.StashKey["ThriftServers"]()
_LACKED = pytest.StashKey[set[str]]()
"""The Sparks that a test needs and that are newer than this one."""
SERVER_FIXTURES = set(KINDS)
SPARK_FIXTURES = {"spark", "thrift"}
FIRST_FILES = {"test_dbt.py", "test_sqlalchemy.py", "test_thriftserver.py"}
"""Their programs list the tables of all namespaces: later there are hundreds of them."""
LONG_FILES = {"test_clusters.py", "test_connect.py", "test_killed_once.py"}
"""Of a minute or more, without the session: whoever is at the end of a run should not begin them. And one that is a
single test holds the file that comes behind it, which another process would have time for."""
CHEAPER_PROGRAMS = " ".join([
    "-Dspark.ui.enabled=false",
    "-Dspark.sql.shuffle.partitions=4",
    "-Dspark.sql.codegen.wholeStage=false",
    "-Dspark.sql.codegen.factoryMode=NO_CODEGEN",
    "-Dspark.buffer.pageSize=1m",
    "-XX:MetaspaceSize=256m",
    "-Xmn256m",
])  # fmt: skip
"""What Spark programs that tests start have where they don't say otherwise. Spark's pages take 0.6 s of CPU. Generated
code is compiled for a few rows each; the shared session has it all the same. Each sort, window and aggregation of a
task takes a page of memory, of 16 MB and more where nobody says how much, which is cleared and soon collected. And Java
goes through its whole heap each time that the classes need more memory.
"""
_numbers = itertools.count(1)


class FailuresAtOnce:
    """Tells of a failure when it happens; the summary tells it again, but a run that is cut off has none."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\n{report.nodeid}, {report.when}:\n{report.longreprtext}")
            for name, text in report.sections:
                if name in ("servers", "java"):
                    self._terminal.write_line(text)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter):
        config.pluginmanager.register(FailuresAtOnce(terminal))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell does in the background. Tests send it to programs, which inherit what is done with it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if SPARK < (4, 2):
        # Its own sockets to the JVM, which it leaves to the garbage collector.
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
        left = "Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
        config.addinivalue_line("filterwarnings", f"ignore:{left}")
    if not hasattr(config, "workerinput"):  # xdist's workers inherit it
        _share_compiled_python()
        os.environ["SPARK_SUBMIT_OPTS"] = CHEAPER_PROGRAMS
        # Each process that loads numpy would begin a thread for linear algebra, which spins for 0.1 s of CPU.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        folder = Path(tempfile.mkdtemp(prefix="tests-java-"))
        config.add_cleanup(lambda: shutil.rmtree(folder))
        if home := make_home(folder, archive_options()):
            os.environ["JAVA_HOME"] = str(home)


def _share_compiled_python() -> None:
    """No process of the tests compiles a module that another one has compiled (tests/tools/sitecustomize.py)."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    tools = str(Path(__file__).parent / "tools")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [tools, os.environ.get("PYTHONPATH", "")]))


def pytest_report_header() -> list[str]:
    """Say whether JVMs have archives of their classes: without them all takes longer. And which tests are left out."""
    return [
        f"archives of classes: {len(present_archives())} of {len(ARCHIVES)} (make classes)",
        f"tests that are run in turn: {words()}",
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many snippets of the pages ran, and how many said why they don't (tests/docs)."""
    counts = dict.fromkeys(("snippets run", "snippets not run"), 0)
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
                if name in counts:
                    counts[name] += value
    if any(counts.values()):
        terminalreporter.write_line(", ".join(f"{name}: {count}" for name, count in counts.items()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test tells which servers are gone, as what talks to them waits for nothing, and Java's own traces."""
    report = yield
    if report.failed:
        if running := item.config.stash.get(_SERVERS, None):
            report.sections += [("servers", sentence) for sentence in running.ended()]
        if call.excinfo is not None:
            report.sections += [("java", trace) for trace in java_traces(call.excinfo.value)]
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    # Imported here: without xdist everything works as well, one test after another.
    from schedule_tools import BothEnds

    return BothEnds(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs servers or Spark (all else is in `make quick`), and order files for the schedule.

    Leave out what has its turn in another run, where TESTS_TURN says whose turn it is.
    """
    for item in items:
        wanted = set(getattr(item, "fixturenames", ()))
        if wanted & (SERVER_FIXTURES | SPARK_FIXTURES):
            item.add_marker("server")
        if wanted & SPARK_FIXTURES:
            item.add_marker("spark")
    if (number := turn()) is not None:
        left = others(items, number)
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]
    names: dict[Path, set[str]] = {}
    for item in items:
        used = {*getattr(item, "fixturenames", ()), *(mark.name for mark in item.iter_markers())}
        names.setdefault(item.path, set()).update(used)
    places = {path: _place(path, used) for path, used in names.items()}
    items.sort(key=lambda item: places[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Find out what needs a newer Spark; a mark of a Spark that there is none of is an error."""
    report = yield
    for item in report.result or ():
        if isinstance(item, pytest.Item):
            try:
                named = {mark.args[0] for mark in item.iter_markers("since_spark")}
                item.stash[_LACKED] = {version for version in named if is_missing(version)}
            except (IndexError, ValueError) as error:
                report.outcome, report.longrepr = "failed", f"{item.nodeid}: {error}"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a newer Spark: here, and not by a mark, so that the summary counts all in one line."""
    if lacked := item.stash.get(_LACKED, None):
        pytest.skip(f"needs Spark {max(lacked, key=versions.numbers)}")


def _place(file: Path, used: set[str]) -> int:
    """Where a file stands in the schedule, which begins at both ends (`BothEnds`).

    First the programs that look at all that there is, then the files of the Spark session, what needs nothing, what
    needs servers only, programs with a JVM of their own and behind them the longest ones, and last what needs servers
    with authentication. Those that need nothing are short: where the processes meet, neither waits long for the other.
    Programs with a JVM of their own take more than a core, and so do the session's last files (shared memory, real
    time, types). So the programs run beside the session's first files, which mostly wait.
    """
    if kinds := kinds_named(file) - {"sandbox"}:
        # Servers end with the last file that names them: those of a kind follow each other.
        return 6 if "secure_sandbox" not in kinds else 7 if len(kinds) > 1 else 8
    if file.name in FIRST_FILES:
        return 0
    if "sessions" in used:
        return 1
    if file.name in LONG_FILES:
        return 5
    if "spark" in used:
        return 4
    return 3 if "server" in used else 2


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Those of this process, an xdist worker or the only one."""
    running = request.config.stash[_SERVERS] = Servers()
    yield running
    for kind in KINDS:
        running.end(kind)


@pytest.fixture(scope="module", autouse=True)
def _servers_of_a_module(request: pytest.FixtureRequest) -> None:
    if (thrift := request.config.stash.get(_THRIFT_SERVERS, None)) and not wants_thrift(request.path):
        thrift.end()
    if running := request.config.stash.get(_SERVERS, None):
        wanted = kinds_named(request.path)
        kept = "roomy_sandbox" if _is_chaos(request.path) else "sandbox"
        for said in running.between_modules(wanted | {kept}):
            warnings.warn(f"servers are replaced: {said}", stacklevel=1)


def _is_chaos(file: Path) -> bool:
    return file.parent.name == "chaos"


@pytest.fixture(scope="module")
def sandbox(request: pytest.FixtureRequest, servers: Servers) -> Sandbox:
    """A Pravega and a schema registry that many modules share: tests make scopes of their own in it.

    Those of tests/chaos have a larger heap, in which all stays that is written, and are replaced sooner.
    """
    return servers.get("roomy_sandbox" if _is_chaos(request.path) else "sandbox")


@pytest.fixture(scope="module")
def secure_sandbox(servers: Servers) -> Sandbox:
    """Both servers with authentication and TLS; their users are `admin`, `analyst`, `reader` and `nobody`."""
    return servers.get("secure_sandbox")


@pytest.fixture(scope="module")
def auth_sandbox(servers: Servers) -> Sandbox:
    """Both servers with authentication and without TLS; delegation tokens are valid for some seconds only."""
    return servers.get("auth_sandbox")


@pytest.fixture(scope="module")
def settings(sandbox: Sandbox) -> Settings:
    options = {"controller-uri": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}
    return Settings.resolve({**options, "timeout": "30", "format-classes": FORMAT_CLASSES}, environ={})


@pytest.fixture(scope="module")
def client(settings: Settings) -> Client:
    """The one that this process's catalogs and jobs use, too."""
    from pyspark_pravega.connector.shared import shared_client

    return shared_client(settings)


@pytest.fixture(scope="module")
def registry(settings: Settings) -> Iterator[SchemaRegistry]:
    assert settings.schema_registry_uri
    with SchemaRegistry(settings.schema_registry_uri, timeout=settings.timeout) as connected:
        yield connected


@pytest.fixture(scope="module")
def catalog(settings: Settings) -> Catalog:
    from pyspark_pravega.catalog.catalog import Catalog

    return Catalog(settings)


@pytest.fixture
def scope(request: pytest.FixtureRequest, client: Client) -> Iterator[str]:
    """A scope of the test's own; it stays until the servers end, unless the test is marked `dropped`."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    client.controller.create_scope(name)
    yield name
    if request.node.get_closest_marker("dropped"):
        catalog: Catalog = request.getfixturevalue("catalog")
        catalog.namespaces.drop([name], cascade=True)


@pytest.fixture(scope="module")
def module_scope(client: Client) -> str:
    """A scope for tables that many tests of a module read and none changes: a table with commits costs 0.5 s of CPU."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    client.controller.create_scope(name)
    return name


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptPrograms]:
    """The programs of tests/interop/java, which share a JVM; they don't know yet where servers are."""
    from tests.jars.java_client import compile_java
    from tests.jars.kept_java import KeptPrograms, Machine

    sources, classes = Path(__file__).parent / "interop" / "java", tmp_path_factory.mktemp("classes")
    programs = compile_java(sources, classes, controller_uri="", schema_registry_uri="")
    machine = Machine(programs, classes / "programs.log")
    yield KeptPrograms(**vars(programs), machine=machine)
    machine.stop()


@pytest.fixture(scope="module")
def java(compiled: KeptPrograms, settings: Settings) -> KeptPrograms:
    assert settings.schema_registry_uri
    return replace(compiled, controller_uri=settings.controller_uri, schema_registry_uri=settings.schema_registry_uri)


@pytest.fixture(scope="session")
def thrift_servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThriftServers]:
    """Those of this process; they end with the last file that wants one."""
    from entry_tools import ThriftServers

    running = request.config.stash[_THRIFT_SERVERS] = ThriftServers(tmp_path_factory)
    yield running
    running.end()


@pytest.fixture(scope="module")
def thrift(thrift_servers: ThriftServers, sandbox: Sandbox) -> ThriftServer:
    """The Thrift server that the files share that want one; they follow each other (`schedule_tools`)."""
    return thrift_servers.get(sandbox)


@pytest.fixture(scope="session")
def sessions() -> Iterator[Sessions]:
    from spark_tools import Sessions

    running = Sessions()
    yield running
    running.end()


@pytest.fixture(scope="module")
def spark(sessions: Sessions, sandbox: Sandbox) -> SparkSession:
    """The Spark session of this process, with the catalog configured as a user would do it."""
    return sessions.get(sandbox)


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """No generated code in the session: for tests with many queries, each of which would be compiled for a few rows."""
    before = {name: spark.conf.get(name) for name in ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")}
    for name, value in zip(before, ("false", "NO_CODEGEN"), strict=True):
        spark.conf.set(name, value)
    yield
    for name, earlier in before.items():
        assert earlier is not None
        spark.conf.set(name, earlier)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """A namespace of the test's own; it stays until the servers end, unless the test is marked `dropped`.

    To drop one with a few tables costs as much CPU as to make two tables.
    """
    name = f"pravega.spark_test_{next(_numbers)}"
    spark.sql(f"CREATE NAMESPACE {name}")
    yield name
    if request.node.get_closest_marker("dropped"):
        spark.sql(f"DROP NAMESPACE {name} CASCADE")
