"""What the catalog's tests share: tables with rows, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import Bucket
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.log.tail import Snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read.reader import BatchReader
from pyspark_pravega.connector.read.versions import Moment, snapshot_until
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write import StagedTable
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.plan import WritePlan

COLUMNS = StructType([StructField("id", LongType(), False), StructField("name", StringType(), True)])


def make(catalog: Catalog, scope: str, table: str = "t", *, segments: int = 1, **properties: str) -> Stream:
    """A table of `COLUMNS` whose routing key is the id."""
    given = {key.replace("_", "-"): value for key, value in properties.items()}
    buckets = [Bucket(columns=("id",), buckets=segments)]
    return catalog.tables.create([scope], table, COLUMNS, buckets, given).stream


def insert(catalog: Catalog, stream: Stream, *ids: int, **columns: list[Any]) -> None:
    """Commit rows, as one version."""
    write(WriteJob(plan(catalog.definition(stream, age_s=0))), *ids, **columns)


def plan(definition: TableDefinition, staged: StagedTable | None = None) -> WritePlan:
    """How to write to a table, which may become another one with it."""
    return WritePlan.of(definition, WriteOptions(transaction_timeout_ms=60_000), staged=staged)


def write(job: WriteJob, *ids: int, **columns: list[Any]) -> None:
    """Write rows with a job, and commit them."""
    names = columns.pop("name", [f"n{number}" for number in ids])
    arrays = {"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())}
    arrays |= {name: pa.array(values) for name, values in columns.items()}
    job.commit_job([job.write_task(iter([pa.record_batch(arrays)]))])


def rows(definition: TableDefinition, snapshot: Snapshot, *columns: str) -> list[Any]:
    """The rows of a snapshot, sorted; of one column its values."""
    reader = BatchReader(definition, snapshot, columns or ("id",))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    values = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(value[0] for value in values) if len(columns) < 2 else sorted(values)


def ids(catalog: Catalog, stream: Stream, moment: Moment | None = None) -> list[int]:
    """The ids in a stream, now or at a moment."""
    snapshot = (
        take_snapshot(catalog.client, stream) if moment is None else snapshot_until(catalog.client, stream, moment)
    )
    return rows(catalog.definition(stream, age_s=0), snapshot)
