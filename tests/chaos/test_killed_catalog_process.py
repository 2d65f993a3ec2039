"""The catalog process is killed at many moments of INSERTs."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession
from spark_tools import catalog_processes
from streaming_tools import scope_of
from transactions import open_transactions
from waiting import eventually

from pyspark_pravega.client import Client, Stream

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_killing_the_process_in_many_moments_of_inserts_loses_and_doubles_nothing(
    spark: SparkSession, client: Client, namespace: str
) -> None:
    """Whatever the statement answers: an INSERT that succeeded is there once, one that failed at most once."""
    table = f"{namespace}.shaken"
    stream = Stream(scope_of(namespace), "shaken")
    spark.sql(f"CREATE TABLE {table} (round INT, id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS")

    failures = []

    def insert(number: int) -> bool:
        try:
            spark.sql(f"INSERT INTO {table} SELECT {number}, id FROM range(0, 1000, 1, 4)")
        except Exception as error:
            failures.append(error)
            return False
        return True

    def kill() -> None:
        for victim in catalog_processes():
            os.kill(victim, signal.SIGKILL)

    kill()
    begun = time.monotonic()
    assert insert(100), failures
    # The moments are spread over what an INSERT takes here and now, and over some time after it.
    step_s, succeeded, rounds = (time.monotonic() - begun) / 6, set[int](), 0
    while rounds < 9 or (not succeeded and rounds < 40):
        with ThreadPoolExecutor(1) as thread:
            writing = thread.submit(insert, rounds)
            time.sleep(0.1 + rounds * step_s)
            kill()
            if writing.result():
                succeeded.add(rounds)
        rounds += 1

    counted = {row[0]: row[1] for row in spark.sql(f"SELECT round, count(*) FROM {table} GROUP BY round").collect()}
    assert set(counted.values()) <= {1000}
    assert succeeded <= set(counted)
    assert succeeded, "no INSERT has succeeded: the test proves nothing"
    assert insert(99)
    eventually(lambda: len(open_transactions(client, stream)) <= (rounds - len(succeeded)) * 4)
