"""UPDATE, DELETE and MERGE: rows of a table with a key that change, all of a statement's as one version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from pyspark_pravega.connector.log import Ledger, Replacement, State, take_snapshot
from pyspark_pravega.connector.option_names import ISOLATION_LEVEL, SERIALIZABLE, SNAPSHOT
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import ChangeCodec
from pyspark_pravega.connector.write.changed_rows import ChangesOfKeys
from pyspark_pravega.connector.write.job import TaskMessage
from pyspark_pravega.connector.write.overwrite import ReadingJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.connector.write.read_set import ReadSet
from pyspark_pravega.errors import WriteConflictError


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
        self._changes = ChangesOfKeys(plan.codec.key.columns, f'stream "{plan.stream}"')
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
        return super().write_partition(partition, self._changes.of(batches))

    def replacement(self, ledger: Ledger, state: State) -> Replacement | None:
        """As `WriteJob.replacement`."""
        self._check_columns()
        if self.plan.isolation == SERIALIZABLE and self._seen:
            client, stream = shared_client(self.plan.settings), self.plan.stream
            tail = take_snapshot(client, stream, ledger)
            for one in self._seen:
                if not self._is_same(ledger, tail, state, one):
                    raise self._conflict(state, one)
            # When another commit comes first, only what is newer has to be looked at.
            self._seen = [replace(one, version=state.version, offsets=tail.cut) for one in self._seen]
        return super().replacement(ledger, state)

    def _conflict(self, state: State, seen: ReadSet) -> WriteConflictError:
        which = "rows" if seen.keys is None else "rows with keys"
        return WriteConflictError(
            f'the rows of stream "{self.plan.stream}" were not changed: the statement has read version {seen.version} '
            f"of them, and others have written {which} that it has read since (the last version is {state.version}). "
            f'Nothing was written; run it again, or set "{ISOLATION_LEVEL}" to {SNAPSHOT}, with which the last change '
            "of a row wins"
        )
