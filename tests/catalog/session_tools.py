"""A session of the catalog without a JVM: what that asks the catalog process for the statements of a session."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyspark_pravega.catalog.process.methods import CatalogMethods
from pyspark_pravega.catalog.process.pickles import text_of, value_of
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.write.changed_rows import DELETES, INSERTS, ROW_OPERATION
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.settings import Settings

Row = tuple[Any, ...]


class Session:
    """A session, in a catalog process of its own or beside others in one."""

    def __init__(self, settings: Settings, scope: str, methods: CatalogMethods | None = None) -> None:
        self.methods, self.scope = methods or CatalogMethods(settings), scope
        self.id: str | None = None
        self.told: Any = None
        """What the process has told of the last read."""

    def end(self) -> None:
        """As the process's end: no lease is renewed any more."""
        jobs = self.methods.writes._jobs
        for job in list(jobs._running):
            jobs.stop(job)

    def begin(self, **epoch: Any) -> str:
        """CALL begin."""
        self.id = self.methods.writes.begin_transaction(**epoch)["transaction"]
        return self.id

    def insert(self, table: str, *ids: int, overwrite: bool = False) -> None:
        """INSERT into a table of `catalog_tools.COLUMNS`."""
        batch = {"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{id}" for id in ids], pa.string())}
        self.write(table, pa.record_batch(batch), overwrite=overwrite)

    def change(self, table: str, columns: Sequence[str], before: Sequence[Row], after: Mapping[Any, Row]) -> None:
        """UPDATE of rows with a key: that of each is its first value."""
        rows = [step for row in before for step in ((row, DELETES), (after[row[0]], INSERTS))]
        arrays = [pa.array([row[place] for row, _ in rows], pa.int64()) for place in range(len(columns))]
        arrays.append(pa.array([operation for _, operation in rows], pa.int32()))
        batch = pa.RecordBatch.from_arrays(arrays, [*columns, ROW_OPERATION])
        self.write(table, batch, changes=True)

    def write(self, table: str, batch: pa.RecordBatch, *, overwrite: bool = False, changes: bool = False) -> None:
        """A statement of one task."""
        writes = self.methods.writes
        planned = writes.plan_write([self.scope], table, {}, checks=[], transaction=self.id)
        writer = writes.begin_write(planned["plan"], 1, overwrite=overwrite, changes=changes)["writer"]
        try:
            message = text_of(value_of(writer).write_partition(0, iter([batch])))
            writes.commit_write(writer, [message], transaction=self.id)
        except PravegaError:
            writes.abort_write(writer, [None])
            raise

    def read(self, table: str, column: str = "id", **more: Any) -> list[int]:
        """The values of a column, sorted."""
        return sorted(row[0] for row in self.rows(table, column, **more))

    def rows(self, table: str, *columns: str, key: int | None = None, **more: Any) -> list[Row]:
        """SELECT columns; of one row where a key is given."""
        wanted = [] if key is None else [Predicate(column="id", comparison="=", values=(key,))]
        scan = self.methods.plan_scan(
            [self.scope], table, list(columns), {}, predicates=wanted, transaction=self.id, **more
        )
        self.told = scan
        read, _ = value_of(scan["function"])
        rows: list[Row] = []
        for partition in scan["partitions"]:
            argument = pa.record_batch({"partition": pa.array([b64decode(partition)], pa.binary())})
            for batch in read(iter([argument])):
                rows += [tuple(row.values()) for row in batch.to_pylist()]
        return rows if key is None else [row for row in rows if row[0] == key]

    def rows_of(self, tables: Sequence[str], *columns: str) -> list[list[Row]]:
        """The rows of several tables, by one statement."""
        first, *others = tables
        rows = [self.rows(first, *columns, beside=[f"{self.scope}/{table}" for table in others])]
        told = self.told["beside"]
        for table in others:
            rows.append(self.rows(table, *columns, moments=[told[f"{self.scope}/{table}"]]))
        return rows

    def prepare(self) -> str:
        """The first part of CALL commit."""
        assert self.id is not None
        return self.methods.writes.prepare_transaction(self.id)["prepared"]

    def roll_back(self) -> None:
        """CALL rollback."""
        if self.id is not None:
            self.methods.writes.roll_back_transaction(self.id)
        self.id = None

    def commit(self, prepared: str | None = None, id: str | None = None) -> bool:
        """CALL commit; whether it had been done before."""
        prepared = prepared or self.prepare()
        id, self.id = id or self.id, None
        assert id is not None
        return self.methods.writes.commit_transaction(id, prepared)["repeated"]
