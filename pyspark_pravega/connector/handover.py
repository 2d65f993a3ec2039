"""Batches that a Spark worker hands to the JVM in memory that both share, instead of through a socket.

A task's worker makes a ring of buffers in a memory file of Linux (`memfd`), which has no name and is gone when nobody
has it open any more. It writes each batch into a free buffer, as an Arrow stream, and notes where that is in a pipe.
The JVM maps the file (`jvm/common/pyspark/pravega/read/SharedRing.java`), and reads the batch where it lies. What it
says comes back through another pipe, a byte each: the number of a buffer that is free again, `ASK` before it waits for
the worker's next note, or `DONE` when the task has read all and nothing of the ring is open any more.

What goes through Spark's socket are messages: batches of one binary column and one row. Numbers are in the machine's
order.

| first byte of a message | what follows |
|---|---|
| `OFFER` | int32 process id, and of its files: memory, replies, notes; int64 size; the ring's first bytes |
| `ENCLOSED` | an Arrow stream, from byte 8 on |

| first byte of a note | what follows |
|---|---|
| `PLACED` | int32 buffer, int64 offset in the ring, int64 length of an Arrow stream |
| `LAID` | the same, of a batch as the native module's `lay` writes it, behind one that was `PLACED`: same schema |
| `ENCLOSED` | nothing that counts: the next batch comes in a message |

So each batch behind the offer has a note. Where the pipe of notes ends, all that follows comes in messages. A task
whose first batch is small sends no messages, but its batches as they are.

Nothing depends on the JVM's taking the offer: when it hasn't spoken in time the pipe of notes is closed. Batches are
enclosed, too, when they are small, when a row doesn't fit into a buffer, when the system has no memory for the ring,
and when the JVM holds all buffers and waits for more.

To have the system give memory, page by page, costs more than to copy into it twelve times. So a worker keeps its ring
for its next task, which uses it again if the JVM has said `DONE`. Otherwise, as behind a task that was killed or that
didn't read to the end, somebody may still be reading there, and the next task gets a new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import mmap
import os
import secrets
import select
import struct
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import IO, Any

import numpy as np
import pyarrow as pa

from pyspark_pravega.connector.wanted import while_wanted
from pyspark_pravega.frames.native_module import module
from pyspark_pravega.serde.codec import Batch, arrow_batch
from pyspark_pravega.settings import LEAST_SHARED_MEMORY
from pyspark_pravega.spark.output import worker_output

ENCLOSED, PLACED, OFFER, LAID = 0, 1, 2, 3
ASK, DONE = 255, 254
BUFFERS = 4
WORTH_BYTES = 256 << 10
"""A task whose first batch is smaller hands over none in shared memory: messages and mapping cost it more than copies
(measured: benchmarks/RESULTS.md)."""
SMALL_BYTES = 32 << 10
"""Later batches up to this size are enclosed."""
_HEAD_BYTES = mmap.PAGESIZE
"""Before the first buffer: what shows the JVM that it has opened the right file."""
_STEP_BYTES = 256 << 10
"""Memory is taken in steps, as batches need it."""
_ALIVE_S = 2.0
"""How often a worker that waits for the JVM looks whether it still has a parent."""
_ANSWER_S = 0.5
"""How long the JVM is waited for to take an offer. It waits for the worker meanwhile, so a millisecond is usual."""
_MOST_UNANSWERED = 2
"""A worker that had so many offers unanswered makes no more: its JVM can't open its files."""
_COMPACT = {pa.binary_view(): pa.binary(), pa.string_view(): pa.string()}
_taking_views = False
_offer, _note = struct.Struct("=B3xiiiiq"), struct.Struct("=B3xiqq")


@functools.cache
def why_not(size: int = LEAST_SHARED_MEMORY) -> str | None:
    """What is missing here for a ring.

    Args:
        size: how many bytes it may have.

    Returns:
        A sentence, or None when a ring can be made.
    """
    if not sys.platform.startswith("linux") or not hasattr(os, "memfd_create"):
        return "this system has no memory files (memfd): that takes Linux and a Python that was built for it"
    try:
        Ring(size).close()
    except OSError as error:
        return f"no memory file of {size >> 20} MiB can be made here ({error.strerror})"
    return None


class Handover:
    """A read function of Spark's. It ends when nobody reads on, and hands its batches over in shared memory where the
    JVM asks for that.

    By a second column in the function's input the JVM says which file it makes when it reads no more. By two more
    columns it asks for shared memory: a name that no column has, by which it knows the messages, and how many bytes
    the ring may have.
    """

    def __init__(self, read: Any) -> None:
        """Wrap a function.

        Args:
            read: takes an iterator with the batch that holds the pickled partition, and gives batches.
        """
        self._read = read
        # By this Spark knows functions of data sources: for its profiler.
        self.__module__ = read.__module__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, or messages about them.

        Args:
            batches: the input.
        """
        asked = next(batches)
        rows = self._read(chain([asked.select([0])], batches))
        if asked.num_columns == 1:
            return iter(rows)
        wanted, output = while_wanted(iter(rows), asked.column(1)[0].as_py()), worker_output()
        if output is None:
            return wanted
        name, size = (asked.column(at)[0].as_py() for at in (2, 3)) if asked.num_columns == 4 else ("", 0)
        return _handed_over(wanted, name, size if size and why_not(size) is None else 0, output)


def _handed_over(
    batches: Iterator[pa.RecordBatch], name: str, size: int, output: IO[bytes]
) -> Generator[pa.RecordBatch, None, None]:
    """Batches as they are, or messages about them: the first one decides, because a task's answers have one schema."""
    first = next(batches, None)
    if first is None:
        return
    sender = None
    if size and pa.ipc.get_record_batch_size(first) >= WORTH_BYTES:
        sender = _Sender.offering(size, first.schema)
    if sender is not None:
        yield from _messages(sender, chain([first], batches), name, output)
        return
    yield first
    # Spark's worker collects 64 KiB. The first rows may be all that the query wants.
    output.flush()
    yield from batches


def _messages(
    sender: _Sender, batches: Iterator[pa.RecordBatch], name: str, output: IO[bytes]
) -> Generator[pa.RecordBatch, None, None]:
    schema = pa.schema([pa.field(name, pa.binary(), nullable=False)])

    def message(text: pa.Buffer) -> pa.RecordBatch:
        offsets = pa.py_buffer(struct.pack("=ii", 0, len(text)))
        column = pa.BinaryArray.from_buffers(pa.binary(), 1, [None, offsets, text])
        return pa.RecordBatch.from_arrays([column], schema=schema)

    try:
        yield message(pa.py_buffer(sender.offer))
        output.flush()
        sender.wait_for_answer()
        for batch in batches:
            if sender.lay(batch):
                continue
            for piece in sender.fitting(_compact(arrow_batch(batch))):
                if not sender.place(piece):
                    yield message(_enclosed(piece))
                    # Spark's worker collects 64 KiB: the JVM would wait for what is said here, and this for the JVM.
                    output.flush()
    finally:
        sender.close()


def takes_views() -> bool:
    """Whether the batches that are given now may be the native module's, or may have columns of views in place of
    strings and binary values.

    They are put together where the JVM reads them, so the values are copied once.
    """
    return _taking_views


def _compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch without columns of views."""
    if not any(kind in _COMPACT for kind in batch.schema.types):
        return batch
    schema = pa.schema([field.with_type(_COMPACT.get(field.type, field.type)) for field in batch.schema])
    return batch.cast(schema)


def _enclosed(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    sink.write(bytes([ENCLOSED] * 8))
    with pa.ipc.RecordBatchStreamWriter(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


class Ring:
    """A memory file of buffers of one size, mapped into this process."""

    def __init__(self, size: int) -> None:
        """Make the file; it takes no memory yet.

        Args:
            size: the bytes of all buffers.

        Raises:
            OSError: the system gives no such file.
        """
        self.asked_bytes = size
        self.buffer_bytes = size // BUFFERS // mmap.PAGESIZE * mmap.PAGESIZE
        self.size = _HEAD_BYTES + BUFFERS * self.buffer_bytes
        self.token = secrets.token_bytes(16)
        self._taken = [0] * BUFFERS
        self._arrays: dict[int, pa.Array] = {}
        self.file = os.memfd_create("pravega-batches", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.file, self.size)
            # A file that never shrinks can't fail who reads a mapped page.
            fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            os.posix_fallocate(self.file, 0, _HEAD_BYTES)
            self._memory = memoryview(mmap.mmap(self.file, self.size))
        except OSError:
            os.close(self.file)
            raise
        self._memory[: len(self.token)] = self.token

    def close(self) -> None:
        """Give this process's part back; what the JVM has mapped stays until it gives that back."""
        self._arrays.clear()
        del self._memory
        os.close(self.file)

    def offset(self, buffer: int) -> int:
        """Where a buffer begins in the file."""
        return _HEAD_BYTES + buffer * self.buffer_bytes

    def take(self, buffer: int, size: int) -> bool:
        """Have memory for the first bytes of a buffer, so that writing them can't fail.

        Args:
            buffer: its number.
            size: how many bytes.

        Returns:
            Whether the system has it.
        """
        if size > self._taken[buffer]:
            wanted = min(self.buffer_bytes, -(-size // _STEP_BYTES) * _STEP_BYTES)
            try:
                os.posix_fallocate(self.file, self.offset(buffer), wanted)
            except OSError:
                return False
            self._taken[buffer] = wanted
            self._arrays.pop(buffer, None)
        return True

    def taken_bytes(self, buffer: int) -> int:
        """How many of a buffer's bytes there is memory for."""
        return self._taken[buffer]

    def array(self, buffer: int) -> pa.Array:
        """The bytes of a buffer that there is memory for, as an Arrow array that may be written to."""
        if buffer not in self._arrays:
            self._arrays[buffer] = pa.array(np.frombuffer(self.memory(buffer, self._taken[buffer]), np.uint8))
        return self._arrays[buffer]

    def memory(self, buffer: int, size: int) -> memoryview:
        """The first bytes of a buffer."""
        begin = self.offset(buffer)
        return self._memory[begin : begin + size]

    def write(self, buffer: int, batch: pa.RecordBatch) -> int:
        """Write a batch, as an Arrow stream.

        Args:
            buffer: the buffer's number; its memory is taken.
            batch: fits into it.

        Returns:
            The length in bytes.
        """
        target = pa.py_buffer(self.memory(buffer, self.buffer_bytes))
        with pa.FixedSizeBufferWriter(target) as sink:
            with pa.ipc.RecordBatchStreamWriter(sink, batch.schema) as writer:
                writer.write_batch(batch)
            return int(sink.tell())


_kept: list[tuple[Ring, int]] = []
"""The ring of this worker's last task, and the pipe through which the JVM says whether it is done with it."""


def _kept_ring(size: int) -> Ring | None:
    """The last task's ring, if the JVM is done with it and it has that size; otherwise it is let go."""
    while _kept:
        ring, replies = _kept.pop()
        done = False
        with contextlib.suppress(BlockingIOError):
            done = DONE in os.read(replies, 4096)
        if done and ring.asked_bytes == size:
            os.close(replies)
            return ring
        _let_go(ring, replies)
    return None


def _let_go(ring: Ring, replies: int) -> None:
    ring.close()
    os.close(replies)


class _Sender:
    """The worker's side of one task."""

    _unanswered = 0
    """Offers of this process that the JVM hasn't taken, since it took one."""

    def __init__(self, size: int, schema: pa.Schema) -> None:
        files: list[int] = []
        try:
            files += os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            files += os.pipe2(os.O_CLOEXEC)
            self._ring = _kept_ring(size) or Ring(size)
        except OSError:
            for file in files:
                os.close(file)
            raise
        self._replies, said, noted, self._notes = files
        self._jvms = [said, noted]
        """The JVM's ends of both pipes, open here until it has opened them."""
        self._around = len(schema.serialize()) + 64
        """What a stream has around its batch, at most, in bytes."""
        self._free = list(range(BUFFERS))
        self._asked = self._sent = 0
        """The batches that the JVM has waited for, and those that were given."""
        self._over = False
        """Whether all that follows is enclosed, and not noted."""
        self._lay = None if (native := module()) is None else native.lay
        self._schema_told = False
        self._parent = os.getppid()
        head = _offer.pack(OFFER, os.getpid(), self._ring.file, said, noted, self._ring.size)
        self.offer = head + self._ring.token

    @classmethod
    def offering(cls, size: int, schema: pa.Schema) -> _Sender | None:
        """One with something to offer; None where the system has no memory for it, or the JVM takes nothing."""
        with contextlib.suppress(OSError):
            return cls(size, schema) if cls._unanswered < _MOST_UNANSWERED else None
        return None

    def close(self) -> None:
        global _taking_views
        _taking_views = False
        self._end_notes()
        self._listen()
        if self._asked:
            # It has opened the files, if late.
            type(self)._unanswered = 0
        if self._jvms:  # it hasn't taken the offer
            _let_go(self._ring, self._replies)
            for file in self._jvms:
                os.close(file)
        else:
            while _kept:
                _let_go(*_kept.pop())
            _kept.append((self._ring, self._replies))

    def wait_for_answer(self) -> None:
        """Wait until the JVM has taken the offer, or must be taken for one that can't."""
        taken = self._said_within(_ANSWER_S)
        type(self)._unanswered += not taken
        if taken:
            # From now on the pipes' ends are the JVM's.
            while self._jvms:
                os.close(self._jvms.pop())
        else:
            self._end_notes()

    def fitting(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """A batch in pieces that fit into a buffer, if its rows do."""
        if batch.num_rows <= 1 or self._bytes(batch) <= self._ring.buffer_bytes:
            yield batch
            return
        half = batch.num_rows // 2
        yield from self.fitting(batch.slice(0, half))
        yield from self.fitting(batch.slice(half))

    def lay(self, batch: Batch) -> bool:
        """Lay a batch into the ring as it is, and note that; False when that can't be done, and `place` has to."""
        if self._over or self._lay is None or not self._schema_told:
            return False
        write = partial(self._lay, batch) if isinstance(batch, pa.RecordBatch) else batch.lay
        self._sent += 1
        if self._wait_for_buffer():
            # The one that was used last: its memory is there already, and may still be in the processor's cache.
            buffer = self._free[-1]
            length = self._laid_in(buffer, write)
            if SMALL_BYTES < length <= self._ring.taken_bytes(buffer):
                self._free.pop()
                return self._noted(LAID, buffer, self._ring.offset(buffer), length)
        self._sent -= 1
        return False

    def _laid_in(self, buffer: int, write: Callable[[pa.Array, int], int | None]) -> int:
        """How many bytes a batch takes; 0 when it can't be laid.

        It is written into the buffer unless it is small, or larger than the memory that there is.
        """
        length = 0
        for _ in range(2):
            length = write(self._ring.array(buffer), SMALL_BYTES) or 0
            enough = length <= max(SMALL_BYTES, self._ring.taken_bytes(buffer))
            if enough or length > self._ring.buffer_bytes or not self._ring.take(buffer, length):
                break
        return length

    def place(self, batch: pa.RecordBatch) -> bool:
        """Put a batch into the ring and note it, or note that it comes in a message.

        Returns:
            Whether it is in the ring; else it must be enclosed.
        """
        if self._over:
            return False
        size = self._bytes(batch)
        self._sent += 1
        if SMALL_BYTES < size <= self._ring.buffer_bytes and self._wait_for_buffer():
            buffer = self._free[-1]
            if self._ring.take(buffer, size):
                self._free.pop()
                length = self._ring.write(buffer, batch)
                self._tell_schema()
                return self._noted(PLACED, buffer, self._ring.offset(buffer), length)
        self._noted(ENCLOSED, 0, 0, 0)
        return False

    def _tell_schema(self) -> None:
        global _taking_views
        self._schema_told = True
        _taking_views = self._lay is not None

    def _noted(self, *note: int) -> bool:
        """Write a note; False when there is nobody to read it."""
        if not self._over:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._notes, _note.pack(*note))
                return True
            self._end_notes()
        return False

    def _end_notes(self) -> None:
        if not self._over:
            self._over = True
            os.close(self._notes)

    def _bytes(self, batch: pa.RecordBatch) -> int:
        return int(pa.ipc.get_record_batch_size(batch)) + self._around

    def _wait_for_buffer(self) -> bool:
        """Whether a buffer is free, now or when the JVM has gone on."""
        self._listen()
        while not self._free and not self._over and self._asked < self._sent:
            if not self._said_within(_ALIVE_S) and os.getppid() != self._parent:
                self._end_notes()
            self._listen()
        return bool(self._free) and not self._over

    def _said_within(self, seconds: float) -> bool:
        """Whether the JVM says something, or ends."""
        # Not `select`, which takes no file's number above 1,023.
        replies = select.poll()
        replies.register(self._replies, select.POLLIN)
        return bool(replies.poll(seconds * 1000))

    def _listen(self) -> None:
        """Take what the JVM has said."""
        try:
            replies = os.read(self._replies, 4096)
        except BlockingIOError:
            return
        if not replies:
            self._end_notes()
        for reply in replies:
            if reply == ASK:
                self._asked += 1
            else:
                self._free.append(reply)
