"""The attempts of a job's tasks: the transactions that they have noted, and those of them that count."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from itertools import chain

from pyspark_pravega.client import Client, Staged, Transaction
from pyspark_pravega.client.events import abort_quietly
from pyspark_pravega.client.segments import gather, target_of
from pyspark_pravega.connector.index import BlockIndex
from pyspark_pravega.connector.log import JobLog
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.connector.write.task import Written


def transactions_of(tasks_written: Iterable[Written]) -> set[uuid.UUID]:
    """The transactions that tasks have written.

    Args:
        tasks_written: what they tell.
    """
    return {one.staged.transaction.id for one in tasks_written if one.staged is not None}


class Attempts:
    """All attempts of a job that takes no more of them."""

    def __init__(
        self, client: Client, log: JobLog, plan: WritePlan, partitions: int, tasks_written: Sequence[Written] = ()
    ) -> None:
        """Look for them.

        Args:
            client: the cluster.
            log: what the stream's commit log knows of the job, which is closed.
            plan: how it writes.
            partitions: how many partitions it has.
            tasks_written: what the attempts that count have written.
        """
        self._client, self._log, self._plan, self._partitions = client, log, plan, partitions
        self._by_partition, shared = log.attempts_by_partition(partitions)
        self.written = [one for one in tasks_written if one.staged is not None]
        """Of those that count and have written rows."""
        self._staged = [one.staged for one in self.written if one.staged is not None]
        self.noted: Set[uuid.UUID] = dict.fromkeys([*chain.from_iterable(self._by_partition), *shared]).keys()
        """The transactions of all attempts, and the one that was begun for them."""
        self.winners = transactions_of(tasks_written)
        """The transactions in which what counts lies, or is brought; there others may have written, too."""

    def gather(self) -> Transaction | None:
        """The transaction that holds what counts, and nothing else: usually the shared one, as it is.

        Returns:
            None where there are no rows.

        Raises:
            TransactionError: a transaction was lost, or the stream was scaled, and none can take what the others hold.
        """
        staged = self._staged
        if not staged:
            return None
        shared = next((one.transaction for one in staged if one.parts is not None), None)
        spoiled = {shared.id} if shared is not None and self._is_spoiled(shared.id) else set()
        if target_of(staged, spoiled=spoiled) is None:
            plan = self._plan
            other = self._client.controller.begin_transaction(plan.stream, lease_ms=plan.lease_ms)
            self.winners.add(other.id)
            self._log.add_attempt(0, other.id, late=True)
            staged = [*staged, Staged(transaction=other, written={})]
        return gather(self._client, staged, spoiled=spoiled)

    def index(self, target: Transaction | None) -> BlockIndex | None:
        """The figures of all that counts; None where they aren't asked for, or there are no rows.

        Args:
            target: the transaction that holds it.
        """
        if target is None or not all(one.blocks for one in self.written):
            return None
        blocks = [block for one in self.written for block in one.blocks]
        sizes: Counter[int] | None = None
        if all(one.transaction.id == target.id for one in self._staged) and all(block.parts for block in blocks):
            sizes = Counter()
            for one in self._staged:
                sizes.update({segment_id: size for segment_id, (_, size) in one.written.items()})
        return BlockIndex.of(self._plan.index, blocks, sizes)

    def abort(self, transactions: Iterable[uuid.UUID]) -> None:
        """Throw transactions away. Of one that is committed the controller aborts nothing.

        Args:
            transactions: which ones.
        """
        for transaction in transactions:
            abort_quietly(self._client, self._plan.stream, transaction)

    def forget(self) -> None:
        """Remove what the attempts have noted."""
        self._log.forget_attempts(self._partitions, indexed=bool(self._plan.index))

    def _is_spoiled(self, shared: uuid.UUID) -> bool:
        """Whether an attempt that doesn't count has written into the shared transaction as well."""
        counted = {one.partition for one in self.written if one.staged is not None and one.staged.parts is not None}
        return any(shared in noted and number not in counted for number, noted in enumerate(self._by_partition))
