"""The methods of the catalog process that are about writes, and about transactions of several statements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.names import to_sql
from pyspark_pravega.catalog.plans import (
    Planner,
    RealTimeBatch,
    Transactions,
    WriteJobs,
    begin_job,
    forget_commit,
    id_in_log,
)
from pyspark_pravega.catalog.process import answers
from pyspark_pravega.catalog.process.messages import (
    BegunTransaction,
    BegunWrite,
    CommitReport,
    CommittedTransaction,
    PlannedWrite,
    PreparedTransaction,
    ReadTable,
)
from pyspark_pravega.catalog.process.pickles import Text64, pickled_write, text_of, value_of
from pyspark_pravega.catalog.statements import Staged, quoted
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.key_value import KeyValuePlan
from pyspark_pravega.connector.write import (
    Epoch,
    ReadSet,
    RowOrigins,
    Stage,
    can_unpack,
    forget_together,
    take_over,
)


class WriteMethods:
    """What Spark's JVM asks about writes. Safe for use by several threads."""

    def __init__(self, catalog: Catalog, planner: Planner, later: Callable[[Callable[[], object]], None]) -> None:
        """Serve the writes of a catalog.

        Args:
            catalog: finds tables.
            planner: plans for it.
            later: does something when the answer to this call is sent.
        """
        self._catalog, self._planner, self._later = catalog, planner, later
        self._jobs = WriteJobs()
        self.transactions = Transactions(self._jobs.stop)

    def plan_write(
        self,
        namespace: list[str],
        table: str,
        options: dict[str, str],
        staged: Staged | None = None,
        trigger: str | None = None,
        checks: list[str] | None = None,
        rows: StructType | None = None,
        case_sensitive: bool = False,
        origins: RowOrigins | None = None,
        transaction: str | None = None,
    ) -> PlannedWrite:
        """Settle a write, before Spark plans its query.

        `checks` names the constraints that Spark checks its rows against; None where it does no such thing. `rows` are
        the columns of a streaming query's rows, and `case_sensitive` says whether names of theirs that
        differ from the table's in case are different ones. `origins` says where a real-time query's come from, and
        `transaction` which one of the session the statement is in.
        """
        plan = self._planner.plan_write(
            *(namespace, table, options, staged, trigger),
            checks=checks,
            rows=rows,
            case_sensitive=case_sensitive,
            origins=origins,
            transaction=self.transactions.of(transaction),
        )
        return answers.planned_write(plan)

    def take_over_query(self, plan: Text64, query: str, run: str, epoch: int | None = None) -> None:
        """Begin or go on with a streaming query, with an epoch: earlier runs of it can't commit any more."""
        settled = value_of(plan)
        if not isinstance(settled, KeyValuePlan):
            # A micro-batch of key-value tables that is repeated puts the same entries again.
            take_over(settled, query, run, epoch=epoch)

    def begin_write(
        self,
        plan: Text64,
        partitions: int,
        packed: StructType | None = None,
        overwrite: bool = False,
        changes: bool = False,
        run: str | None = None,
        epoch: int | None = None,
        start: list[str | None] | None = None,
        streaming: bool = False,
    ) -> BegunWrite:
        """Begin a write, or a micro-batch of a query, and keep its transactions open until its end.

        With `changes` its rows say in a last column, `_row_operation`, what is to become of them. A batch of a
        real-time query has a run, an epoch, and the offsets at which it begins, where these are known. `streaming` says
        that it is a micro-batch.
        """
        unpacked = packed if packed is not None and can_unpack(packed) else None
        batch = None if run is None or epoch is None else RealTimeBatch(run=run, epoch=epoch, start=start or ())
        job = begin_job(
            value_of(plan), partitions, overwrite=overwrite, changes=changes, batch=batch, streaming=streaming
        )
        begun: BegunWrite = {
            "writer": text_of(job),
            "function": pickled_write(job, unpacked),
            "packed": unpacked is not None,
            "job": id_in_log(job),
        }
        self._jobs.keep_alive(job, partitions)
        return begun

    def resume_write(self, writer: Text64, partitions: int) -> None:
        """Keep a write's transactions open in a process that has taken another one's place."""
        self._jobs.keep_alive(value_of(writer), partitions)

    def commit_write(
        self,
        writer: Text64,
        messages: list[Text64 | None],
        query: str | None = None,
        run: str | None = None,
        epoch: int | None = None,
        seen: list[str] | None = None,
        offsets: list[str | None] | None = None,
        transaction: str | None = None,
        cached: list[ReadTable] | None = None,
    ) -> CommitReport:
        """Make a write visible. May be done twice. With query, run and epoch it is that micro-batch.

        Where it replaces or changes rows, `seen` is what the statement has read of them: each `PlannedScan.seen`. With
        a transaction it becomes a part of that; `cached` is what the statement has read that wasn't planned in it.
        """
        ends = None if offsets is None else hashlib.sha256(json.dumps(offsets).encode()).hexdigest()[:32]
        of_query = None if query is None or epoch is None else Epoch(query=query, run=run, number=epoch, offsets=ends)
        job, within = value_of(writer), self.transactions.of(transaction)
        if within is not None:
            report = self._jobs.take_in(within, job, _messages(messages), _by_stream(cached or ()))
        else:
            report = self._jobs.commit(job, _messages(messages), of_query, seen_of(seen))
            self._later(partial(forget_commit, job))
        return {
            "rows": report.rows,
            "bytes": report.bytes,
            "transactions": report.transactions,
            "milliseconds": report.milliseconds,
            "repeated": report.repeated,
        }

    def abort_write(self, writer: Text64, messages: list[Text64 | None], transaction: str | None = None) -> None:
        """Throw a write away. May be done twice; of one in a transaction also while its commit is under way."""
        job = value_of(writer)
        if self.transactions.cancel(transaction, job):
            self._jobs.abort(job, _messages(messages))

    def truncate_table(self, namespace: list[str], table: str, transaction: str | None = None) -> None:
        """Remove all rows of a table."""
        within = self.transactions.of(transaction)
        if within is None:
            self._catalog.relations.truncate(namespace, table)
            return
        # As a write without rows, which takes their place.
        plan = self._planner.plan_write(namespace, table, {}, checks=self._checks(namespace, table), transaction=within)
        job = begin_job(plan, 1, overwrite=True)
        self._jobs.keep_alive(job, 1)
        try:
            self._jobs.take_in(within, job, [None], {})
        except BaseException:
            self._jobs.abort(job, [None])
            raise

    def _checks(self, namespace: list[str], table: str) -> list[str]:
        """The constraints that hold for no row at all."""
        return [check.name for check in self._catalog.load_table(namespace, table).properties.checks if check.enforced]

    # Transactions
    def begin_transaction(self, query: str | None = None, epoch: int | None = None) -> BegunTransaction:
        """Begin a transaction of a session; with query and epoch it is that batch, and counts once."""
        return {"transaction": self.transactions.begin(self._catalog.settings, query, epoch)}

    def resume_transaction(self, transaction: str) -> None:
        """A process that has taken another one's place can't go on with a transaction: its next statement is told."""

    def prepare_transaction(self, transaction: str) -> PreparedTransaction:
        """What `commit_transaction` needs; no further statement may come."""
        prepared, reads = self.transactions.to_commit(transaction)
        return {"prepared": text_of((prepared, reads)), "tables": [_named(one.job.plan.stream) for one in prepared]}

    def commit_transaction(self, transaction: str, prepared: Text64) -> CommittedTransaction:
        """Make all that a transaction has written visible at once. May be done twice, in any process."""
        written, reads = value_of(prepared)
        client = self._catalog.client
        stage = self.transactions.commit(client, transaction, written, reads)
        for one in written:
            self._jobs.consider(one.job.plan)
        self._later(partial(forget_together, client, written))
        return {"repeated": stage is Stage.REPEATED}

    def roll_back_transaction(self, transaction: str) -> None:
        """Throw away what a transaction has written. May be done twice."""
        self.transactions.roll_back(transaction)


def seen_of(texts: list[str] | None) -> list[ReadSet]:
    """What statements have read, as it has travelled."""
    return [ReadSet.from_json(text) for text in texts or ()]


def _named(stream: Stream) -> str:
    """A stream's name in SQL, without the catalog."""
    return f"{quoted(to_sql(stream.scope))}.{quoted(to_sql(stream.name))}"


def _by_stream(read: list[ReadTable] | tuple[()]) -> dict[Stream, list[ReadSet]]:
    by_stream: dict[Stream, list[ReadSet]] = {}
    for one in read:
        by_stream.setdefault(Stream.parse(one["stream"]), []).append(ReadSet.from_json(one["seen"]))
    return by_stream


def _messages(messages: list[Text64 | None]) -> list[Any]:
    return [None if message is None else value_of(message) for message in messages]
