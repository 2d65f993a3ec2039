"""What UPDATE, DELETE and MERGE do to the rows of a table with a key: one change of each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pyspark_pravega.connector.table import DELETED, other_keys
from pyspark_pravega.errors import DuplicateKeyError, UnsupportedOperationError

ROW_OPERATION = "_row_operation"
"""The last column of the rows that Spark hands over: what is to become of each."""
DELETES, INSERTS, REINSERTS = 1, 3, 4
"""Its values, Spark's own (`RowDeltaUtils`): an updated row is deleted and then inserted again."""


class ChangesOfKeys:
    """Makes one change of all that a task is told about a key."""

    def __init__(self, key: Sequence[str], table: str, *, kept_column: str | None = None) -> None:
        """Make changes of a table's rows.

        Args:
            key: the columns of its key.
            table: what it is and its name, for messages.
            kept_column: a column that only rows which delete have, and which is kept with the change of their key.
        """
        self._key, self._table, self._kept_column = key, table, kept_column

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One change of each key: of a row that is deleted and inserted, the insertion.

        Args:
            batches: with the table's columns and `ROW_OPERATION`; all rows of a key stand together, those that delete
                first.

        Yields:
            The same columns, with `DELETED` in the place of `ROW_OPERATION`.

        Raises:
            DuplicateKeyError: two rows of one key would be there.
            UnsupportedOperationError: a row would get another key.
        """
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
        if rows.num_rows:
            other[1:] = other_keys(rows, self._key).to_numpy(zero_copy_only=False)
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
            every, kept = rows, self._kept_column
            rows, operations = every.take(pa.array(last)), operations[last]
            if kept is not None:
                first = every.column(kept).take(pa.array(starts))
                rows = rows.set_column(rows.schema.get_field_index(kept), kept, first)
        return rows.drop_columns([ROW_OPERATION]).append_column(DELETED, pa.array(operations == DELETES))

    def _duplicate(self, rows: pa.RecordBatch, index: int) -> DuplicateKeyError:
        return DuplicateKeyError(
            f"the statement would give {self._table} two rows with the primary key "
            f"{self._shown(rows, index)}: nothing was written; let its source have one row for each key"
        )

    def _moved(self, rows: pa.RecordBatch, index: int) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            f"the statement would change the primary key of a row of {self._table} to "
            f"{self._shown(rows, index)}, where another row may be: nothing was written; DELETE the row, and INSERT "
            "it with its new key"
        )

    def _shown(self, rows: pa.RecordBatch, index: int) -> str:
        return "(" + ", ".join(f"{name} = {rows.column(name)[index]}" for name in self._key) + ")"
