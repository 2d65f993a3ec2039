"""SQL on a cluster with authentication and TLS: it works, and no secret shows anywhere."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from shared_memory_tools import RINGS_NOW

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(8)]

CLI = [sys.executable, "-m", "pyspark_pravega.cli"]
LOG_MUCH = """
rootLogger.level = warn
logger.spark.name = org.apache.spark
logger.spark.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = ${env:LOG_FILE}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c{1}: %m%n%ex
"""
PLUG_IN = """
import base64, os
class Mine:
    def authorization(self):
        return "Basic " + base64.b64encode(f"admin:{os.environ['MY_SECRET']}".encode()).decode()
"""
PROGRAM = Path(__file__).with_name("secure_program.py")


def run(
    command: list[str], environment: Mapping[str, str], folder: Path, *, standard_input: str = ""
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run a program to its end; besides its output, the command lines of all processes that came from it."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PRAVEGA_")}
    process = subprocess.Popen(
        command, env={**clean, **environment}, cwd=folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with watched(process.pid) as seen:
        stdout, stderr = process.communicate(standard_input, timeout=300)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr), "\n".join(sorted(seen))


@contextmanager
def watched(root: int) -> Iterator[set[str]]:
    """Collect the command lines of a process and its descendants while a block runs."""
    seen: set[str] = set()
    family, others = {root}, set[int]()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            there = {int(name) for name in os.listdir("/proc") if name.isdigit()}
            # Who isn't of the family doesn't join it later. A parent is looked at before its child.
            others.intersection_update(there)
            for pid in sorted(there - others):
                try:
                    if pid not in family:
                        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                        (family if parent in family else others).add(pid)
                    if pid in family:
                        seen.add(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
                except (OSError, ValueError):  # it has just ended
                    continue
            family.intersection_update(there | {root})

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def assert_no_secret(sandbox: Sandbox, *texts: str, user: str = "admin") -> None:
    password = sandbox.password_of(user)
    for secret in (password, base64.b64encode(f"{user}:{password}".encode()).decode()):
        for text in (*texts, sandbox.pravega_log.read_text(), sandbox.registry_log.read_text()):
            at = text.find(secret)
            assert at < 0, f"a secret shows after: {text[max(0, at - 200) : at]}"


@dataclass(frozen=True)
class Program:
    """What `secure_program.py` has printed, its event log, and the command lines of its processes."""

    done: subprocess.CompletedProcess[str]
    log: str
    commands: str


@pytest.fixture(scope="module")
def program(secure_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """It has ended. It leaves a table, `secure_reader.t`, which it has made with the credentials of a plug-in."""
    folder = tmp_path_factory.mktemp("program")
    events = folder / "events"
    events.mkdir()
    (folder / "my_credentials.py").write_text(PLUG_IN)
    environment = {
        "MY_SECRET": str(secure_sandbox.password),
        "PRAVEGA_TLS_CA": str(secure_sandbox.tls_ca),
        # Authorities that have nothing to do with the sandbox.
        "OTHER_CA": str(Path(grpc.__file__).parent / "_cython" / "_credentials" / "roots.pem"),
        # Spark plans each read and write of the data source in a new process (sitecustomize.py).
        "TESTS_PRELOADED": "1",
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
    }
    connection = {
        "controller-uri": secure_sandbox.controller_uri,
        "schema-registry-uri": secure_sandbox.schema_registry_uri,
        "tls-ca": str(secure_sandbox.tls_ca),
        "username": "admin",
        "password": secure_sandbox.password,
    }

    command = [sys.executable, str(PROGRAM), str(events)]
    done, commands = run(command, environment, folder, standard_input=json.dumps(connection) + "\n")
    assert done.returncode == 0, done.stderr
    (log,) = events.glob("*/events_*")
    return Program(done, log.read_text(), commands)


def test_a_program_that_shows_all_it_can(secure_sandbox: Sandbox, program: Program) -> None:
    done = program.done
    assert "rows: 24 5\n" in done.stdout
    assert "key='spark.sql.catalog.pravega.username', value='admin'" in done.stdout
    assert "key='spark.sql.catalog.pravega.password'" not in done.stdout
    said = dict(re.findall(r"== refused: (.*?)\n.*?\[(PRAVEGA_\w+)\]", done.stdout, re.DOTALL))
    assert said == {
        "wrong password": "PRAVEGA_UNAUTHENTICATED",
        "nobody": "PRAVEGA_UNAUTHENTICATED",
        "unknown authority": "PRAVEGA_CERTIFICATE_REJECTED",
        "without TLS": "PRAVEGA_CONTROLLER_UNAVAILABLE",
    }
    wrong_password = done.stdout.partition("== refused: wrong password")[2].partition("== refused")[0]
    assert "[PRAVEGA_UNAUTHENTICATED] the Pravega controller at tls://127.0.0.1:" in wrong_password
    assert "check username and password" in wrong_password
    assert re.search(r"== another session\n\[Row\(.*tableName='t'", done.stdout)
    for part in ("SparkSubmit", "catalog.process.service", "spark.daemon"):
        assert part in program.commands
    assert_no_secret(secure_sandbox, done.stdout, done.stderr, program.log, program.commands)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """What is said of an error, in one line."""
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "PRAVEGA_" in line]
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr
    return line


@pytest.mark.usefixtures("program")
def test_statements_from_the_command_line(secure_sandbox: Sandbox, tmp_path: Path) -> None:
    """Who may only read does so in a catalog of its own, of a table that another user has made, with credentials from a
    plug-in."""
    events, credentials, spark_log = tmp_path / "events", tmp_path / "credentials", tmp_path / "log"
    events.mkdir()
    credentials.write_text(f"username = analyst\npassword = {secure_sandbox.password_of('analyst')}\n")
    large = "pravega.secure_cli.large"
    statements = f"""
        CREATE NAMESPACE pravega.secure_cli;
        CREATE TABLE pravega.secure_cli.t CLUSTERED BY (s) INTO 4 BUCKETS AS SELECT id, 'x' AS s FROM range(10);
        INSERT INTO pravega.secure_cli.t VALUES (10, 'y');
        CREATE TABLE {large} AS SELECT repeat('x', 500) AS s FROM range(3000);
        SELECT 'shared', sum(length(s)), max(rings) > 0 FROM (SELECT s, {RINGS_NOW} AS rings FROM {large});
        SELECT 'rows', count(*), max(id) FROM pravega.secure_cli.t;
        DESCRIBE EXTENDED pravega.secure_cli.t;
        EXPLAIN EXTENDED SELECT id FROM pravega.secure_cli.t;
        SET -v;
        SELECT 'read', count(*) FROM reader.secure_reader.t;
        INSERT INTO reader.secure_reader.t VALUES (1);
        SELECT 'not reached'"""
    logging = tmp_path / "log4j2.properties"
    logging.write_text(LOG_MUCH)
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{events}",
        "spark.sql.catalog.reader": "pyspark.pravega.PravegaCatalog",
        "spark.sql.catalog.reader.controller-uri": secure_sandbox.controller_uri,
        "spark.sql.catalog.reader.schema-registry-uri": secure_sandbox.schema_registry_uri,
        "spark.sql.catalog.reader.tls-ca": secure_sandbox.tls_ca,
        "spark.sql.catalog.reader.credentials-file": credentials,
    }
    flags = [flag for key, value in conf.items() for flag in ("--conf", f"{key}={value}")]
    flags += ["--driver-java-options", f"-Dlog4j2.configurationFile={logging}"]
    command = [*CLI, "sql", "--verbose", "-e", statements, "--", *flags]

    done, commands = run(command, {**secure_sandbox.environment(), "LOG_FILE": str(spark_log)}, tmp_path)

    assert "rows\t11\t10\n" in done.stdout, done.stderr
    assert "shared\t1500000\ttrue\n" in done.stdout
    assert "read\t10\n" in done.stdout
    assert one_line(done).startswith("[PRAVEGA_UNAUTHENTICATED] the user has no permission for ")
    assert "not reached" not in done.stdout
    assert "INFO SparkContext: " in spark_log.read_text()
    (log,) = events.glob("*/events_*")
    assert "spark.sql.catalog.pravega.tls-ca" in log.read_text()
    for part in (
        "SparkSQLCLIDriver",
        "pyspark_pravega.catalog.process.service",
        "pyspark_pravega.spark.daemon",
    ):
        assert part in commands
    for user in ("admin", "analyst"):
        texts = (done.stdout, done.stderr, spark_log.read_text(), log.read_text(), commands)
        assert_no_secret(secure_sandbox, *texts, user=user)


def test_the_printed_configuration_holds_no_secret_and_says_so(secure_sandbox: Sandbox, tmp_path: Path) -> None:
    # As if the sandbox had been started from the command line.
    state = tmp_path / "pyspark-pravega" / "sandbox" / "sandbox.json"
    state.parent.mkdir(parents=True)
    state.write_text((secure_sandbox.data_dir / "sandbox.json").read_text())

    done, _ = run([*CLI, "config"], {"XDG_STATE_HOME": str(tmp_path)}, tmp_path)

    assert done.returncode == 0, done.stderr
    flags = shlex.split(done.stdout)
    assert f"spark.sql.catalog.pravega.controller-uri={secure_sandbox.controller_uri}" in flags
    assert "spark.sql.catalog.pravega.username=admin" in flags
    assert "password isn't among the flags" in done.stderr
    assert "PRAVEGA_PASSWORD" in done.stderr
    assert_no_secret(secure_sandbox, done.stdout, done.stderr)
