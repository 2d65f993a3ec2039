"""Faults that the product has had, or could have, brought back: the simulation has to see each of them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from model_patches import simulation_client

from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.transactions import ControllerTransactions
from pyspark_pravega.client.names import SegmentRange, Successor
from pyspark_pravega.client.positions import replacement
from pyspark_pravega.client.routing import segment_of
from pyspark_pravega.client.segments import gather, gathering
from pyspark_pravega.connector.log import (
    JobLog,
    Ledger,
    Replacement,
    Snapshot,
    State,
    cleaning,
    ledger,
    recovery,
    snapshot,
    tail,
)
from pyspark_pravega.connector.log.entries import Intent
from pyspark_pravega.connector.stream import StreamFrontier, frontier
from pyspark_pravega.connector.write import DeltaJob, overwrite
from pyspark_pravega.connector.write.commit import Stage, attempts, committer, promise
from pyspark_pravega.connector.write.commit.attempts import Attempts
from pyspark_pravega.connector.write.commit.promise import Promise
from pyspark_pravega.connector.write.commit.stages import Standing
from pyspark_pravega.connector.write.job import CommitReport, WriteJob
from pyspark_pravega.connector.write.overwrite import OverwritingJob
from pyspark_pravega.connector.write.task import TransactionTask
from pyspark_pravega.errors import (
    NotFoundError,
    OperationFailedError,
    PravegaError,
)

Fault = Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def truncation_beside_the_log() -> Iterator[None]:
    """An overwrite is an INSERT; then the stream is truncated where the rows had ended when the commit began."""

    def commit_job(self: OverwritingJob, told: Any, epoch: Any = None, seen: Any = ()) -> CommitReport:
        client = simulation_client()
        cut = StreamCut(self.plan.stream, snapshot.take_snapshot(client, self.plan.stream).cut)
        # Of this job only: others commit meanwhile, and a driver may die here.
        self.replaces = False
        try:
            report = WriteJob.commit_job(self, told, epoch)
        finally:
            del self.replaces
        with contextlib.suppress(PravegaError):
            client.truncate(cut)
        return report

    with (
        patch.object(OverwritingJob, "commit_job", commit_job),
        patch.object(OverwritingJob, "replacement", WriteJob.replacement),
    ):
        yield


@contextlib.contextmanager
def cut_noted_before_settling() -> Iterator[None]:
    """An overwrite takes the cut before it waits for the commit in progress, and what comes between stays."""
    begin = OverwritingJob.commit_job

    def commit_job(self: OverwritingJob, told: Any, epoch: Any = None, seen: Any = ()) -> CommitReport:
        client = simulation_client()
        self.noted = snapshot.take_snapshot(client, self.plan.stream).cut  # type: ignore[attr-defined]
        return begin(self, told, epoch, ())

    def replacement(self: OverwritingJob, log: Ledger, state: State) -> Replacement:
        return Replacement(begins=self.noted)  # type: ignore[attr-defined]

    with (
        patch.object(OverwritingJob, "commit_job", commit_job),
        patch.object(OverwritingJob, "replacement", replacement),
    ):
        yield


@contextlib.contextmanager
def reads_not_compared() -> Iterator[None]:
    """An overwrite doesn't ask whether what it has read is still the table: rows of others are lost."""
    with patch.object(overwrite, "is_unchanged", lambda *_: True):
        yield


@contextlib.contextmanager
def replaced_rows_visible() -> Iterator[None]:
    """Readers don't leave out what a replacement has left: until the truncation old and new rows are there."""

    def all_of_it(tail: Snapshot, begins: Any) -> Snapshot:
        return tail

    with patch.object(snapshot, "behind", all_of_it):
        yield


@contextlib.contextmanager
def times_go_back() -> Iterator[None]:
    """A version has whatever time its driver's clock shows."""

    def greatest(*values: Any, default: Any = None) -> Any:
        # Of two numbers the first one; elsewhere as ever.
        return values[0] if len(values) == 2 else max(*values, default=default)

    with patch.object(ledger, "max", greatest, create=True):
        yield


@contextlib.contextmanager
def failed_aborts_believed() -> Iterator[None]:
    """A commit is withdrawn while its transaction is open: the abort has failed."""

    def abort(self: Any, stream: Stream, transaction: uuid.UUID) -> bool:
        try:
            return bool(self._status("abortTransaction", _request(stream, transaction)) == 0)
        except (NotFoundError, OperationFailedError):
            return False

    with patch.object(ControllerTransactions, "abort_transaction", abort):
        yield


@contextlib.contextmanager
def commits_half_visible() -> Iterator[None]:
    """Readers don't ask the log whether a commit is under way."""

    def visible(client: Client, log: Ledger | None) -> snapshot.Visible:
        return snapshot.Visible(state=None if log is None else log.state())

    with patch.object(snapshot, "_visible", visible):
        yield


@contextlib.contextmanager
def settled_too_early() -> Iterator[None]:
    """What cleaning finds in the log counts as settled: a commit that was begun meanwhile is overwritten."""
    clean = cleaning.clean

    def cleaned(client: Client, log: Ledger, state: State) -> State:
        after = clean(client, log, state)
        return replace(after, pending=None)

    with patch.object(recovery, "clean", cleaned):
        yield


@contextlib.contextmanager
def epochs_not_counted() -> Iterator[None]:
    """A driver doesn't look whether its epoch is a version already."""

    def complete(self: Ledger, state: State, after: State, changes: Any, *_: Any) -> State:
        return self._change(state, after, *changes)

    with patch.object(Ledger, "_complete_epoch", complete):
        yield


@contextlib.contextmanager
def repeats_known_for_a_while() -> Iterator[None]:
    """A commit that is asked for again is looked for among the last versions only."""

    def is_version(self: Promise) -> bool:
        last = self._ledger.state().version
        return any(commit.job == str(self._job) for commit in self._ledger.commits(range(last, max(0, last - 16), -1)))

    known = Promise.recognise

    def recognise(self: Promise, written: Any, epoch: Any = None) -> Standing:
        standing = known(self, written, epoch)
        if standing.stage is Stage.UNPROMISED and self.is_version():
            return replace(standing, stage=Stage.COMMITTED)
        return standing

    with (
        patch.object(Promise, "is_version", is_version),
        patch.object(Promise, "recognise", recognise),
        patch.object(JobLog, "commit", lambda self: None),
        patch.object(promise, "is_any_committed", lambda *_: False),
    ):
        yield


# Scaling


@contextlib.contextmanager
def later_segments_left_out() -> Iterator[None]:
    """Behind a replacement readers take its own segments only, and not those that came out of a later scale."""

    def behind(found: Snapshot, begins: Any) -> Snapshot:
        kept = tail.behind(found, begins)
        return replace(kept, parts=tuple(part for part in kept.parts if part.segment_id in begins))

    with patch.object(snapshot, "behind", behind):
        yield


@contextlib.contextmanager
def other_epochs_left_out() -> Iterator[None]:
    """Of a write whose tasks have transactions of several epochs only one epoch's are committed."""

    def of_one_epoch(client: Client, staged: Any, **named: Any) -> Any:
        target = gathering.target_of(staged, **named)
        left = [one for one in staged if target is None or one.transaction.epoch == target.epoch]
        return gather(client, left, **named)

    with patch.object(attempts, "gather", of_one_epoch):
        yield


@contextlib.contextmanager
def blocks_not_cut() -> Iterator[None]:
    """Transactions of several epochs become one as if no block had events of two of its segments."""

    def first_of(cell: SegmentRange, ranges: Sequence[SegmentRange]) -> int | None:
        return segment_of(replace(cell, max_key=cell.min_key), ranges)

    with patch.object(gathering, "segment_of", first_of), patch.object(TransactionTask, "_borders", lambda *_: ()):
        yield


@contextlib.contextmanager
def epochs_committed_one_by_one() -> Iterator[None]:
    """Each epoch's transactions become one, and these are committed one after another: a lease may end in between."""

    def by_epoch(self: Attempts) -> Any:
        staged = self._staged
        if len({one.transaction.segments.ids for one in staged}) < 2:
            return whole(self)
        shared = next((one.transaction for one in staged if one.parts is not None), None)
        spoiled = {shared.id} if shared is not None and self._is_spoiled(shared.id) else set()
        epochs: dict[int, list[Any]] = {}
        for one in staged:
            epochs.setdefault(one.transaction.epoch, []).append(one)
        first, *others = [gather(self._client, epochs[epoch], spoiled=spoiled) for epoch in sorted(epochs)]
        later[first] = others
        return first

    def intent(job: uuid.UUID, target: Any, *given: Any) -> Intent:
        first = promise.intent_of(job, target, *given)
        return replace(first, transactions=(*first.transactions, *(str(one.id) for one in later.get(target, ()))))

    whole, later = Attempts.gather, dict[Any, list[Any]]()
    with patch.object(Attempts, "gather", by_epoch), patch.object(committer, "intent_of", intent):
        yield


# Attempts that are repeated


@contextlib.contextmanager
def late_attempts_let_in() -> Iterator[None]:
    """An attempt doesn't see that its job is over: nobody ends its transaction."""
    with patch.object(JobLog, "is_open", lambda self: True):
        yield


@contextlib.contextmanager
def lost_attempts_counted() -> Iterator[None]:
    """The shared transaction is committed with all that is in it, though an attempt has written that doesn't count."""

    with patch.object(Attempts, "_is_spoiled", lambda *_: False):
        yield


# Tables that become other tables


@contextlib.contextmanager
def replacements_finished_at_once() -> Iterator[None]:
    """Whoever finishes a replacement doesn't ask whether somebody else does: the last one may be of an older table."""
    with patch.object(Ledger, "schemas_locked", lambda self: contextlib.nullcontext()):
        yield


@contextlib.contextmanager
def other_tables_written() -> Iterator[None]:
    """A write doesn't ask whether the table is the one that it was planned for."""
    make = Promise.make

    def unchecked(self: Promise, *given: Any) -> Standing:
        self._plan = replace(self._plan, replaced_table=self._ledger.state().replaced_table)
        return make(self, *given)

    with patch.object(Promise, "make", unchecked):
        yield


@contextlib.contextmanager
def properties_overwritten() -> Iterator[None]:
    """ALTER TABLE writes the properties that it has looked up, and whatever has changed meanwhile is lost."""

    def change(self: Ledger, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        self.set_properties(change(self.properties()))

    with patch.object(Ledger, "change_properties", change):
        yield


# Streaming reads


@contextlib.contextmanager
def batches_half_committed() -> Iterator[None]:
    """A micro-batch ends wherever the segments end, whether a commit is under way or not."""

    def at_once(client: Client, stream: Stream, look: Callable[[snapshot.Visible], Any]) -> Any:
        return look(snapshot.Visible(state=None))

    with patch.object(frontier, "consistently", at_once):
        yield


@contextlib.contextmanager
def successors_too_early() -> Iterator[None]:
    """A merged segment is read before all those in whose place it came are read to their ends."""

    def alone(segment_id: int, after: Callable[[int], tuple[Successor, ...]]) -> tuple[set[int], set[int]]:
        return {segment_id}, replacement(segment_id, after)[1]

    with patch.object(frontier, "replacement", alone):
        yield


@contextlib.contextmanager
def losses_passed_over() -> Iterator[None]:
    """A query that is to fail when events are gone goes on without them."""
    with patch.object(StreamFrontier, "lost", lambda *_: None):
        yield


@contextlib.contextmanager
def replaced_rows_streamed() -> Iterator[None]:
    """A query that begins at the head reads what a replacement has left to be truncated."""

    def head(client: Client, stream: Stream) -> tuple[StreamCut, None]:
        return client.controller.head(stream), None

    with patch.object(frontier, "visible_begin", head):
        yield


@contextlib.contextmanager
def merges_not_compared() -> Iterator[None]:
    """What a MERGE has read isn't compared with what is there when it commits."""
    with patch.object(DeltaJob, "replacement", WriteJob.replacement):
        yield


def _request(stream: Stream, transaction: uuid.UUID) -> pb.TxnRequest:
    return pb.TxnRequest(stream_info=messages.info(stream), txn_id=messages.txn_id(transaction))


FAULTS: tuple[Fault, ...] = (
    truncation_beside_the_log,
    cut_noted_before_settling,
    reads_not_compared,
    replaced_rows_visible,
    times_go_back,
    failed_aborts_believed,
    commits_half_visible,
    settled_too_early,
    epochs_not_counted,
    repeats_known_for_a_while,
    later_segments_left_out,
    other_epochs_left_out,
    blocks_not_cut,
    epochs_committed_one_by_one,
    late_attempts_let_in,
    lost_attempts_counted,
    replacements_finished_at_once,
    other_tables_written,
    properties_overwritten,
    batches_half_committed,
    successors_too_early,
    losses_passed_over,
    replaced_rows_streamed,
    merges_not_compared,
)
