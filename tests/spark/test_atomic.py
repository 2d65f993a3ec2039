"""An INSERT is seen whole or not at all, however many tasks wrote it into however many segments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate

import pytest
from changes_tools import changes_in
from pyspark.sql import SparkSession

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.log.tail import take_tail

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.dropped, pytest.mark.in_turn]

SMALL_ROWS, LARGE_ROWS = 2_000, 120_000
FIRST_COMMITS, COMMITS_AT_MOST = 20, 400
DIFFERENT_LOOKS = 10
"""A reader has to see so many states of a table: commits go on until it has."""


@contextmanager
def polling(
    threads: ThreadPoolExecutor, look: Callable[[], int], seen: list[int] | None = None, pause_s: float = 0.02
) -> Iterator[Future[list[int]]]:
    """Look again and again while the body runs, with pauses, and once more after it; `seen` has the answers."""
    over = threading.Event()
    seen = [] if seen is None else seen

    def run() -> list[int]:
        while not over.is_set():
            seen.append(look())
            over.wait(pause_s)
        seen.append(look())
        return seen

    watching = threads.submit(run)
    try:
        yield watching
    finally:
        over.set()


@pytest.mark.timeout(900)
@pytest.mark.in_turn(8)
def test_readers_see_each_insert_whole_or_not_at_all(spark: SparkSession, client: Client, namespace: str) -> None:
    table = f"{namespace}.whole"
    stream = Stream(namespace.removeprefix("pravega.").replace("_", "-"), "whole")
    spark.sql(f"CREATE TABLE {table} (id BIGINT, filler STRING) CLUSTERED BY (id) INTO 8 BUCKETS")

    def insert(rows: int) -> None:
        spark.sql(f"INSERT INTO {table} SELECT id, repeat('x', 500) FROM range(0, {rows}, 1, 4)")

    def count() -> int:
        # The commit log knows the first of them, and events are read for the second one.
        found = spark.sql(f"SELECT count(*) FROM {table} UNION ALL SELECT count(id) FROM {table}").collect()
        whole_rows: set[int] = {row[0] for row in found}
        assert len(found) == 2
        polled.update(whole_rows)
        return max(whole_rows)

    def tail_size() -> int:
        tail = take_tail(client, stream)
        return 0 if tail is None else tail.size

    def whole() -> tuple[set[int], set[int]]:
        """The counts of rows and of bytes that a reader may see."""
        ledger = open_ledger(client, stream)
        commits = [] if ledger is None else ledger.commits(range(1, ledger.state().version + 1))
        return (
            {0, *accumulate(commit.rows for commit in commits)},
            {0, *accumulate(commit.bytes for commit in commits)},
        )

    polled: set[int] = set()
    looks: tuple[list[int], list[int], list[int]] = ([], [], [])

    def enough() -> bool:
        """Whether the readers have seen what makes this test worth something."""
        totals, sizes, tails = (set(seen[:-1]) for seen in looks)
        if min(len(totals), len(sizes)) < DIFFERENT_LOOKS:
            return False
        # A commit lies in parts for some milliseconds only, longer where there are more segments: a reader without the
        # commit log sees one now and then. Many rows make it no longer, and each SELECT takes longer behind them.
        return bool(tails - whole()[1])

    inserted = [SMALL_ROWS] * FIRST_COMMITS
    with (
        ThreadPoolExecutor(3) as threads,
        polling(threads, count, looks[0]) as counts,
        polling(threads, lambda: take_snapshot(client, stream).size, looks[1], 0.1) as snapshots,
        polling(threads, tail_size, looks[2], 0.01) as tailing,
    ):
        for rows in inserted:
            insert(rows)
        while not enough() and len(inserted) < COMMITS_AT_MOST:
            inserted.append(SMALL_ROWS)
            insert(SMALL_ROWS)
        inserted.append(LARGE_ROWS)
        insert(LARGE_ROWS)
    tails = tailing.result()

    ledger = open_ledger(client, stream)
    assert ledger is not None
    commits = ledger.commits(range(1, len(inserted) + 1))
    assert [commit.version for commit in commits] == list(range(1, len(inserted) + 1))
    assert [commit.rows for commit in commits] == inserted
    whole_counts, whole_sizes = whole()
    assert polled | set(counts.result()) <= whole_counts
    assert counts.result() == sorted(counts.result())
    assert counts.result()[-1] == sum(inserted)
    assert len(set(counts.result())) >= DIFFERENT_LOOKS, "the SQL reader looked too seldom to prove anything"
    assert set(snapshots.result()) <= whole_sizes
    assert len(set(snapshots.result())) >= DIFFERENT_LOOKS, "snapshots were taken too seldom to prove anything"
    # Without the commit log parts of commits are seen: this is what makes the assertions above worth something.
    assert set(tails) - whole_sizes


def test_two_jobs_that_write_at_once_are_both_whole(spark: SparkSession, client: Client, namespace: str) -> None:
    table, inserts, rows = f"{namespace}.both", 14, 300
    stream = Stream(namespace.removeprefix("pravega.").replace("_", "-"), "both")
    spark.sql(f"CREATE TABLE {table} (job INT, number INT, id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS")

    def insert(job: int) -> None:
        for number in range(inserts):
            spark.sql(f"INSERT INTO {table} SELECT {job}, {number}, id FROM range(0, {rows}, 1, 2)")

    def torn() -> int:
        """How many INSERTs a query sees a part of."""
        found = spark.sql(
            f"SELECT count(*) FROM (SELECT count(*) n FROM {table} GROUP BY job, number) WHERE n <> {rows}"
        )
        row = found.first()
        assert row is not None
        counted: int = row[0]
        return counted

    def changes() -> int:
        """How many versions there are to see; each is one INSERT, whole, and none is missing."""
        ledger = open_ledger(client, stream)
        if ledger is None or not ledger.state().version:
            return 0
        found = spark.sql(
            "SELECT _commit_version, count(*), count(DISTINCT job, number), count(DISTINCT id) "
            f"FROM {changes_in(table, 1)} GROUP BY 1 ORDER BY 1"
        ).collect()
        assert found == [(version, rows, 1, rows) for version in range(1, len(found) + 1)]
        return len(found)

    with (
        ThreadPoolExecutor(4) as threads,
        polling(threads, torn) as looks,
        polling(threads, changes) as seen,
    ):
        for done in [threads.submit(insert, job) for job in range(2)]:
            done.result()

    assert set(looks.result()) == {0}
    assert len(looks.result()) > 5, "the SQL reader looked too seldom to prove anything"
    assert seen.result() == sorted(seen.result())
    assert seen.result()[-1] == 2 * inserts
    assert len(set(seen.result())) > 5, "CHANGES were looked at too seldom to prove anything"
    counts = spark.sql(
        f"SELECT job, count(*), count(DISTINCT number, id) FROM {table} GROUP BY job ORDER BY job"
    ).collect()
    assert counts == [(job, inserts * rows, inserts * rows) for job in range(2)]
    ledger = open_ledger(client, stream)
    assert ledger is not None
    commits = ledger.commits(range(1, 3 * inserts))
    assert [commit.version for commit in commits] == list(range(1, 2 * inserts + 1))
    assert [commit.rows for commit in commits] == [rows] * 2 * inserts
    cuts = [sum(commit.cut.values()) for commit in commits]
    assert cuts == sorted(cuts)
    assert cuts[-1] == sum(commit.bytes for commit in commits)
