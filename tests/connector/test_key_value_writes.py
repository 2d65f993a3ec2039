"""What is atomic in a write to a key-value table, and what isn't: one change of one partition is."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.process.pickles import pickle
from pyspark_pravega.client import KeyValueTable
from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.connector.key_value import (
    VERSION,
    KeyValueDefinition,
    KeyValueJob,
    KeyValuePlan,
    KeyValueReader,
    Wanted,
)
from pyspark_pravega.connector.write import ROW_OPERATION
from pyspark_pravega.connector.write.changed_rows import DELETES, INSERTS, REINSERTS
from pyspark_pravega.errors import ConflictError, SegmentStoreUnavailableError, WriteConflictError

pytestmark = pytest.mark.server

ROWS = 200
Change = tuple[int, str | None, int | None, int]
DIES = """
import os, pickle, signal, sys
from pyspark_pravega.client import KeyValueTable
job, messages = pickle.loads(bytes.fromhex(sys.stdin.read()))
put, calls = KeyValueTable.put, []
def dying(self, entries):
    calls.append(1)
    if entries and len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return put(self, entries)
KeyValueTable.put = dying
job.commit_job(messages)
"""
TAKES_OVER = """
import pickle, sys
job, messages = pickle.loads(bytes.fromhex(sys.stdin.read()))
job.commit_job(messages)
"""


@pytest.fixture
def made(catalog: Catalog, scope: str) -> KeyValueDefinition:
    found = catalog.relations.create(
        [scope],
        "t",
        StructType().add("id", "long", nullable=False).add("v", "string"),
        [],
        {
            "table-type": "key-value",
            "primary-key": "id",
            "partitions": "3",
            "format": "json",
            "encoding-header": "false",
        },
    )
    assert isinstance(found, KeyValueDefinition)
    return found


def plan(made: KeyValueDefinition) -> KeyValuePlan:
    return KeyValuePlan.of(made, {}, checks=[])


def rows(values: dict[int, str]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"id": pa.array(list(values), pa.int64()), "v": list(values.values())})


def there(made: KeyValueDefinition) -> dict[int, str]:
    reader = KeyValueReader(made, ["id", "v"], Wanted())
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return {row["id"]: row["v"] for batch in batches for row in batch.to_pylist()}


def versions(made: KeyValueDefinition) -> dict[int, int]:
    reader = KeyValueReader(made, ["id", VERSION], Wanted())
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return {row["id"]: row[VERSION] for batch in batches for row in batch.to_pylist()}


def changed(changes: list[Change]) -> Iterator[pa.RecordBatch]:
    """Changes as Spark hands them over: id, value, version and operation each."""
    ids, values, versions_read, operations = zip(*changes, strict=True)
    yield pa.record_batch(
        {
            "id": pa.array(ids, pa.int64()),
            "v": pa.array(values, pa.string()),
            VERSION: pa.array(versions_read, pa.int64()),
            ROW_OPERATION: pa.array(operations, pa.int32()),
        }
    )


def test_an_insert_that_dies_between_partitions_leaves_whole_partitions(made: KeyValueDefinition) -> None:
    job, values = KeyValueJob(plan(made), 1), {row: f"row {row}" for row in range(ROWS)}
    message = job.write_task(rows(values))
    assert there(made) == {}, "nothing is written before all tasks have ended"
    died = subprocess.run([sys.executable, "-c", DIES], input=pickle((job, [message])).hex(), text=True, check=False)
    assert died.returncode == -signal.SIGKILL
    placed = made.open().placed([row.to_bytes(8) for row in values])
    (whole,) = [indexes for indexes in placed.values() if indexes[0] in there(made)]
    assert there(made) == {row: values[row] for row in whole}, "the first partition's change, and no other"
    job.commit_job([message])
    assert there(made) == values
    job.commit_job([message])
    assert there(made) == values


def test_a_task_with_many_rows_writes_by_itself(made: KeyValueDefinition) -> None:
    job = KeyValueJob(plan(made), 1)
    values = dict.fromkeys(range(40000), "x" * 300)
    message = job.write_task(rows(values))
    assert not message.entries
    assert there(made) == values
    report = job.commit_job([message])
    assert report.rows == len(values)


def test_changes_are_those_of_what_was_read(made: KeyValueDefinition) -> None:
    """Under `serializable`: an entry that others have changed since is a conflict, for each kind of change."""
    KeyValueJob(plan(made), 1).commit_job([KeyValueJob(plan(made), 1).write_task(rows({1: "a", 2: "b", 3: "c"}))])
    read, table = versions(made), made.open()
    key = {row: row.to_bytes(8) for row in range(10)}
    table.put([(key[2], ANY_VERSION, b'{"v":"theirs"}')])
    table.put([(key[5], NOT_EXISTS, b'{"v":"theirs"}')])
    job = KeyValueJob(plan(made), 1, changes=True)
    refused: list[list[Change]] = [
        [(2, None, read[2], DELETES)],
        [(2, None, read[2], DELETES), (2, "ours", None, REINSERTS)],
        [(5, "ours", None, INSERTS)],
    ]
    for change in refused:
        with pytest.raises(WriteConflictError, match="nothing was written"):
            job.commit_job([job.write_task(changed(change))])
    assert there(made) == {1: "a", 2: "theirs", 3: "c", 5: "theirs"}
    message = job.write_task(
        changed(
            [
                (1, None, read[1], DELETES),
                (1, "ours", None, REINSERTS),
                (3, None, read[3], DELETES),
                (4, "d", None, INSERTS),
            ]
        )
    )
    for _ in range(2):
        # The JVM repeats a commit whose answer was lost.
        job.commit_job([message])
        assert there(made) == {1: "ours", 2: "theirs", 4: "d", 5: "theirs"}


@pytest.mark.in_turn
def test_what_others_have_put_is_not_taken_for_ones_own(made: KeyValueDefinition) -> None:
    """Two statements that have read the same, and make the same of it, as increments do: one of them is refused."""
    KeyValueJob(plan(made), 1).commit_job([KeyValueJob(plan(made), 1).write_task(rows({1: "1", 2: "1"}))])
    read = versions(made)
    changes: list[list[tuple[int, str | None, int | None, int]]] = [
        [(1, None, read[1], DELETES), (1, "2", None, REINSERTS)],
        [(7, "owner", None, INSERTS)],
        [(8, "x", None, INSERTS), (2, None, read[2], DELETES), (2, "2", None, REINSERTS)],
    ]
    for change in changes:
        first, second = KeyValueJob(plan(made), 1, changes=True), KeyValueJob(plan(made), 1, changes=True)
        messages = [job.write_task(changed(change)) for job in (first, second)]
        first.commit_job(messages[:1])
        with pytest.raises(WriteConflictError, match="nothing was written"):
            second.commit_job(messages[1:])
        # The JVM asks a new process again where the one before has died: there it is one's own.
        taken_over = subprocess.run(
            [sys.executable, "-c", TAKES_OVER], input=pickle((first, messages[:1])).hex(), text=True, check=False
        )
        assert taken_over.returncode == 0
    # An entry that is gone needs no second DELETE.
    gone: list[Change] = [(1, None, versions(made)[1], DELETES)]
    for job in (KeyValueJob(plan(made), 1, changes=True), KeyValueJob(plan(made), 1, changes=True)):
        job.commit_job([job.write_task(changed(gone))])
    assert there(made) == {2: "2", 7: "owner", 8: "x"}


@pytest.mark.parametrize("was_made", [True, False])
def test_a_change_without_an_answer_is_found_or_made_once_more(
    made: KeyValueDefinition, monkeypatch: pytest.MonkeyPatch, was_made: bool
) -> None:
    put, calls = KeyValueTable.put, list[int]()

    def losing(self: KeyValueTable, entries: list[tuple[bytes, int, bytes]]) -> list[int]:
        calls.append(len(entries))
        if len(calls) == 1 and not was_made:
            raise SegmentStoreUnavailableError("the connection was lost")
        versions = put(self, entries)
        if len(calls) == 1:
            raise SegmentStoreUnavailableError("the connection was lost")
        return versions

    monkeypatch.setattr(KeyValueTable, "put", losing)
    job = KeyValueJob(plan(made), 1, changes=True)
    job.commit_job([job.write_task(changed([(10, "x", None, INSERTS)]))])
    assert there(made) == {10: "x"}
    assert calls == ([1] if was_made else [1, 1])


@pytest.mark.parametrize("is_ones_own", [True, False])
def test_a_change_that_is_under_way_is_waited_for(
    made: KeyValueDefinition, monkeypatch: pytest.MonkeyPatch, is_ones_own: bool
) -> None:
    """While too few bookies answer, a server holds a change for seconds: it refuses others because of it, and nobody
    can read it yet. It may be one's own, whose answer was lost."""
    KeyValueJob(plan(made), 1).commit_job([KeyValueJob(plan(made), 1).write_task(rows({1: "1"}))])
    put, calls, held = KeyValueTable.put, list[float](), list[threading.Timer]()

    def hold(table: KeyValueTable, entries: list[tuple[bytes, int, bytes]]) -> None:
        held.append(threading.Timer(1.5, put, (table, entries)))
        held[0].start()

    def late(self: KeyValueTable, entries: list[tuple[bytes, int, bytes]]) -> list[int]:
        calls.append(time.monotonic())
        if not held:
            theirs = [(key, version, value.replace(b"mine", b"them")) for key, version, value in entries]
            hold(self, entries if is_ones_own else theirs)
            if is_ones_own:
                raise SegmentStoreUnavailableError("the connection was lost")
        if held[0].is_alive():
            raise ConflictError("an entry has been changed")
        return put(self, entries)

    job = KeyValueJob(plan(made), 1, changes=True)
    message = job.write_task(changed([(1, None, versions(made)[1], DELETES), (1, "mine", None, REINSERTS)]))
    monkeypatch.setattr(KeyValueTable, "put", late)
    if is_ones_own:
        job.commit_job([message])
    else:
        with pytest.raises(WriteConflictError, match="nothing was written"):
            job.commit_job([message])
    held[0].join()
    assert there(made) == {1: "mine" if is_ones_own else "them"}
    assert 5 < len(calls) < 50, "it waits longer each time"
