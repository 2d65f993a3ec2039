"""`pravega-spark thriftserver`, with beeline and PyHive."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyspark
import pytest
from entry_tools import CLI, ThriftServer, ask, clean_environment, descendants
from pyhive.exc import OperationalError
from shared_memory_tools import mapped, opened
from since import is_missing
from sql_scripts import Statement, differences, statements
from waiting import eventually

from pyspark_pravega.sandbox import Sandbox, places
from pyspark_pravega.spark import needed

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(4, whole=True)]

SCRIPT = Path(__file__).parent / "sql" / "two_users.sql"
USERS = ("ann", "bob")
_PATIENCE_S = 300
# As java.sql.Types counts them.
INTEGER, BIGINT, DECIMAL, DOUBLE, VARCHAR, ARRAY = 4, -5, 3, 8, 12, 2003


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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the names of threads here")
def test_a_session_that_ends_leaves_no_database(thrift: ThriftServer) -> None:
    """Hive would make a metastore of its own then, with Derby."""
    with thrift.connect("ann") as connection, connection.cursor() as cursor:
        assert ask(cursor, "SELECT 1") == ["1"]
    (server,) = [
        pid for pid, command in descendants(thrift.process.pid).items() if "spark.deploy.SparkSubmit" in command
    ]
    threads = [file.read_text() for file in Path(f"/proc/{server}/task").glob("*/comm")]
    assert len(threads) > 20
    assert [name for name in threads if "derby" in name] == []


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


def test_a_transaction_by_jdbc(thrift: ThriftServer) -> None:
    """It is its session's own: others see nothing of it until it is committed."""
    tables = ("pravega.jdbc_bank.accounts", "pravega.jdbc_bank.transfers")
    with thrift.connect("ann") as one, thrift.connect("bob") as two, one.cursor() as ann, two.cursor() as bob:

        def counts(cursor: Any) -> list[str]:
            each = " UNION ALL ".join(f"SELECT '{name[18:]}' AS t, count(*) AS n FROM {name}" for name in tables)
            return ask(cursor, f"SELECT * FROM ({each}) ORDER BY t")

        for statement in (
            "CREATE NAMESPACE pravega.jdbc_bank",
            f"CREATE TABLE {tables[0]} (id BIGINT, balance BIGINT) TBLPROPERTIES ('primary-key' = 'id')",
            f"CREATE TABLE {tables[1]} (source BIGINT, target BIGINT)",
        ):
            ann.execute(statement)
        for end, expected in (("rollback", [0, 0]), ("commit", [2, 1])):
            ann.execute("CALL pravega.system.begin()")
            ann.execute(f"INSERT INTO {tables[0]} VALUES (1, 10), (2, 10)")
            ann.execute(f"INSERT INTO {tables[1]} VALUES (1, 2)")
            assert counts(ann) == ["accounts\t2", "transfers\t1"]
            assert counts(bob) == ["accounts\t0", "transfers\t0"]
            with pytest.raises(OperationalError, match="no transaction"):
                bob.execute("CALL pravega.system.commit()")
            ann.execute(f"CALL pravega.system.{end}()")
            for cursor in (ann, bob):
                assert counts(cursor) == [f"accounts\t{expected[0]}", f"transfers\t{expected[1]}"]
        # A conflict is told as one, and a session that ends takes its transaction along.
        ann.execute("CALL pravega.system.begin()")
        ann.execute(f"UPDATE {tables[0]} SET balance = balance + 1 WHERE id = 1")
        bob.execute(f"UPDATE {tables[0]} SET balance = balance + 1 WHERE id = 1")
        with pytest.raises(OperationalError, match="PRAVEGA_WRITE_CONFLICT"):
            ann.execute("CALL pravega.system.commit()")
        assert ask(bob, f"SELECT sum(balance) FROM {tables[0]}") == ["21"]
        with thrift.connect("carl") as third, third.cursor() as carl:
            carl.execute("CALL pravega.system.begin()")
            carl.execute(f"INSERT INTO {tables[1]} VALUES (9, 9)")
        assert counts(bob) == ["accounts\t2", "transfers\t1"]


def test_a_cancelled_statement_gives_back_what_it_shares(thrift: ThriftServer) -> None:
    """In the middle of a batch in shared memory: its client cancels it, or closes it."""
    # A process that the JVM is just starting still has the JVM's command line.
    java = min(pid for pid, command in descendants(thrift.process.pid).items() if "SparkSubmit" in command)
    with thrift.connect("ann") as connection, connection.cursor() as cursor:
        for statement in (
            "CREATE NAMESPACE pravega.cancelled",
            "CREATE TABLE pravega.cancelled.t AS SELECT id, repeat('x', 500) AS s FROM range(6000)",
        ):
            cursor.execute(statement)
        sleep = "java_method('java.lang.Thread', 'sleep', CAST(10 AS BIGINT)) AS slept"
        slow = f"SELECT count(slept), sum(length(s)) FROM (SELECT s, {sleep} FROM pravega.cancelled.t)"
        for end in ("cancel", "close"):
            running = connection.cursor()
            running.execute(slow, async_=True)
            eventually(lambda: mapped(java))
            getattr(running, end)()
            eventually(lambda: not mapped(java) and not opened(java))
            assert ask(cursor, "SELECT count(*), sum(length(s)) FROM pravega.cancelled.t") == ["6000\t3000000"]


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
        [needed("beeline").program("beeline"), "-u", thrift.url, "-n", "ann", *flags, "-e", statements],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    assert beeline.stdout.splitlines()[-2:] == ["1\tone", "2\tNULL"]
    assert "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere`.`t` cannot be found" in beeline.stderr
    assert beeline.stderr.count("TABLE_OR_VIEW_NOT_FOUND") == 1
    assert "\tat " not in beeline.stderr
    assert beeline.returncode != 0


TREE = [
    "CREATE NAMESPACE bi",
    "CREATE NAMESPACE bi_2",
    "CREATE TABLE bi.orders (id BIGINT NOT NULL COMMENT 'its number', price DECIMAL(10,2), code VARCHAR(5), "
    "tags ARRAY<STRING>) COMMENT 'all orders' CLUSTERED BY (id) INTO 2 BUCKETS",
    "CREATE TABLE bi_2.orders (id INT)",
    "CREATE VIEW bi.large COMMENT 'dear ones' AS SELECT id, price FROM bi.orders WHERE price > 5",
    "CREATE TABLE spark_catalog.default.elsewhere (n DOUBLE) USING parquet",
    "CREATE TEMPORARY VIEW mine AS SELECT 1 AS one",
    "CREATE NAMESPACE my_keys",
    "CREATE TABLE my_keys.my_pairs (a INT NOT NULL, v INT, b STRING NOT NULL) TBLPROPERTIES ('primary-key' = 'a, b')",
]
ORDERS = "pravega bi orders TABLE all orders"
ORDERS_2 = "pravega bi_2 orders TABLE"
LARGE = "pravega bi large VIEW dear ones"
ASKED = {
    "getCatalogs": ["pravega", "spark_catalog"],
    "getTableTypes": ["TABLE", "VIEW"],
    "getSchemas|null|bi%": ["bi pravega", "bi_2 pravega"],
    "getSchemas|pravega|bi\\_2": ["bi_2 pravega"],
    "getSchemas|spark_catalog|null": ["default spark_catalog"],
    "getSchemas|nowhere|null": [],
    "getTables|null|bi%|%|null": [ORDERS, LARGE, ORDERS_2],
    "getTables||bi%|%|TABLE,VIEW": [ORDERS, LARGE, ORDERS_2],
    "getTables|pravega|bi|%|null": [ORDERS, LARGE],
    "getTables|pravega|bi__|%|null": [ORDERS_2],
    "getTables|pravega|bi|ORD%|TABLE": [ORDERS],
    "getTables|null|bi|%|VIEW": [LARGE],
    "getTables|null|bi|%|SYSTEM TABLE": [],
    # Hive's driver keeps the catalog of this one to itself.
    "getTables|nowhere|bi|%|null": [ORDERS, LARGE],
    "getColumns|nowhere|bi|%|null": [],
    "getTables|null|null|elsewhere|null": ["spark_catalog default elsewhere TABLE"],
    "getTables|||mine|null": ["mine VIEW"],
    "getColumns|null|bi|orders|%": [
        f"pravega bi orders id {BIGINT} BIGINT 19 0 10 0 its number 1 NO NO",
        f"pravega bi orders price {DECIMAL} DECIMAL(10,2) 10 2 10 1 2 YES NO",
        f"pravega bi orders code {VARCHAR} VARCHAR(5) 5 1 3 YES NO",
        f"pravega bi orders tags {ARRAY} ARRAY<STRING> 1 4 YES NO",
    ],
    "getColumns|pravega|bi%|%|i_": [
        f"pravega bi orders id {BIGINT} BIGINT 19 0 10 0 its number 1 NO NO",
        f"pravega bi large id {BIGINT} BIGINT 19 0 10 0 its number 1 NO NO",
        f"pravega bi_2 orders id {INTEGER} INT 10 0 10 1 1 YES NO",
    ],
    "getColumns|null|null|elsewhere|null": [f"spark_catalog default elsewhere n {DOUBLE} DOUBLE 15 15 10 1 1 YES NO"],
    "getColumns|null|null|mine|null": [f"mine one {INTEGER} INT 10 0 10 0 1 NO NO"],
    "getPrimaryKeys|null|bi|orders": [],
    "getPrimaryKeys|pravega|my_keys|my_pairs": [
        "pravega my_keys my_pairs a 1 my_pairs_pk",
        "pravega my_keys my_pairs b 2 my_pairs_pk",
    ],
    "getImportedKeys|null|bi|orders": [],
    "getCrossReference|my_keys|my_pairs|bi|orders": [],
}
if is_missing("4.2"):
    TREE = [statement for statement in TREE if "CREATE VIEW" not in statement]
    ASKED = {call: [line for line in lines if " bi large " not in f" {line} "] for call, lines in ASKED.items()}


def test_jdbc_sees_the_tree(thrift: ThriftServer) -> None:
    """What BI tools show at their side: catalogs, namespaces, tables, views and columns."""
    asked = list(ASKED)
    drops = [
        "DROP NAMESPACE my_keys CASCADE",
        "DROP NAMESPACE bi CASCADE",
        "DROP NAMESPACE bi_2 CASCADE",
        "DROP TABLE spark_catalog.default.elsewhere",
    ]
    jars = Path(pyspark.__file__).parent / "jars"
    java = subprocess.run(
        [str(places.java()), "-cp", f"{jars}/*", str(Path(__file__).parent / "Metadata.java"), thrift.url],
        input="\n".join([*TREE, *(call.replace("|", "\t") for call in asked), *drops]),
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    assert java.returncode == 0, java.stderr[-5000:]
    print(java.stderr)
    answers = [answer.splitlines() for answer in java.stdout.split(";\n")]
    of_statements, of_questions = answers[: len(TREE)], answers[len(TREE) : len(TREE) + len(asked)]
    assert [answer for answer in of_statements if answer] == []
    assert dict(zip(asked, of_questions, strict=True)) == ASKED


def test_an_error_reaches_the_client(thrift: ThriftServer) -> None:
    with thrift.connect("ann") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE NAMESPACE wrong")
        cursor.execute("CREATE TABLE wrong.t (id INT)")
        with pytest.raises(OperationalError) as error:
            cursor.execute("DELETE FROM wrong.t WHERE id = 1")
        status = error.value.args[0].status
        told = (
            "Error running query: [PRAVEGA_UNSUPPORTED_OPERATION] "
            'DELETE isn\'t possible on stream "wrong/t": events are only ever appended'
        )
        assert status.errorMessage.startswith(told)
        assert status.sqlState == "0A000"
        assert "PRAVEGA_UNSUPPORTED_OPERATION" not in status.errorMessage.removeprefix(told)
        # Of a statement in the background the client asks for the error; one of Spark's, with its text in lines.
        for statement, words in (
            ("DELETE FROM wrong.t WHERE id = 1", told),
            ("SELEC 1", "Error running query: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'"),
            ("SELECT raise_error('x')", "Error running query: [USER_RAISED_EXCEPTION] x SQLSTATE: P0001"),
        ):
            cursor.execute(statement, async_=True)
            asked = eventually(lambda: cursor.poll().errorMessage)
            message = str(asked).removeprefix("org.apache.hive.service.cli.HiveSQLException: ")
            assert message.startswith(words)
            assert "\tat " not in message
            assert "Caused by" not in message
            assert message.count(words.partition("[")[2].partition("]")[0]) == 1
        cursor.execute("DROP NAMESPACE wrong CASCADE")
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
