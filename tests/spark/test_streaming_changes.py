"""CHANGES by the DataFrame API, above all as a streaming source: each micro-batch is of whole versions, in order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from changes_tools import changes_by
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from streaming_tools import TIMEOUT_S, Batches, run_available, scope_of, start
from waiting import eventually

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]

COLUMNS = ["id", "_change_type", "_commit_version"]


@pytest.fixture(scope="module")
def kept(spark: SparkSession, module_scope: str) -> str:
    """A table that no test changes; see `fill`."""
    return fill(spark, f"pravega.{module_scope.replace('-', '_')}")


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """A table of the test's own; see `fill`."""
    return fill(spark, namespace)


def fill(spark: SparkSession, namespace: str) -> str:
    """Make a table of four versions, the last one after a scale: ids 0 and 1, 10, 20 to 22, 30."""
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    insert(spark, name, 0, 1)
    insert(spark, name, 10)
    insert(spark, name, 20, 21, 22)
    spark.sql(f"CALL pravega.system.scale('{namespace.removeprefix('pravega.')}.t', 3)")
    insert(spark, name, 30)
    return name


def insert(spark: SparkSession, table: str, *ids: int) -> None:
    spark.sql(f"INSERT INTO {table} VALUES {', '.join(f'({number})' for number in ids)}")


def changes(spark: SparkSession, table: str, **options: Any) -> DataFrame:
    return changes_by(spark.readStream.options(**options), table).select(COLUMNS)


def found(batches: Batches) -> list[list[tuple[int, int]]]:
    """Version and id of each row, of each batch that has any."""
    assert {row["_change_type"] for rows in list(batches.rows.values()) for row in rows} <= {"insert"}
    return [
        sorted((row["_commit_version"], row["id"]) for row in batches.rows[batch])
        for batch in list(batches.rows)
        if batches.rows[batch]
    ]


FIRST, SECOND, THIRD, FOURTH = [(1, 0), (1, 1)], [(2, 10)], [(3, 20), (3, 21), (3, 22)], [(4, 30)]


STARTS: list[tuple[Mapping[str, Any], list[tuple[int, int]]]] = [
    ({"startingVersion": 1}, [*FIRST, *SECOND, *THIRD, *FOURTH]),
    ({"startingVersion": 2}, [*SECOND, *THIRD, *FOURTH]),
    ({"startingVersion": 2, "startingBoundInclusive": "false"}, [*THIRD, *FOURTH]),
    ({"startingVersion": 2, "endingVersion": 3}, [*SECOND, *THIRD]),
    ({"startingTimestamp": "2020-01-01"}, [*FIRST, *SECOND, *THIRD, *FOURTH]),
    ({}, [*FIRST, *SECOND, *THIRD, *FOURTH]),
]


def test_queries_read_versions_and_go_on_with_new_ones(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """A query for each start; all of them run at the same time."""

    frames = [changes(spark, table, **options) for options, _ in STARTS]
    checkpoints = [tmp_path / str(number) for number in range(len(STARTS))]

    def run_all() -> list[list[list[tuple[int, int]]]]:
        with ThreadPoolExecutor(len(STARTS)) as threads:
            return [found(sink) for sink in threads.map(run_available, frames, checkpoints)]

    assert all(frame.isStreaming for frame in frames)
    assert run_all() == [[expected] for _, expected in STARTS]
    assert run_all() == [[] for _ in STARTS]
    insert(spark, table, 40, 41)
    assert run_all() == [[] if "endingVersion" in options else [[(5, 40), (5, 41)]] for options, _ in STARTS]


def test_a_batch_takes_the_same_options(spark: SparkSession, kept: str) -> None:
    bounds: dict[str, int | str] = {"startingVersion": 2, "endingVersion": 3, "endingBoundInclusive": "false"}
    rows = changes_by(spark.read.options(**bounds), kept).select("_commit_version", "id").collect()
    assert rows == SECOND
    with pytest.raises(AnalysisException, match="CHANGES are told between versions"):
        changes_by(spark.read.options(startingVersion=2, startStreamCut="earliest"), kept).collect()


def test_all_columns_and_those_of_the_change_are_there(spark: SparkSession, kept: str, tmp_path: Path) -> None:
    sink = run_available(changes_by(spark.readStream.option("startingVersion", 4), kept), tmp_path)
    ((row,),) = sink.rows.values()
    shown = spark.sql(f"SELECT committed_at FROM {kept.removesuffix('t')}`t$commits` WHERE version = 4").first()
    assert shown is not None
    assert row.asDict() == {
        "id": 30,
        "_change_type": "insert",
        "_commit_version": 4,
        "_commit_timestamp": shown.committed_at,
    }


def test_a_limit_lets_versions_in_whole(spark: SparkSession, kept: str, tmp_path: Path) -> None:
    by_events = run_available(changes(spark, kept, maxEventsPerTrigger=3), tmp_path / "events")
    assert found(by_events) == [[*FIRST, *SECOND], THIRD, FOURTH]
    by_bytes = run_available(changes(spark, kept, maxBytesPerTrigger=1), tmp_path / "bytes")
    assert found(by_bytes) == [FIRST, SECOND, THIRD, FOURTH]


def test_a_running_query_waits_for_enough_events_but_not_too_long(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    sink = Batches()
    frame = changes(spark, table, startingVersion=4, minEventsPerTrigger=3, maxTriggerDelay="1s")
    query = start(frame, tmp_path, sink)
    try:
        eventually(lambda: found(sink) == [FOURTH], within_s=TIMEOUT_S)
        insert(spark, table, 40)
        insert(spark, table, 41)
        insert(spark, table, 42, 43)
        eventually(lambda: sum(map(len, found(sink))) == 5, within_s=TIMEOUT_S)
        progress = query.lastProgress
        assert progress is not None
    finally:
        query.stop()
    assert [row for batch in found(sink) for row in batch] == [*FOURTH, (5, 40), (6, 41), (7, 42), (7, 43)]


def test_lag_is_told_in_versions(spark: SparkSession, kept: str, tmp_path: Path) -> None:
    sink = Batches()
    query = start(changes(spark, kept, maxBytesPerTrigger=1), tmp_path, sink)
    try:
        query.processAllAvailable()
        behind = [progress["sources"][0]["metrics"] for progress in query.recentProgress if progress["numInputRows"]]
    finally:
        query.stop()
    assert [metrics["versionsBehindLatest"] for metrics in behind] == ["3", "2", "1", "0"]
    assert [metrics["totalEventsBehindLatest"] for metrics in behind] == ["5", "4", "1", "0"]


def test_a_query_over_a_table_without_commits_waits_for_the_first(
    spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    name = f"{namespace}.fresh"
    spark.sql(f"CREATE TABLE {name} (id BIGINT)")
    frame = changes(spark, name, startingVersion=1)
    assert found(run_available(frame, tmp_path)) == []
    insert(spark, name, 1)
    assert found(run_available(frame, tmp_path)) == [[(1, 1)]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingVersion": 9}, "has no version 9 yet: its last one is 4, so begin with 5 or an earlier one"),
        ({"startingVersion": "x"}, '"x" isn\'t the number of one'),
        ({"startingVersion": 3, "endingVersion": 2}, "comes before version 3"),
        ({"startStreamCut": "earliest"}, "CHANGES are told between versions"),
        ({"maxEventPerTrigger": 3}, "unknown read option"),
    ],
)
def test_what_makes_no_sense_is_told(
    spark: SparkSession, kept: str, tmp_path: Path, options: Mapping[str, Any], sentence: str
) -> None:
    with pytest.raises((StreamingQueryException, AnalysisException), match=sentence):
        run_available(changes(spark, kept, **options), tmp_path)


def test_a_checkpoint_of_another_query_is_told(spark: SparkSession, kept: str, tmp_path: Path) -> None:
    run_available(spark.readStream.table(kept), tmp_path / "rows")
    with pytest.raises(StreamingQueryException, match="is no offset of a query over CHANGES"):
        run_available(changes(spark, kept), tmp_path / "rows")
    run_available(changes(spark, kept), tmp_path / "changes")
    with pytest.raises(StreamingQueryException, match="is no offset of a Pravega source"):
        run_available(spark.readStream.table(kept), tmp_path / "changes")


@pytest.mark.parametrize("lenient", [False, True])
def test_versions_that_are_truncated_are_told_or_passed_over(
    spark: SparkSession, table: str, tmp_path: Path, lenient: bool
) -> None:
    frame = changes(spark, table, startingVersion=1, maxEventsPerTrigger=1, failOnDataLoss=str(not lenient).lower())
    sink = Batches()
    query = start(frame, tmp_path, sink)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    insert(spark, table, 40)
    insert(spark, table, 50)
    scope = table.removeprefix("pravega.")
    spark.sql(f"CALL pravega.system.truncate('{scope}', version => '5')")
    if lenient:
        assert found(run_available(frame, tmp_path)) == [[(6, 50)]]
        assert found(run_available(frame, tmp_path / "new")) == [[(6, 50)]]
        return
    with pytest.raises(StreamingQueryException, match=r"version 5 of stream .* was truncated away.*failOnDataLoss"):
        run_available(frame, tmp_path)
    with pytest.raises(StreamingQueryException, match=r"version 1 of stream .* truncated away"):
        run_available(frame, tmp_path / "new")
    # Without a start it is the first one that is whole.
    assert found(run_available(changes(spark, table), tmp_path / "whole")) == [[(6, 50)]]


def test_a_stream_that_was_made_again_is_noticed(spark: SparkSession, table: str, tmp_path: Path) -> None:
    run_available(changes(spark, table), tmp_path)
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} (id BIGINT)")
    for number in range(5):
        insert(spark, table, number)
    with pytest.raises(StreamingQueryException, match="it was deleted and made again"):
        run_available(changes(spark, table), tmp_path)
    again = run_available(changes(spark, table, failOnDataLoss="false"), tmp_path)
    assert [row for batch in found(again) for row in batch] == [(number + 1, number) for number in range(5)]


def test_a_subscriber_is_told_how_far_the_query_has_come(
    spark: SparkSession, client: Client, kept: str, module_scope: str, tmp_path: Path
) -> None:
    frame = changes(spark, kept, subscriber="audit")
    run_available(frame, tmp_path)
    assert client.controller.subscribers(Stream(module_scope, "t")) == (f"{module_scope}/audit",)


def test_micro_batches_of_changes_are_whole_while_writers_commit(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    name, commits, rows = f"{namespace}.busy", 15, 200
    spark.sql(f"CREATE TABLE {name} (id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS")
    sink = Batches()
    query = start(changes(spark, name, startingVersion=1), tmp_path, sink)
    try:
        for number in range(commits):
            spark.sql(f"INSERT INTO {name} SELECT {number * rows} + id FROM range(0, {rows}, 1, 2)")
            time.sleep(0.1)
        eventually(lambda: sum(map(len, found(sink))) == commits * rows, within_s=TIMEOUT_S)
    finally:
        query.stop()
    batches = found(sink)
    assert len(batches) > 1
    assert [row for batch in batches for row in batch] == [
        (number + 1, number * rows + id) for number in range(commits) for id in range(rows)
    ]
    ledger = open_ledger(client, Stream(scope_of(namespace), "busy"))
    assert ledger is not None
    assert ledger.state().version == commits
