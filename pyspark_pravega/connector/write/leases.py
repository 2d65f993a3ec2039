"""The leases of a job's transactions: how they are renewed, and what is said where one ran out."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.options import MAX_LEASE_MS
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.connector.write.task import Written
from pyspark_pravega.errors import LeaseExpiredError, PravegaError, QueryTakenOverError, TransactionError

_log = logging.getLogger(__name__)


@contextmanager
def renewed(renew: Callable[[], None], every_s: float, job: uuid.UUID) -> Iterator[None]:
    """Renew a job's leases meanwhile, from a thread.

    Args:
        renew: does so once.
        every_s: how often.
        job: its id.
    """
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            try:
                renew()
            except PravegaError as error:
                _log.warning("transactions of job %s could not be kept open, trying again: %s", job, error)

    threading.Thread(target=run, name=f"job-{job}", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def explaining_expired_leases(plan: WritePlan, written: Sequence[Written]) -> Iterator[None]:
    """Say of a lost transaction that its lease was over, where that is what has happened.

    Args:
        plan: how the job writes.
        written: what its tasks have written, at least one.

    Raises:
        LeaseExpiredError: instead of a `TransactionError`.
    """
    begun_ms = now_ms()
    try:
        yield
    except QueryTakenOverError:
        raise
    except TransactionError as error:
        alone_ms = begun_ms - min((one.ended_at for one in written), default=begun_ms)
        if alone_ms < plan.lease_ms:
            raise
        raise LeaseExpiredError(
            f'stream "{plan.stream}": the job went on for {alone_ms / 1000:.0f} s after one of its tasks had '
            f"ended, which is longer than its transaction's lease of {plan.lease_ms / 1000:.0f} s, and nobody "
            "renewed it: nothing was written. Write through the catalog, whose process renews them, or make "
            f"the job shorter; a lease has at most {MAX_LEASE_MS / 1000:.0f} s ({error})"
        ) from error
