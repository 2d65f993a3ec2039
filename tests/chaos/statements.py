"""Statements on a table as one session makes them, in processes that may be killed; and what they do to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn
from pyspark_pravega.connector.log import ledger as ledgers
from pyspark_pravega.connector.log import recovery, take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read import BatchReader
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import OverwritingJob, ReadSet, StagedTable, WriteJob, WritePlan
from pyspark_pravega.errors import PravegaError, StreamNotFoundError
from pyspark_pravega.serde.formats import RAW
from pyspark_pravega.settings import Settings

ID = StructField("id", LongType())
COLUMNS = StructType([ID, StructField("name", StringType())])


@dataclass(frozen=True)
class Table:
    """What a table is, in the model."""

    columns: tuple[str, ...]
    ids: frozenset[int]


@dataclass(frozen=True)
class Statement:
    """One statement of a session; its number makes its rows and columns unlike those of others."""

    kind: str
    number: int

    @property
    def ids(self) -> tuple[int, ...]:
        """The rows that it writes beside those that it has read."""
        return (10 * self.number, 10 * self.number + 1)

    def applied(self, table: Table | None, read: frozenset[int] | None) -> list[Table | None]:
        """What a table is afterwards, in the model; nothing when the statement couldn't have succeeded there.

        Args:
            table: what it was; None when there was none.
            read: the rows that the statement has read, where it has told.
        """
        if self.kind == "create":
            return [] if table else [Table(tuple(COLUMNS.fieldNames()), frozenset())]
        if self.kind == "drop":
            # Of two that drop a table at once both are told so: it is gone.
            return [None]
        if table is None:
            return []
        new = frozenset(self.ids)
        if self.kind == "insert":
            return [replace(table, ids=table.ids | new)]
        if self.kind == "overwrite":
            return [replace(table, ids=new)]
        if self.kind == "overwrite itself":
            if read is not None and read != table.ids:
                return []
            return [replace(table, ids=table.ids | new)]
        if self.kind == "truncate":
            return [replace(table, ids=frozenset())]
        if self.kind == "replace":
            return [Table(("id", f"r{self.number}"), new)]
        assert self.kind == "alter"
        return [replace(table, columns=(*table.columns, f"c{self.number}"))]


def run(settings: Settings, scope: str, statement: Statement) -> frozenset[int] | None:
    """Run a statement.

    Args:
        settings: where the servers are.
        scope: the scope of table `t`.
        statement: the statement.

    Returns:
        The rows that it has read, if it has read the table.
    """
    # Who comes after a dead driver waits for it no longer than this; the log is compacted all the time.
    recovery.GRACE_S, ledgers.KEPT_VERSIONS, ledgers._SWEEP_EVERY = 0.5, 2, 1
    catalog = Catalog(settings)
    return _DO[statement.kind](catalog, scope, statement)


def contents(settings: Settings, scope: str) -> Table | None:
    """What somebody who comes afterwards finds."""
    catalog = Catalog(settings)
    if "t" not in catalog.relations.names([scope]):
        return None
    try:
        definition = _looked_up(catalog, scope)
    except StreamNotFoundError:
        # The controller goes on with a DROP whose session is dead.
        return None
    if definition.format == RAW:
        # A DROP that was killed has taken the columns: what is left can be dropped again.
        return None
    return Table(tuple(definition.schema.fieldNames()), _read(catalog, definition)[1])


def _read(catalog: Catalog, definition: TableDefinition) -> tuple[ReadSet, frozenset[int]]:
    snapshot = take_snapshot(catalog.client, definition.stream)
    reader = BatchReader(definition, snapshot, definition.schema.fieldNames())
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    ids = [id for batch in batches for id in batch.column("id").to_pylist()]
    assert len(ids) == len(set(ids)), f"rows twice: {sorted(ids)}"
    return ReadSet.of(snapshot), frozenset(ids)


def _plan(definition: TableDefinition, staged: StagedTable | None = None) -> WritePlan:
    return WritePlan.of(definition, WriteOptions(transaction_timeout_ms=10_000), staged=staged)


def _write(job: WriteJob, definition: TableDefinition, ids: Sequence[int], seen: Sequence[ReadSet] = ()) -> None:
    values = {name: pa.nulls(len(ids), pa.string()) for name in definition.schema.fieldNames()}
    batch = pa.record_batch({**values, "id": pa.array(ids, pa.int64())})
    try:
        messages = [job.write_partition(0, iter([batch]))]
        if isinstance(job, OverwritingJob):
            job.commit_job(messages, seen=seen)
        else:
            job.commit_job(messages)
    except PravegaError:
        job.abort_job([None])
        raise


def _looked_up(catalog: Catalog, scope: str) -> TableDefinition:
    """The table as a statement of SQL begins with it."""
    return catalog.replacing.finish_left(catalog.load_table([scope], "t"))


def _insert(catalog: Catalog, scope: str, statement: Statement) -> None:
    definition = _looked_up(catalog, scope)
    _write(WriteJob(_plan(definition)), definition, statement.ids)


def _overwrite(catalog: Catalog, scope: str, statement: Statement) -> None:
    definition = _looked_up(catalog, scope)
    _write(OverwritingJob(_plan(definition)), definition, statement.ids)


def _overwrite_itself(catalog: Catalog, scope: str, statement: Statement) -> frozenset[int]:
    definition = _looked_up(catalog, scope)
    job = OverwritingJob(_plan(definition))
    seen, ids = _read(catalog, definition)
    _write(job, definition, [*ids, *statement.ids], [seen])
    return ids


def _replace(catalog: Catalog, scope: str, statement: Statement) -> None:
    columns = StructType([ID, StructField(f"r{statement.number}", StringType())])
    definition, staged = catalog.replacing.stage([scope], "t", columns, [], {}, create=False, replace=True)
    try:
        _write(OverwritingJob(_plan(definition, catalog.replacing.staged_table(staged))), definition, statement.ids)
        catalog.replacing.commit(staged, written=True)
    except PravegaError:
        catalog.relations.abort(staged)
        raise


def _alter(catalog: Catalog, scope: str, statement: Statement) -> None:
    column = AddColumn(column=(f"c{statement.number}",), type=StringType())
    catalog.altering.alter([scope], "t", [column])


def _create(catalog: Catalog, scope: str, _: Statement) -> None:
    catalog.tables.create([scope], "t", COLUMNS, [], {"segments": "2", "compatibility": "AllowAny"})


def _drop(catalog: Catalog, scope: str, _: Statement) -> None:
    if not catalog.relations.drop([scope], "t"):
        raise PravegaError("there was none")


def _truncate(catalog: Catalog, scope: str, _: Statement) -> None:
    catalog.relations.truncate([scope], "t")


_DO: dict[str, Callable[[Catalog, str, Statement], frozenset[int] | None]] = {
    "insert": _insert,
    "overwrite": _overwrite,
    "overwrite itself": _overwrite_itself,
    "replace": _replace,
    "truncate": _truncate,
    "alter": _alter,
    "create": _create,
    "drop": _drop,
}
