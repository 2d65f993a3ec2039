"""`pravega-spark thriftserver`, with beeline and PyHive."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from entry_tools import CLI, ThriftServer, ask, clean_environment, descendants, thrift_server, wait_until_gone
from pyhive.exc import OperationalError
from sql_scripts import Statement, differences, statements

from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.sql.commands import spark_program

pytestmark = [pytest.mark.server, pytest.mark.spark]

SCRIPT = Path(__file__).parent / "sql" / "two_users.sql"
USERS = ("ann", "bob")
_PATIENCE_S = 300


def parts(script: str) -> list[dict[str, list[Statement]]]:
    """The parts of a script between its lines `-- both`; of each the statements of each user."""
    parts_of_script: list[dict[str, list[Statement]]] = [{user: [] for user in USERS}]
    pieces = re.split(r"^-- (ann|bob|both)\n", script, flags=re.MULTILINE)
    line = 1 + pieces[0].count("\n")
    for who, text in zip(pieces[1::2], pieces[2::2], strict=True):
        line += 1
        if who == "both":
            parts_of_script.append({user: [] for user in USERS})
        else:
            parts_of_script[-1][who] += statements(text, first_line=line)
        line += text.count("\n")
    return parts_of_script


def test_a_script_of_two_users_at_once(thrift: ThriftServer) -> None:
    script = parts(SCRIPT.read_text())
    meeting = threading.Barrier(len(USERS), timeout=_PATIENCE_S)

    def talk(user: str) -> list[str]:
        wrong = []
        try:
            with thrift.connect(user) as connection, connection.cursor() as cursor:
                for part in script:
                    meeting.wait()
                    wrong += differences(part[user], [ask(cursor, statement.text) for statement in part[user]])
        except BaseException:
            meeting.abort()
            raise
        return [f"{user}, {difference}" for difference in wrong]

    with ThreadPoolExecutor() as threads:
        wrong = [difference for wrong_of_user in threads.map(talk, USERS) for difference in wrong_of_user]
    assert not wrong, "\n".join(wrong)
    assert sum(len(part[user]) for part in script for user in USERS) > 30
    commands = descendants(thrift.process.pid).values()
    assert sum("pyspark_pravega.catalog.process.service" in command for command in commands) == 1


def test_sessions_begin_and_end_at_the_same_time(thrift: ThriftServer) -> None:
    """One that ends takes nothing from those that begin."""

    def talk(user: int) -> int:
        for _ in range(4):
            with thrift.connect(f"user-{user}") as connection, connection.cursor() as cursor:
                cursor.execute("SELECT 1")
                assert cursor.fetchall() == [(1,)]
        return user

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(talk, range(8))) == list(range(8))


def test_beeline(thrift: ThriftServer, tmp_path: Path) -> None:
    statements = """
        CREATE NAMESPACE by_beeline;
        USE by_beeline;
        CREATE TABLE t (id INT, s STRING);
        INSERT INTO t VALUES (1, 'one'), (2, NULL);
        SELECT * FROM t ORDER BY id;
        DROP NAMESPACE by_beeline CASCADE;
        SELECT * FROM nowhere.t;"""
    flags = ["--silent=true", "--outputformat=tsv2", "--showHeader=false"]
    beeline = subprocess.run(
        [spark_program("beeline"), "-u", thrift.url, "-n", "ann", *flags, "-e", statements],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    assert beeline.stdout.splitlines()[-2:] == ["1\tone", "2\tNULL"]
    assert "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere`.`t` cannot be found" in beeline.stderr
    assert beeline.returncode != 0


def test_an_error_reaches_the_client(thrift: ThriftServer) -> None:
    with thrift.connect("ann") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE NAMESPACE wrong")
        cursor.execute("CREATE TABLE wrong.t (id INT)")
        with pytest.raises(OperationalError) as error:
            cursor.execute("DELETE FROM wrong.t WHERE id = 1")
        cursor.execute("DROP NAMESPACE wrong CASCADE")
    message = error.value.args[0].status.errorMessage
    assert 'DELETE isn\'t possible on stream "wrong/t": events are only ever appended' in message
    assert "Traceback" not in message
    with pytest.raises(OperationalError, match=r"The schema `pravega`.`no_such_one` cannot be found"):
        thrift.connect("ann", database="no_such_one")


def serve(sandbox: Sandbox, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a server that is expected to end."""
    return subprocess.run(
        [*CLI, "thriftserver", *arguments],
        env=clean_environment(sandbox.environment()),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )


def test_a_taken_port_is_told(sandbox: Sandbox, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = serve(sandbox, tmp_path, "--port", str(port))
    assert server.returncode == 1
    assert server.stdout == ""
    assert server.stderr.splitlines()[-1] == (
        f"pravega-spark: [PRAVEGA_INVALID_CONFIGURATION] port {port} is taken, or not for this user: "
        "give another one by --port, 0 for any that is free"
    )


def test_a_server_that_cannot_start_is_told(sandbox: Sandbox, tmp_path: Path) -> None:
    server = serve(sandbox, tmp_path, "--port", "0", "--", "--master", "nonsense")
    assert server.returncode == 1
    assert server.stdout == ""
    assert "Master must either be" in server.stderr
    assert "the Thrift server has ended before it answered, with exit code" in server.stderr.splitlines()[-1]


def test_credentials_are_not_to_be_seen_and_ctrl_c_stops_all(secure_sandbox: Sandbox, tmp_path: Path) -> None:
    password = secure_sandbox.password_of("admin")
    temporary = set(Path(tempfile.gettempdir()).glob("pravega-server-*"))
    environment = {**secure_sandbox.environment(), "PRAVEGA_SCOPE": "secure_thrift"}
    with thrift_server(environment, tmp_path, "--", "--conf", "spark.sql.shuffle.partitions=5") as running:
        assert running.url.endswith("/secure_thrift")
        with running.connect("ann") as connection, connection.cursor() as cursor:
            for statement in (
                "CREATE NAMESPACE secure_thrift",
                "CREATE TABLE secure_thrift.t AS SELECT 1 AS id",
                "INSERT INTO secure_thrift.t VALUES (2)",
            ):
                cursor.execute(statement)
            assert ask(cursor, "SELECT sum(id) FROM secure_thrift.t") == ["3"]
            settings = ask(cursor, "SET -v") + ask(cursor, "SET") + ask(cursor, "DESCRIBE EXTENDED secure_thrift.t")
            assert "spark.sql.shuffle.partitions\t5" in settings
            cursor.execute("DROP NAMESPACE secure_thrift CASCADE")
        processes = descendants(running.process.pid)
        assert any("thrift.ThriftServer" in command for command in processes.values())
        for text in (*processes.values(), *settings, running.url, running.log.read_text()):
            assert password not in text
        assert running.stop(signal.SIGINT) == 0
    wait_until_gone(processes)
    assert list((tmp_path / "home").iterdir()) == []
    assert set(Path(tempfile.gettempdir()).glob("pravega-server-*")) <= temporary
