"""Tables whose TRUNCATE takes effect with the next write: readers see old rows, then new ones."""

from __future__ import annotations

import pyarrow as pa
import pytest
from catalog_tools import ids, insert, make, plan, write

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import SetProperty
from pyspark_pravega.connector.log import open_ledger, take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.write import Epoch, OverwritingJob, ReadSet, WriteJob, WritePlan
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


def test_a_truncation_waits_for_the_next_write(catalog: Catalog, settings: Settings, scope: str) -> None:
    stream = make(catalog, scope, segments=2, truncate_with_next_write="TRUE")
    others = Catalog(settings)
    insert(catalog, stream, 1, 2, 3)
    catalog.relations.truncate([scope], "t")
    assert ids(others, stream) == [1, 2, 3]

    # Planned before, by whom doesn't know of it; and after the driver that truncated is gone.
    late = WriteJob(plan(others.definition(stream)))
    write(late, 4, 5)
    assert ids(catalog, stream) == [4, 5]
    insert(others, stream, 6)
    assert ids(catalog, stream) == [4, 5, 6]

    # Without rows the table is empty then, as after an INSERT of a query that finds none.
    catalog.relations.truncate([scope], "t")
    catalog.relations.truncate([scope], "t")
    job = WriteJob(plan(catalog.definition(stream, age_s=0)))
    job.commit_job([None])
    assert ids(others, stream) == []
    insert(catalog, stream, 7)
    assert ids(others, stream) == [7]

    # One that fails leaves the old rows, and the truncation; so does a write that is repeated.
    catalog.relations.truncate([scope], "t")
    job = WriteJob(plan(catalog.definition(stream, age_s=0)))
    job.abort_job([None])
    assert ids(catalog, stream) == [7]
    job = WriteJob(plan(catalog.definition(stream, age_s=0)))
    write(job, 8)
    insert(catalog, stream, 9)
    job.commit_job([None])
    assert ids(catalog, stream) == [8, 9]

    # A streaming query's epoch is a write, too; an overwrite, a replacement of the table likewise.
    catalog.relations.truncate([scope], "t")
    for number, row in ((0, 10), (1, 11)):
        job = WriteJob(plan(catalog.definition(stream, age_s=0)))
        messages = [job.write_task(iter([batch_of(row)]))]
        job.commit_job(messages, Epoch(query="q", number=number))
    assert ids(catalog, stream) == [10, 11]
    catalog.relations.truncate([scope], "t")
    write(OverwritingJob(plan(catalog.definition(stream, age_s=0))), 12)
    insert(catalog, stream, 13)
    assert ids(others, stream) == [12, 13]

    # Of what a statement has read and others have added since, nothing is kept when it was truncated meanwhile.
    change(catalog, scope, "isolation-level", "snapshot")
    for truncates in (False, True):
        seen = [ReadSet.of(take_snapshot(catalog.client, stream))]
        insert(others, stream, 20)
        if truncates:
            catalog.relations.truncate([scope], "t")
        job = OverwritingJob(plan(catalog.definition(stream, age_s=0)))
        job.commit_job([job.write_task(iter([batch_of(21)]))], seen=seen)
        assert ids(others, stream) == ([21] if truncates else [20, 21])

    # A write without a commit would come before the truncation, and go with it.
    with pytest.raises(ConfigurationError, match=r"can't be written in mode at-least-once.*truncate-with-next-write"):
        WritePlan.of(catalog.definition(stream), WriteOptions(writer_mode="at-least-once"))

    # Without the property a TRUNCATE is one at once; and it isn't for modes without commits.
    with pytest.raises(ConfigurationError, match="truncate-with-next-write"):
        change(catalog, scope, "writer-mode", "at-least-once")
    change(catalog, scope, "truncate-with-next-write", "false")
    catalog.relations.truncate([scope], "t")
    assert ids(others, stream) == []
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    assert not ledger.state().truncation_due


def batch_of(row: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array([row], pa.int64()), "name": pa.array(["n"])})


def change(catalog: Catalog, scope: str, name: str, value: str) -> None:
    catalog.altering.alter([scope], "t", [SetProperty(property=name, value=value)])
