"""Processes that write as Spark's tasks and the catalog process do, and that come to harm at named steps."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import signal
import socket
import stat
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

import pyarrow as pa

from pyspark_pravega.client.controller.transactions import ControllerTransactions
from pyspark_pravega.client.events import transaction_writer
from pyspark_pravega.client.segments import gathering
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.connector.log import Ledger, cleaning
from pyspark_pravega.connector.log.decided import forward
from pyspark_pravega.connector.log.decided.decisions import Decisions
from pyspark_pravega.connector.log.job_log import JobLog
from pyspark_pravega.connector.write.commit import several
from pyspark_pravega.connector.write.commit.several import Several
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.plan import Epoch, WritePlan
from pyspark_pravega.connector.write.task import TransactionTask
from pyspark_pravega.connector.write.writer import take_over
from pyspark_pravega.errors import PravegaError

KILL, CUT, STALL = "kill -9", "connections cut", "stalled"
KINDS = (KILL, CUT, STALL)
_STEPS: dict[str, tuple[Any, str]] = {
    "begin": (ControllerTransactions, "begin_transaction"),
    "transaction shared": (JobLog, "join"),
    "begun ahead": (JobLog, "share"),
    "attempt noted": (JobLog, "add_attempt"),
    "append": (SegmentWriter, "append"),
    "flush": (SegmentWriter, "flush"),
    "task's end": (TransactionTask, "finish"),
    "take over": (Ledger, "take_over"),
    "job opened": (JobLog, "open"),
    "job closed": (JobLog, "close"),
    "merge": (gathering, "_copy"),
    "intent": (Ledger, "begin"),
    "commit": (ControllerTransactions, "commit_transaction"),
    "log entry": (Ledger, "complete"),
    "truncation": (cleaning, "truncate_at"),
    "attempts forgotten": (JobLog, "forget_attempts"),
    "ranges noted": (Ledger, "compacted"),
    "cleaning noted": (Ledger, "cleaned"),
    "record made": (Decisions, "begin"),
    "promises made": (Several, "_hold"),
    "decision": (Decisions, "commit"),
    "rolled forward": (several, "roll_forward"),
    "transaction committed": (forward, "commit_all"),
    "table completed": (forward, "_complete_member"),
    "record forgotten": (Decisions, "forget"),
    "withdrawal": (Decisions, "withdraw"),
    "commit forgotten": (JobLog, "forget_commit"),
}
_TOGETHER = {"append": (transaction_writer, "store_together")}
"""Where little blocks of several segments do the same."""
TOGETHER_STEPS = (
    "record made",
    "intent",
    "promises made",
    "decision",
    "rolled forward",
    "transaction committed",
    "commit",
    "table completed",
    "log entry",
    "record forgotten",
    "withdrawal",
    "commit forgotten",
)
"""Those of a transaction over several tables; some come once for each of them."""
TASK_STEPS = ("begin", "transaction shared", "attempt noted", "append", "flush", "task's end")
DRIVER_STEPS = (
    "take over",
    "job opened",
    "begun ahead",
    "job closed",
    "merge",
    "intent",
    "commit",
    "log entry",
    "attempts forgotten",
)


@dataclass(frozen=True)
class Fault:
    """What happens to a process, and when."""

    step: str
    after: bool
    """Whether it happens when the step is done, else when it is about to be."""
    kind: str
    times: int = 0
    """How often the step is done before."""


@dataclass(frozen=True)
class KeyOfEvent:
    """The routing key of an event "query epoch key number"."""

    def keys(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.array([event.rsplit(b" ", 1)[0].split(b" ", 2)[2].decode() for event in batch.column(0).to_pylist()])


class Child:
    """A process that answers one call after another."""

    def __init__(self, fault: Fault | None = None) -> None:
        context = nursery()
        self._pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, fault), daemon=True)
        self.process.start()
        other.close()

    def call(self, what: Callable[..., Any], *arguments: object, stalled: Callable[[Child], bool]) -> Any:
        """Have it do something.

        Args:
            what: a function that can be pickled.
            arguments: its arguments.
            stalled: called when it has stalled; true to go on waiting for it, false to give it up.

        Raises:
            Lost: it has died, or was given up.
            PravegaError: as the function did.
        """
        try:
            self._pipe.send((what, arguments))
            while True:
                kind, answer = self._pipe.recv()
                if kind == "error":
                    raise answer
                if kind == "answer":
                    return answer
                if not stalled(self):
                    raise Lost
        except (EOFError, OSError) as error:
            raise Lost from error

    def wake(self) -> None:
        """Let a stalled one go on."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self._pipe.close()


@functools.cache
def nursery() -> ForkServerContext:
    """Processes are forked from one that has imported everything: so they cost nearly nothing."""
    context = multiprocessing.get_context("forkserver")
    # What tests have their processes do stands in modules of its own, or in files of tests, which import pytest.
    context.set_forkserver_preload([__name__, "statements", "transaction_steps", "pytest"])
    before = os.environ.get("PYTHONPATH")
    # Python 3.11's fork server imports with the path of the environment only.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


class Lost(Exception):  # noqa: N818
    """The process is gone."""


def begin_job(plan: WritePlan, streaming: bool) -> bytes:
    job = WriteJob(plan)
    if streaming:
        job.begin_ahead()
    return pickle.dumps(job)


def run_task(job: bytes, partition: int, batches: Sequence[Sequence[bytes]]) -> TaskMessage:
    writer: WriteJob = pickle.loads(job)
    return writer.write_partition(
        partition, (pa.record_batch([pa.array(events, pa.binary())], names=["event"]) for events in batches)
    )


def commit_job(job: bytes, messages: Sequence[TaskMessage], epoch: Epoch | None) -> bool:
    writer: WriteJob = pickle.loads(job)
    return writer.commit_job(messages, epoch).repeated


def abort_job(job: bytes, partitions: int) -> None:
    writer: WriteJob = pickle.loads(job)
    writer.abort_job([None] * partitions)


def begin_run(plan: WritePlan, query: str, run: str) -> None:
    take_over(plan, query, run)


def _serve(pipe: Connection, fault: Fault | None) -> None:
    if fault is not None:
        _prepare(pipe, fault)
    while True:
        try:
            what, arguments = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            answer = ("answer", what(*arguments))
        except PravegaError as error:
            answer = ("error", error)
        except Exception:
            # Nobody expects it: the test fails with it.
            answer = ("error", RuntimeError(traceback.format_exc()))
        try:
            pipe.send(answer)
        except OSError:
            os._exit(0)


def place_of(step: str) -> tuple[Any, str]:
    """What does a step, and by which name.

    Args:
        step: the step.
    """
    return _STEPS[step]


def _prepare(pipe: Connection, fault: Fault) -> None:
    places = [_STEPS[fault.step], *([_TOGETHER[fault.step]] if fault.step in _TOGETHER else [])]
    left = [*range(1 + fault.times)]

    def strike() -> None:
        if not left or left.pop():
            return
        if fault.kind == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.kind == STALL:
            pipe.send(("stalled", None))
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            cut_connections()

    def striking(original: Callable[..., Any]) -> Callable[..., Any]:
        def struck(*arguments: Any, **named: Any) -> Any:
            if not fault.after:
                strike()
            result = original(*arguments, **named)
            if fault.after:
                strike()
            return result

        return struck

    for place, name in places:
        setattr(place, name, striking(getattr(place, name)))


def cut_connections() -> None:
    """Shut all TCP connections of this process, whoever uses them."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError, ValueError):
            number = int(name)
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6):
                    one.shutdown(socket.SHUT_RDWR)
