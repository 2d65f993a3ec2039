"""One Python process serves all catalogs of a JVM; its death loses nothing but the running call."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from entry_tools import descendants
from pyspark import TaskContext
from pyspark.sql import SparkSession
from server_tools import FORMAT_CLASSES
from spark_tools import MEASURED, catalog_processes
from streaming_tools import OWN_DAEMON, kill_workers, parent_of, scope_of, workers_of
from transactions import open_transactions
from waiting import eventually

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.log.entry_keys import FIRST_JOB
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.write import WriteJob, WritePlan
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import DEFAULT_TIMEOUT_S

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn(8)]


@contextmanager
def soon_ended(spark: SparkSession, namespace: str) -> Iterator[None]:
    """Catalog processes that nobody asks end after a second; behind the block there is the session's only."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.java.lang.System.setProperty("pyspark.pravega.catalog-idle-s", "1")
    try:
        yield
    finally:
        spark.sql(f"SHOW TABLES IN {namespace}").collect()
        eventually(lambda: len(catalog_processes()) == 1)
        jvm.java.lang.System.clearProperty("pyspark.pravega.catalog-idle-s")


@pytest.fixture(autouse=True)
def _one_process(spark: SparkSession, namespace: str) -> None:
    """Tests before these may have asked catalogs of other configurations."""
    if len(catalog_processes()) > 1:
        with soon_ended(spark, namespace):
            pass


def kill_catalog_process() -> None:
    victims = catalog_processes()
    assert len(victims) == 1
    (victim,) = victims
    os.kill(victim, signal.SIGKILL)
    eventually(partial(gone, victim))


def halting(folder: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Each task tells by a file that it has begun, hands rows on, and ends when there is a file `on`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        (folder / str(context.partitionId())).touch()
        while not (folder / "on").exists():
            time.sleep(0.05)

    return run


def test_a_hundred_catalogs_share_one_process(spark: SparkSession, sandbox: Sandbox) -> None:
    def ask(number: int) -> int:
        session = spark.newSession()
        prefix = f"spark.sql.catalog.shared_{number}"
        session.conf.set(prefix, "pyspark.pravega.PravegaCatalog")
        session.conf.set(f"{prefix}.controller-uri", sandbox.controller_uri)
        session.conf.set(f"{prefix}.schema-registry-uri", sandbox.schema_registry_uri)
        session.conf.set(f"{prefix}.timeout", repr(DEFAULT_TIMEOUT_S))
        session.conf.set(f"{prefix}.format-classes", FORMAT_CLASSES)
        # To count them would be a query of Spark's.
        return len(session.sql(f"SHOW NAMESPACES IN shared_{number}").collect())

    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(ask, range(100)))

    assert len(set(counts)) == 1
    assert len(catalog_processes()) == 1


def test_the_next_statement_works_after_the_process_was_killed(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.before_the_kill AS SELECT 1 AS id")
    kill_catalog_process()

    assert spark.sql(f"SELECT * FROM {namespace}.before_the_kill").collect() == [(1,)]
    assert len(catalog_processes()) == 1


def test_a_process_that_never_starts_is_given_up(spark: SparkSession, tmp_path: Path) -> None:
    """And so is one that says something else than answers."""
    jvm = spark._jvm
    assert jvm is not None
    limit, python = "pyspark.pravega.catalog-start-s", "spark.pyspark.python"
    configuration = spark.sparkContext._jsc.sc().conf()
    before = configuration.get(python, "")
    outcomes = {
        "silent": ("exec sleep 3000", "said nothing within 2 s of its start"),
        "babbling": ("echo '{}'; exec sleep 3000", "the catalog process ended while it was asked"),
    }
    jvm.java.lang.System.setProperty(limit, "2")
    try:
        for name, (command, expected) in outcomes.items():
            script = tmp_path / name
            script.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/{name}.pid\n{command}\n")
            script.chmod(0o755)
            configuration.set(python, str(script))
            spark.conf.set(f"spark.sql.catalog.{name}", "pyspark.pravega.PravegaCatalog")
            with pytest.raises(Exception, match="PRAVEGA_CATALOG_PROCESS_FAILED") as raised:
                spark.sql(f"SHOW NAMESPACES IN {name}").collect()
            assert expected in str(raised.value)
            pid = int((tmp_path / f"{name}.pid").read_text())
            eventually(lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]
    finally:
        jvm.java.lang.System.clearProperty(limit)
        if before:
            configuration.set(python, before)
        else:
            configuration.remove(python)


def test_a_token_that_is_renewed_leaves_no_process_behind(
    spark: SparkSession, sandbox: Sandbox, namespace: str, tmp_path: Path
) -> None:
    """Each token is another configuration. A process goes when nobody has asked it for long, not while a write that it
    began is under way, and comes back for whoever asks."""
    spark.sql(f"CREATE TABLE {namespace}.written (id BIGINT)")
    scope = namespace.removeprefix("pravega.")
    sessions = [spark.newSession() for _ in range(4)]
    for number, session in enumerate(sessions):
        session.conf.set("spark.sql.catalog.renewed", "pyspark.pravega.PravegaCatalog")
        session.conf.set("spark.sql.catalog.renewed.controller-uri", sandbox.controller_uri)
        session.conf.set("spark.sql.catalog.renewed.schema-registry-uri", sandbox.schema_registry_uri)
        session.conf.set("spark.sql.catalog.renewed.auth-token", f"token-{number}")
    before = set(catalog_processes())
    with soon_ended(spark, namespace):
        try:
            rows = sessions[0].range(4, numPartitions=1).mapInArrow(halting(tmp_path), "id bigint")
            with ThreadPoolExecutor(1) as threads:
                write = threads.submit(rows.writeTo(f"renewed.{scope}.written").append)
                eventually(lambda: (tmp_path / "0").exists())
                (writing,) = set(catalog_processes()) - before
                for session in sessions[1:]:
                    session.sql(f"SHOW TABLES IN renewed.{scope}").collect()
                eventually(lambda: len(catalog_processes()) == 2)
                assert writing in catalog_processes()
                (tmp_path / "on").touch()
                write.result()
            for session in sessions:
                assert session.table(f"renewed.{scope}.written").count() == 4
        finally:
            (tmp_path / "on").touch()


def test_statements_that_only_ask_outlive_the_process(spark: SparkSession, namespace: str) -> None:
    """Whenever the process is killed while they ask, it is asked again."""
    table = f"{namespace}.asked"
    spark.sql(f"CREATE TABLE {table} AS SELECT id FROM range(10)")
    statements = {
        f"SELECT count(*), sum(id) FROM {table}": [(10, 45)],
        f"SELECT count(*) FROM {namespace}.`asked$commits`": [(1,)],
        f"SELECT version FROM {namespace}.`asked$commits` ORDER BY version DESC LIMIT 3": [(1,)],
        f"SHOW TABLES IN {namespace} LIKE 'asked'": [(namespace.removeprefix("pravega."), "asked", False)],
        f"SELECT sum(id) FROM {table} VERSION AS OF 1": [(45,)],
    }
    begun = time.monotonic()
    for statement, answer in statements.items():
        assert spark.sql(statement).collect() == answer
    step_s = (time.monotonic() - begun) / len(statements)
    for moment in range(6):
        with ThreadPoolExecutor(1) as thread:
            answers = thread.submit(lambda: [spark.sql(statement).collect() for statement in statements])
            time.sleep(moment * step_s)
            kill_catalog_process()
            assert answers.result() == list(statements.values())


def test_an_insert_survives_the_process_that_began_it(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    table = f"{namespace}.survivor"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS")
    rows = spark.range(0, 4_000, 1, 4).mapInArrow(halting(tmp_path), "id BIGINT")

    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(rows.writeTo(table).append)
        eventually(lambda: writing.done() or len(list(tmp_path.iterdir())) == 4)
        try:
            kill_catalog_process()
        finally:
            (tmp_path / "on").touch()
        writing.result()

    assert spark.sql(f"SELECT count(*), count(DISTINCT id) FROM {table}").first() == (4_000, 4_000)
    stream = Stream(namespace.removeprefix("pravega.").replace("_", "-"), "survivor")
    assert open_transactions(client, stream) == []


_OTHERS = 20
_REPEATED = {
    "INSERT OVERWRITE {} VALUES (10, 10), (11, 11)": {10: 10, 11: 11},
    "UPDATE {} SET v = v + 1 WHERE id = 1": {1: 2, 2: 2},
    "CREATE OR REPLACE TABLE {} AS SELECT id, v FROM VALUES (10L, 10L) AS x(id, v)": {10: 10},
}
"""Statements on a table with the rows (1, 1) and (2, 2), and what is there then."""


@pytest.mark.parametrize("statement", _REPEATED)
def test_a_commit_is_asked_for_again_though_others_have_committed_since(
    spark: SparkSession, catalog: Catalog, namespace: str, statement: str
) -> None:
    """The process is halted when the version is there and the answer isn't, and ends when others have committed."""
    table, stream = f"{namespace}.again", Stream(scope_of(namespace), "again")
    key = "TBLPROPERTIES ('primary-key' = 'id')" if statement.startswith("UPDATE") else ""
    for _ in range(20):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
        spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, v BIGINT) {key}")
        spark.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
        ledger = open_ledger(catalog.client, stream)
        assert ledger is not None
        before = ledger.state().version
        (process,) = catalog_processes()
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(spark.sql, statement.format(table))
            while ledger.state().version == before and not running.done():
                pass
            os.kill(process, signal.SIGSTOP)
            try:
                plan = WritePlan.of(catalog.definition(stream, age_s=0), WriteOptions(transaction_timeout_ms=60_000))
                for number in range(_OTHERS):
                    commit_row(plan, 1000 + number)
                was_answered = running.done()
            finally:
                os.kill(process, signal.SIGKILL)
            running.result()
        if not was_answered:
            break
    else:
        pytest.fail("the process has never been halted before its answer: the test proves nothing")
    expected = _REPEATED[statement] | {1000 + number: 0 for number in range(_OTHERS)}
    assert {row.id: row.v for row in spark.table(table).collect()} == expected
    assert spark.table(table).count() == len(expected)
    assert ledger.state().version == before + 1 + _OTHERS
    # The JVM has the answer: nothing stays that tells of the job, or of others.
    eventually(lambda: not list(ledger._table.iterate(start=FIRST_JOB)))


def commit_row(plan: WritePlan, id: int) -> None:
    """Commit a row as another program does."""
    job = WriteJob(plan)
    job.commit_job([job.write_partition(0, iter([pa.record_batch({"id": pa.array([id]), "v": pa.array([0])})]))])
    job.forget_commit()


@pytest.mark.skipif(MEASURED, reason="coverage is measured by a daemon of its own")
def test_workers_come_from_a_daemon_of_their_own(spark: SparkSession, namespace: str) -> None:
    """It has loaded what they need. Functions of others keep Spark's daemon."""
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT)")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1)")

    def commands(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
            yield pa.record_batch({"parent": [parent] * batch.num_rows})

    (row,) = spark.table(f"{namespace}.t").mapInArrow(commands, "parent STRING").collect()
    assert "\0pyspark.daemon\0" in row.parent
    assert own_daemons(spark)


@pytest.mark.skipif(MEASURED, reason="coverage is measured by a daemon of its own")
def test_a_worker_s_first_tasks_load_nothing(spark: SparkSession, namespace: str) -> None:
    """Pandas, which pyarrow loads where it is installed, took most of a worker's first task."""
    table = f"{namespace}.loaded"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, day DATE, parts ARRAY<STRING>) CLUSTERED BY (day) INTO 2 BUCKETS")
    kill_workers(spark)
    spark.sql(f"INSERT INTO {table} SELECT id, DATE'2026-11-27', array('a', NULL) FROM range(4)")
    assert spark.table(table).where("id > 1 AND day IS NOT NULL").count() == 2
    workers = workers_of(spark)
    assert workers
    for worker in workers:
        daemon = parent_of(worker)
        assert libraries(worker) - libraries(daemon) == set()


def libraries(pid: int) -> set[str]:
    """The native libraries that a process has loaded."""
    files = {line.split()[-1] for line in Path(f"/proc/{pid}/maps").read_text().splitlines()}
    return {file for file in files if ".so" in Path(file).name}


@pytest.mark.skipif(MEASURED, reason="coverage is measured by a daemon of its own")
def test_a_killed_daemon_is_replaced_by_one_that_has_loaded_this_package(spark: SparkSession, namespace: str) -> None:
    """Spark notices that its daemon is gone only when it asks that for a worker, or tells it of one that has ended."""
    spark.sql(f"CREATE TABLE {namespace}.t (n BIGINT) TBLPROPERTIES ('segments' = '2')")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1), (2)")
    assert spark.sql(f"SELECT * FROM {namespace}.t").count() == 2
    for _ in range(2):
        killed = own_daemons(spark)
        assert killed
        for pid in killed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in killed:
            eventually(partial(gone, pid))
        assert {row.n for row in spark.sql(f"SELECT * FROM {namespace}.t").collect()} == {1, 2}
        assert own_daemons(spark)


@pytest.mark.skipif(MEASURED, reason="coverage is measured by a daemon of its own")
def test_small_messages_to_and_from_workers_are_sent_at_once(spark: SparkSession, namespace: str) -> None:
    """Else Linux holds a second small one back until the first is acknowledged, which takes the other side 40 ms."""
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT)")
    for statement in (f"INSERT INTO {namespace}.t VALUES (1)", f"SELECT * FROM {namespace}.t"):
        spark.sql(statement).collect()
        waiting = workers_at_rest(spark)
        assert waiting
        assert all(worker.channel().getOption(no_delay(spark)) for worker in waiting)


def workers_at_rest(spark: SparkSession) -> list[Any]:
    """Spark's ends of the connections to workers of this package's daemon that wait for a task."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None

    def private(kind: str, field: str, owner: Any) -> Any:
        found = jvm.java.lang.Class.forName(f"org.apache.spark.{kind}").getDeclaredField(field)
        found.setAccessible(True)
        return found.get(owner)

    # Py4J can't look into SparkEnv: its methods name classes that aren't there.
    environment = private("SparkContext", "_env", spark.sparkContext._jsc.sc())
    factories = private("SparkEnv", "pythonWorkers", environment).values().toSeq()
    to_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
    workers = []
    for factory in to_java(factories):
        if private("api.python.PythonWorkerFactory", "daemonModule", factory) == OWN_DAEMON:
            workers.extend(to_java(factory.idleWorkers().toSeq()))
    return workers


def no_delay(spark: SparkSession) -> Any:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return jvm.java.net.StandardSocketOptions.TCP_NODELAY


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def own_daemons(spark: SparkSession) -> set[int]:
    """The daemons of this package and the workers that they have forked."""
    jvm = spark.sparkContext._gateway
    assert jvm is not None
    return {pid for pid, command in descendants(jvm.proc.pid).items() if OWN_DAEMON in command}
