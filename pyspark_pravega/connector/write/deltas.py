"""UPDATE, DELETE and MERGE: rows of a table with a key that change, all of a statement's as one version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.connector.log import Ledger, Replacement, State, take_snapshot
from pyspark_pravega.connector.options import ISOLATION_LEVEL, SERIALIZABLE, SNAPSHOT
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import DELETED, ChangeCodec
from pyspark_pravega.connector.write.job import TaskMessage
from pyspark_pravega.connector.write.overwrite import ReadingJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.connector.write.seen import Seen
from pyspark_pravega.errors import DuplicateKeyError, UnsupportedOperationError, WriteConflictError

ROW_OPERATION = "_row_operation"
"""The last column of the rows that Spark hands over: what is to become of each."""
DELETES, INSERTS, REINSERTS = 1, 3, 4
"""Its values, Spark's own (`RowDeltaUtils`): an updated row is deleted and then inserted again."""


class DeltaJob(ReadingJob):
    """Writes changes of rows."""

    def __init__(self, plan: WritePlan) -> None:
        """Begin a job.

        Args:
            plan: how to write; the table has a key.

        Raises:
            UnsupportedOperationError: its rows aren't committed together.
        """
        assert isinstance(plan.codec, ChangeCodec)
        self._key = plan.codec.key.columns
        super().__init__(replace(plan, codec=plan.codec.telling()))

    def write_partition(self, partition: int, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """As `WriteJob.write_partition`.

        Args:
            partition: which of the job's partitions it is, from 0.
            batches: with the table's columns and `ROW_OPERATION`; all rows of a key stand together, those that delete
                first.

        Raises:
            DuplicateKeyError: two rows of one key would be there.
            UnsupportedOperationError: a row would get another key.
        """
        return super().write_partition(partition, self._changes(batches))

    def _replacement(self, ledger: Ledger, state: State) -> Replacement | None:
        if self.plan.isolation == SERIALIZABLE and self._seen:
            client, stream = shared_client(self.plan.settings), self.plan.stream
            tail = take_snapshot(client, stream, ledger)
            for one in self._seen:
                if not self._is_same(ledger, tail, state, one):
                    raise self._conflict(state, one)
            # When another commit comes first, only what is newer has to be looked at.
            self._seen = [replace(one, version=state.version, offsets=tail.cut) for one in self._seen]
        return super()._replacement(ledger, state)

    def _conflict(self, state: State, seen: Seen) -> WriteConflictError:
        which = "rows" if seen.keys is None else "rows with keys"
        return WriteConflictError(
            f'the rows of stream "{self.plan.stream}" were not changed: the statement has read version {seen.version} '
            f"of them, and others have written {which} that it has read since (the last version is {state.version}). "
            f'Nothing was written; run it again, or set "{ISOLATION_LEVEL}" to {SNAPSHOT}, with which the last change '
            "of a row wins"
        )

    def _changes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One change of each key: of a row that is deleted and inserted, the insertion."""
        rest: pa.RecordBatch | None = None
        for batch in batches:
            rows = batch if rest is None else pa.concat_batches([rest, batch])
            begins = self._begins(rows)
            # More rows of the last key may come.
            yield self._one_each(rows.slice(0, begins[-1]), begins[:-1])
            rest = rows.slice(begins[-1])
        if rest is not None:
            yield self._one_each(rest, self._begins(rest))

    def _begins(self, rows: pa.RecordBatch) -> list[int]:
        """The indexes of the rows at which another key begins; at least one."""
        other = np.zeros(rows.num_rows, np.bool_)
        other[:1] = True
        for name in self._key:
            column = rows.column(name)
            differs = pc.fill_null(pc.not_equal(column.slice(1), column.slice(0, max(0, rows.num_rows - 1))), True)
            other[1:] |= differs.to_numpy(zero_copy_only=False)
        return list(np.flatnonzero(other)) or [0]

    def _one_each(self, rows: pa.RecordBatch, begins: Sequence[int]) -> pa.RecordBatch:
        """The change of each key.

        Args:
            rows: all rows of some keys.
            begins: where those of each key begin.
        """
        operations = rows.column(ROW_OPERATION).to_numpy(zero_copy_only=False)
        if rows.num_rows:
            starts = np.asarray(begins)
            is_row, is_again = operations != DELETES, operations == REINSERTS
            of_key = np.add.reduceat(is_row.astype(np.int64), starts)
            if of_key.max() > 1:
                raise self._duplicate(rows, int(starts[int(np.argmax(of_key > 1))]))
            deleted = np.add.reduceat((~is_row).astype(np.int64), starts) > 0
            moved = np.add.reduceat(is_again.astype(np.int64), starts).astype(np.bool_) & ~deleted
            if moved.any():
                raise self._moved(rows, int(starts[int(np.argmax(moved))]))
            last = np.append(starts[1:], rows.num_rows) - 1
            rows, operations = rows.take(pa.array(last)), operations[last]
        return rows.drop_columns([ROW_OPERATION]).append_column(DELETED, pa.array(operations == DELETES))

    def _duplicate(self, rows: pa.RecordBatch, index: int) -> DuplicateKeyError:
        return DuplicateKeyError(
            f'the statement would give stream "{self.plan.stream}" two rows with the primary key '
            f"{self._shown(rows, index)}: nothing was written; let its source have one row for each key"
        )

    def _moved(self, rows: pa.RecordBatch, index: int) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            f'the statement would change the primary key of a row of stream "{self.plan.stream}" to '
            f"{self._shown(rows, index)}, where another row may be: nothing was written; DELETE the row, and INSERT "
            "it with its new key"
        )

    def _shown(self, rows: pa.RecordBatch, index: int) -> str:
        return "(" + ", ".join(f"{name} = {rows.column(name)[index]}" for name in self._key) + ")"
