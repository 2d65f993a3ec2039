"""A commit whose answer was lost is asked for again: it changes nothing, however much came between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from catalog_tools import insert, make, plan
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.process.pickles import pickle, unpickle
from pyspark_pravega.client import Stream
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import History, Intent, Ledger, open_ledger, take_snapshot
from pyspark_pravega.connector.log.entries import OTHERS
from pyspark_pravega.connector.log.history import forget_versions
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import snapshot_reader
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import DeltaJob, OverwritingJob, ReadSet, WriteJob
from pyspark_pravega.connector.write.changed_rows import ROW_OPERATION

pytestmark = pytest.mark.server

NEW = StructType([StructField("id", LongType(), False), StructField("x", StringType())])
BETWEEN = 40
"""How many versions of others come; of all of these the log keeps the last `KEPT` only."""
KEPT = 5
Rows = list[tuple[int, str | None]]


@dataclass(frozen=True)
class Made:
    """A statement that was committed, as the JVM remembers it."""

    repeat: Callable[[], object]
    rows: Rows
    """What the table holds then; the old rows are (1, n1) and (2, n2)."""


def batch(*ids: int, other: str = "name") -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), other: pa.array([f"n{id}" for id in ids])})


def committed(job: WriteJob, messages: Sequence[Any], seen: Sequence[ReadSet] | None = None) -> Callable[[], object]:
    """Commit a job, and give what does so again in another process."""
    written, more = pickle((job, messages)), () if seen is None else (None, seen)
    job.commit_job(messages, *more)

    def again() -> object:
        other_job, other_messages = unpickle(written)
        return other_job.commit_job(other_messages, *more)

    return again


OLD: Rows = [(1, "n1"), (2, "n2")]


def _insert(catalog: Catalog, definition: TableDefinition) -> Made:
    job = WriteJob(plan(definition))
    return Made(committed(job, [job.write_partition(0, iter([batch(10, 11)]))]), [*OLD, (10, "n10"), (11, "n11")])


def _insert_that_is_not_noted(catalog: Catalog, definition: TableDefinition) -> Made:
    job = WriteJob(plan(definition), opened=False)
    return Made(committed(job, [job.write_partition(0, iter([batch(10)]))]), [*OLD, (10, "n10")])


def _insert_with_attempts_on_both_sides_of_a_scale(catalog: Catalog, definition: TableDefinition) -> Made:
    job = WriteJob(plan(definition))
    messages = []
    for segments, ids in ((3, (10, 11, 12)), (4, (20, 21)), (2, (22,))):
        # The first one shares its transaction, each other one has its own.
        messages.append(job.write_partition(0, iter([batch(*ids)])))
        catalog.procedures.call("scale", [str(definition.stream).replace("/", "."), segments])
    new = [(id, f"n{id}") for id in (10, 11, 12, 20, 21, 22)]
    return Made(committed(job, messages), [*OLD, *new])


def _overwrite(catalog: Catalog, definition: TableDefinition) -> Made:
    job = OverwritingJob(plan(definition))
    return Made(committed(job, [job.write_partition(0, iter([batch(10, 11)]))]), [(10, "n10"), (11, "n11")])


def _overwrite_what_it_has_read(catalog: Catalog, definition: TableDefinition) -> Made:
    seen = [ReadSet.of(take_snapshot(catalog.client, definition.stream))]
    job = OverwritingJob(plan(definition))
    return Made(committed(job, [job.write_partition(0, iter([batch(2)]))], seen), [(2, "n2")])


def _overwrite_without_rows(catalog: Catalog, definition: TableDefinition) -> Made:
    return Made(committed(OverwritingJob(plan(definition)), []), [])


def _update(catalog: Catalog, definition: TableDefinition) -> Made:
    seen = [ReadSet.of(take_snapshot(catalog.client, definition.stream))]
    job = DeltaJob(plan(definition))
    changes = pa.record_batch({
        "id": pa.array([1, 1], pa.int64()),
        "name": pa.array([None, "n1+"]),
        ROW_OPERATION: pa.array([1, 4], pa.int32()),
    })  # fmt: skip
    return Made(committed(job, [job.write_partition(0, iter([changes]))], seen), [(1, "n1+"), (2, "n2")])


def _replace(catalog: Catalog, definition: TableDefinition) -> Made:
    stream = definition.stream
    _, staged = catalog.replacing.stage([stream.scope], stream.name, NEW, [], {}, create=True, replace=True)
    catalog.replacing.commit(staged, written=False)
    return Made(lambda: catalog.replacing.commit(staged, written=False), [])


def _replace_with_rows(catalog: Catalog, definition: TableDefinition) -> Made:
    stream = definition.stream
    made, staged = catalog.replacing.stage([stream.scope], stream.name, NEW, [], {}, create=True, replace=True)
    job = OverwritingJob(plan(made, catalog.replacing.staged_table(staged)))
    commit = committed(job, [job.write_partition(0, iter([batch(10, other="x")]))])
    catalog.replacing.commit(staged, written=True)

    def again() -> None:
        commit()
        catalog.replacing.commit(staged, written=True)
        # Spark says so where it takes the statement for failed.
        catalog.relations.abort(staged)

    return Made(again, [(10, "n10")])


KINDS = (
    _insert,
    _insert_that_is_not_noted,
    _insert_with_attempts_on_both_sides_of_a_scale,
    _overwrite,
    _overwrite_what_it_has_read,
    _overwrite_without_rows,
    _update,
    _replace,
    _replace_with_rows,
)


def rows(catalog: Catalog, stream: Stream) -> Rows:
    """What a reader who knows nothing finds, of both columns."""
    definition = Catalog(catalog.settings).definition(stream)
    reader = snapshot_reader(
        definition, take_snapshot(catalog.client, stream), definition.schema.fieldNames(), ReadOptions()
    )
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def others_come(catalog: Catalog, stream: Stream, ledger: Ledger, count: int) -> None:
    """Versions of others: most of them without rows, which costs little."""
    state, cut = ledger.state(), take_snapshot(catalog.client, stream, ledger).cut
    for _ in range(count):
        nothing = Intent(job=OTHERS, transactions=(), rows=0, bytes=0, started_at=now_ms())
        state = ledger.complete(state, committed_at=now_ms(), cut=cut, without_rows=nothing)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.strip("_"))
@pytest.mark.in_turn
def test_a_repeated_commit_changes_nothing_however_much_came_between(
    catalog: Catalog, scope: str, kind: Callable[[Catalog, TableDefinition], Made]
) -> None:
    keyed = {"primary_key": "id"} if kind is _update else {}
    stream = make(catalog, scope, segments=2, **keyed)
    insert(catalog, stream, 1, 2)
    made = kind(catalog, catalog.definition(stream, age_s=0))
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    version = ledger.state().version
    definition = catalog.definition(stream, age_s=0)
    other = definition.schema.fieldNames()[1]
    others_come(catalog, stream, ledger, BETWEEN)
    job = WriteJob(plan(definition))
    job.commit_job([job.write_partition(0, iter([batch(1000, other=other)]))])
    forget_versions(ledger._table, ledger.state().version, History(versions=KEPT))
    assert ledger.commits([version]) == [], "the log has swept the version"
    before = ledger.state()

    made.repeat()

    assert rows(catalog, stream) == [*made.rows, (1000, "n1000")]
    assert replace(ledger.state(), stored_as=0) == replace(before, stored_as=0)
    assert ledger.noted_transactions() == set()


def test_a_table_that_somebody_else_has_made_meanwhile_stays(catalog: Catalog, scope: str) -> None:
    """CREATE TABLE AS SELECT has failed, and what it had made is to be dropped: the second time it is asked for."""
    made, staged = catalog.replacing.stage([scope], "t", NEW, [], {}, create=True, replace=False)
    catalog.relations.abort(staged)
    assert not catalog.exists(made.stream)
    catalog.relations.abort(staged)
    insert(catalog, make(catalog, scope), 1)
    catalog.relations.abort(staged)
    assert rows(catalog, made.stream) == [(1, "n1")]
