"""CALL copy: versions of a table into another one, once, whatever dies meanwhile; compared with a Python dict."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from entry_tools import descendants
from procedure_driver import DeathError, Driver
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from streaming_tools import scope_of

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.connector.log import create_ledger
from pyspark_pravega.errors import DataLossError, TableChangedError

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn(8)]


def call(spark: SparkSession, source: str, target: str, name: str, **others: str | int) -> Row:
    """A CALL, with tables named within the catalog."""
    arguments = {"source": within(source), "target": within(target), "name": name, **others}
    texts = [f"{key} => {value if isinstance(value, int) else repr(value)}" for key, value in arguments.items()]
    (row,) = spark.sql(f"CALL pravega.system.copy({', '.join(texts)})").collect()
    return row


def within(table: str) -> str:
    return table.removeprefix("pravega.")


@contextmanager
def dying_catalog(spark: SparkSession) -> Iterator[list[int]]:
    """Its catalog processes are killed again and again meanwhile; gives a list of those."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    ended, killed = threading.Event(), list[int]()

    def run() -> None:
        wait = 0.2
        while len(killed) < 6 and not ended.wait(wait):
            wait = wait * 1.3 if wait < 3 else 0.3
            for pid, command in descendants(gateway.proc.pid).items():
                if "catalog.process.service" in command:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def test_a_copy_that_is_killed_goes_on_and_ends_once(spark: SparkSession, namespace: str) -> None:
    """With a condition, over a scale, beside writers of both tables; with its catalog process killed all the time."""
    source, target = f"{namespace}.source", f"{namespace}.target"
    spark.sql(f"CREATE TABLE {source} (id BIGINT, price INT) CLUSTERED BY (id) INTO 3 BUCKETS")
    spark.sql(
        f"CREATE TABLE {target} (price BIGINT, id BIGINT NOT NULL, note STRING DEFAULT 'copied') "
        "CLUSTERED BY (price) INTO 2 BUCKETS TBLPROPERTIES ('format' = 'json', 'writer-mode' = 'at-least-once')"
    )
    versions: dict[int, range] = {}
    for version in range(1, 8):
        versions[version] = range(100 * version, 100 * version + 40)
        spark.sql(
            f"INSERT INTO {source} SELECT id, id % 20 FROM range({versions[version].start}, {versions[version].stop})"
        )
        if version == 4:
            spark.sql(f"CALL pravega.system.scale('{within(source)}', 2)")
    arguments: dict[str, Any] = {
        "from_version": 3,
        "to_version": 6,
        "where": "price > 10 -- cheap ones stay",
        "bytes_per_commit": "1000",
    }
    failures: list[str] = []
    with dying_catalog(spark) as killed:
        while True:
            try:
                done = call(spark, source, target, "prices", **arguments)
                break
            except (PySparkException, Py4JJavaError) as error:
                failures.append(str(error))
                # Spark 4.0 has a word of its own for a procedure that it couldn't look up.
                assert re.search(r"\[(PRAVEGA_CATALOG_PROCESS_FAILED|FAILED_TO_LOAD_ROUTINE)\]", failures[-1])
                with suppress(PySparkException, Py4JJavaError):
                    spark.sql(f"INSERT INTO {source} VALUES (-1, 100)")
                    spark.sql(f"INSERT INTO {target} VALUES (0, -2, 'of another writer')")
    assert killed
    assert failures
    expected = Counter(id for version in range(3, 7) for id in versions[version] if id % 20 > 10)
    rows = [row for row in spark.table(target).collect() if row.id != -2]
    assert Counter(row.id for row in rows) == expected
    assert all(row.price == row.id % 20 and row.note == "copied" for row in rows)
    assert (done.rows, done.from_version, done.to_version, done.repeated) == (sum(expected.values()), "3", "6", False)
    commits = spark.sql(f"SELECT version, rows FROM {within_ticks(target, 'commits')}").collect()
    assert done.commits == 4
    assert done.version in {row.version for row in commits}
    (told,) = spark.sql(f"SELECT * FROM {within_ticks(target, 'copies')}").collect()
    assert (told.name, told.rows, told.version, told.done_at is None) == ("prices", done.rows, done.version, False)
    again = call(spark, source, target, "prices", **arguments)
    assert again.asDict() == {**done.asDict(), "repeated": True}
    assert spark.table(target).where("id <> -2").count() == len(rows)
    spark.sql(f"CREATE TABLE {source}2 AS SELECT * FROM {source} LIMIT 0")
    for other in ({"where": "price > 11"}, {"from_version": 2}, {"source": f"{within(source)}2"}):
        with pytest.raises(PySparkException, match=r'copy "prices" into stream .* was begun with'):
            spark_call(
                spark, {"source": within(source), "target": within(target), "name": "prices", **arguments, **other}
            )


def spark_call(spark: SparkSession, arguments: dict[str, Any]) -> None:
    call(spark, arguments.pop("source"), arguments.pop("target"), arguments.pop("name"), **arguments)


def within_ticks(table: str, kind: str) -> str:
    return f"{table.rpartition('.')[0]}.`{table.rpartition('.')[2]}${kind}`"


def test_a_copy_may_die_at_each_step(
    spark: SparkSession, catalog: Catalog, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and behind each statement and each note in the log; then it is called anew. One piece has no rows."""
    source, target = f"{namespace}.source", f"{namespace}.target"
    spark.sql(f"CREATE TABLE {source} (id INT, name STRING) CLUSTERED BY (id) INTO 2 BUCKETS")
    spark.sql(f"CREATE TABLE {target} (id BIGINT, name STRING) TBLPROPERTIES ('format' = 'protobuf')")
    for first in (0, 10):
        spark.sql(f"INSERT INTO {source} SELECT id, 'n' || id FROM range({first}, {first + 10})")
    driver, expected, deaths = Driver(spark, catalog, "copy", monkeypatch), Counter[int](), 0
    for steps in range(40):
        arguments = [within(source), within(target), f"dies-{steps}", None, None, "id >= 10", "100"]
        try:
            row = driver.run(arguments, steps=steps)
        except DeathError:
            deaths += 1
            row = driver.run(arguments, steps=100)
        expected.update(range(10, 20))
        assert row[4:6] == [1, 10], steps
        if deaths <= steps:
            break
    assert deaths >= 10
    assert Counter(row.id for row in spark.table(target).collect()) == expected
    spark.sql(f"CREATE TABLE {namespace}.empty (id INT, name STRING)")
    assert [call(spark, f"{namespace}.empty", target, "nothing").repeated for _ in range(2)] == [False, True]
    # Two calls of one name at once.
    spark.sql(f"INSERT INTO {source} SELECT id, 'n' || id FROM range(20, 30)")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(call, spark, source, target, "both", bytes_per_commit="1") for _ in range(2)]
        assert {(one.result().commits, one.result().rows) for one in both} == {(3, 30)}
    expected.update(range(30))
    assert Counter(row.id for row in spark.table(target).collect()) == expected

    # What is gone, or another table, when it goes on.
    for name in ("truncated", "dropped"):
        with pytest.raises(DeathError):
            driver.run([within(source), within(target), name, "1", "3", None, "1"], steps=6)
    spark.sql(f"CALL pravega.system.truncate('{within(source)}', '3')")
    with pytest.raises(DataLossError, match=r"can't go on: version 2, or one before it, of .* up to version 1\. Take"):
        driver.run([within(source), within(target), "truncated", "1", "3", None, "1"], steps=100)
    spark.sql(f"DROP TABLE {source}")
    spark.sql(f"CREATE TABLE {source} (id INT, name STRING)")
    with pytest.raises(TableChangedError, match=r"was dropped and made again after copy .* up to version 1; take"):
        driver.run([within(source), within(target), "dropped", "1", "3", None, "1"], steps=100)


def test_what_is_copied_into_a_table_with_a_key_is_its_last_row(
    spark: SparkSession, client: Client, namespace: str
) -> None:
    """Of sources with and without its routing key; over a scale; and of a table with a key, as of a version."""

    def copied(name: str, routing: str) -> dict[int, int]:
        source, target = f"{namespace}.{name}", f"{namespace}.{name}_rows"
        spark.sql(f"CREATE TABLE {source} (id BIGINT, v BIGINT) {routing}")
        if not routing:
            spark.sql(f"ALTER TABLE {source} SET TBLPROPERTIES ('segments' = '3')")
        spark.sql(f"CREATE TABLE {target} (id BIGINT NOT NULL, v BIGINT) TBLPROPERTIES ('primary-key' = 'id')")
        rows: dict[int, int] = {}
        for version in range(6):
            spark.sql(f"INSERT INTO {source} SELECT id * {version % 3 + 1}, {version} FROM range(30)")
            rows |= {id * (version % 3 + 1): version for id in range(30)}
            if version == 3:
                spark.sql(f"CALL pravega.system.scale('{within(source)}', 4)")
        done = call(spark, source, target, "all")
        assert done.rows == 6 * 30
        # Where tasks can't keep the order of a key's rows, versions are copied one by one.
        assert done.commits == 6 if not routing else 1 < done.commits < 6
        assert {row.id: row.v for row in spark.table(target).collect()} == rows, name
        return rows

    with ThreadPoolExecutor(2) as threads:
        routings = {"routed": "CLUSTERED BY (id) INTO 2 BUCKETS", "scattered": ""}
        *_, rows = threads.map(copied, routings, routings.values())
    target = f"{namespace}.scattered_rows"
    spark.sql(f"DELETE FROM {target} WHERE id < 10")
    spark.sql(f"CALL pravega.system.compact('{within(target)}')")
    spark.sql(f"CREATE TABLE {namespace}.snapshot (id BIGINT NOT NULL, v BIGINT) TBLPROPERTIES ('primary-key' = 'id')")
    call(spark, target, f"{namespace}.snapshot", "as of now")
    assert {row.id: row.v for row in spark.table(f"{namespace}.snapshot").collect()} == {
        id: v for id, v in rows.items() if id >= 10
    }
    with pytest.raises(PySparkException, match="has a primary key, so its versions change rows: leave from_version"):
        call(spark, target, f"{namespace}.snapshot", "part", from_version=2)


def test_streams_of_others_are_copied_by_bytes(spark: SparkSession, client: Client, namespace: str) -> None:
    """A stream without a commit log and without a schema, scaled meanwhile, from cut to cut."""
    stream = Stream(scope_of(namespace), "clicks")
    client.controller.create_stream(stream, StreamConfiguration())
    numbers = iter(range(10_000))

    def write(count: int) -> list[str]:
        events = [f"event {next(numbers)}" for _ in range(count)]
        with client.writer(stream) as writer:
            writer.write_batch([event.encode() for event in events], events)
        return events

    write(50)
    begin = client.tail(stream)
    expected = write(200)
    spark.sql(f"CALL pravega.system.scale('{scope_of(namespace)}.clicks', 3)")
    expected += write(200)
    end = client.tail(stream)
    write(50)
    target = f"{namespace}.copied"
    spark.sql(f"CREATE TABLE {target} (event STRING) TBLPROPERTIES ('format' = 'string')")
    with pytest.raises(PySparkException, match='column "event" is binary in stream'):
        call(spark, f"{namespace}.clicks", target, "clicks")
    spark.sql(f"CREATE TABLE {target}_raw (event BINARY) TBLPROPERTIES ('format' = 'raw')")
    cuts = {"from_version": begin.to_json(), "to_version": end.to_json()}
    done = call(spark, f"{namespace}.clicks", f"{target}_raw", "clicks", **cuts, bytes_per_commit="2 KiB")
    assert done.rows == 400
    assert done.commits > 3
    copied = [bytes(row.event).decode() for row in spark.table(f"{target}_raw").collect()]
    assert Counter(copied) == Counter(expected)
    done = call(spark, f"{namespace}.clicks", f"{target}_raw", "all")
    assert done.rows == 500


def test_what_can_not_be_copied_is_told_before_anything_begins(
    spark: SparkSession, client: Client, namespace: str
) -> None:
    source, target = f"{namespace}.source", f"{namespace}.target"
    for table in (source, target):
        spark.sql(f"CREATE TABLE {table} (id BIGINT, price DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRUCT<a: INT>>)")
    for _ in range(3):
        spark.sql(f"INSERT INTO {source} VALUES (1, 2.50, now(), NULL)")
    narrow = {
        "id": "id INT, price DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRUCT<a: INT>>",
        "price": "id BIGINT, price DECIMAL(10,1), at TIMESTAMP, tags ARRAY<STRUCT<a: INT>>",
        "at": "id BIGINT, price DECIMAL(10,2), at DATE, tags ARRAY<STRUCT<a: INT>>",
        "tags": "id BIGINT, price DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRUCT<a: SMALLINT>>",
    }

    def refuse(column: str) -> None:
        spark.sql(f"CREATE TABLE {namespace}.narrow_{column} ({narrow[column]})")
        with pytest.raises(PySparkException, match=rf'column "{column}" is .* which doesn\'t hold all its values'):
            call(spark, source, f"{namespace}.narrow_{column}", "c")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(refuse, narrow))
    spark.sql(f"CREATE TABLE {namespace}.fewer (id BIGINT)")
    refused: list[tuple[str, dict[str, Any]]] = [
        ("can't be copied into itself", {"target": source}),
        ("does not exist", {"target": f"{namespace}.nothing"}),
        ("does not exist", {"source": f"{namespace}.nothing"}),
        ('has no column "price"', {"target": f"{namespace}.fewer"}),
        ("has no version 9: its versions are 1 to 3", {"from_version": 9}),
        ("comes before version 3", {"from_version": 3, "to_version": 2}),
        ("has no version 9", {"to_version": 9}),
        ('has no version "never"', {"to_version": "never"}),
        ("UNRESOLVED_COLUMN", {"where": "prize > 10"}),
        ("PARSE_SYNTAX_ERROR", {"where": "price > 10) OR (1 = 1"}),
        ("PARSE_SYNTAX_ERROR", {"where": "price >"}),
        ("PARSE_SYNTAX_ERROR", {"where": "true; DROP TABLE x"}),
        ("DATATYPE_MISMATCH", {"where": "id + 1"}),
        ("can't be the name of a copy", {"name": "it's"}),
        ("bytes_per_commit", {"bytes_per_commit": "many"}),
    ]

    def refuse_call(words: str, arguments: dict[str, Any]) -> None:
        with pytest.raises(PySparkException, match=words):
            spark_call(spark, {"source": source, "target": target, "name": "c", **arguments})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(refuse_call, *zip(*refused, strict=True)))
    log = create_ledger(client, Stream(scope_of(namespace), "target"))
    assert not list(log.copies().all())
    assert not log.state().version

    # What retention takes is told, before and in between.
    spark.sql(f"CALL pravega.system.truncate('{within(source)}', '2')")
    with pytest.raises(PySparkException, match=r"a part of version 2 of stream .* was truncated away"):
        call(spark, source, target, "c", from_version=2)
    with pytest.raises(PySparkException, match=r"version 1 of stream .* was truncated away"):
        call(spark, source, target, "c", to_version=1)
    assert call(spark, source, target, "what is there").rows == 1
    spark.sql(f"INSERT OVERWRITE {source} SELECT id, price, at, tags FROM {source} LIMIT 1")
    with pytest.raises(PySparkException, match=r"version 3 of stream .* is gone: version 4 took the place"):
        call(spark, source, target, "c", from_version=3)
    assert call(spark, source, target, "overwritten", from_version=4).rows == 1
    assert spark.table(target).count() == 2
