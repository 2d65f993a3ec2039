"""Batches that a Spark worker hands to the JVM in memory that both share, instead of through a socket.

A task's worker makes a ring of buffers in a memory file of Linux (`memfd`), which has no name and is gone when nobody
has it open any more. It writes each batch into a free buffer, as an Arrow stream, and sends where that is. The JVM maps
the file (`jvm/pyspark/pravega/SharedRing.java`), and reads the batch where it lies. What it says comes back through a
pipe, a byte each: the number of a buffer that is free again, or `ASK` before it waits for the worker's next message.

Messages are batches of one binary column and one row, numbers in the machine's order:

| first byte | what follows |
|---|---|
| `OFFER` | int32 process id, memory file, pipe (as files of that process); int64 size; the ring's first bytes |
| `PLACED` | int32 buffer, int64 offset in the ring, int64 length of an Arrow stream |
| `ENCLOSED` | an Arrow stream, from byte 8 on |

A task whose first batch is small sends no messages, but its batches as they are.

Nothing depends on the JVM's taking the offer: batches are enclosed until it has spoken. They are enclosed, too, when
they are small, when a row doesn't fit into a buffer, when the system has no memory for the ring, and when the JVM holds
all buffers and waits for more.
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
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import IO, Any

import pyarrow as pa

from pyspark_pravega.settings import LEAST_SHARED_MEMORY

ENCLOSED, PLACED, OFFER = 0, 1, 2
ASK = 255
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
_offer, _placed = struct.Struct("=B3xiiiq"), struct.Struct("=B3xiqq")


@functools.cache
def why_not() -> str | None:
    """What is missing here for a ring.

    Returns:
        A sentence, or None when a ring can be made.
    """
    if not sys.platform.startswith("linux") or not hasattr(os, "memfd_create"):
        return "this system has no memory files (memfd): that takes Linux and a Python that was built for it"
    try:
        Ring(LEAST_SHARED_MEMORY).close()
    except OSError as error:
        return f"no memory file can be made here ({error.strerror})"
    return None


class Handover:
    """A read function of Spark's, which hands its batches over in shared memory where the JVM asks for that.

    The JVM asks by two more columns in the function's input: a name that no column has, by which it knows the
    messages, and how many bytes the ring may have.
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
        name, size = asked.column(1)[0].as_py(), asked.column(2)[0].as_py()
        output = _output()
        if output is None or why_not() is not None:
            return iter(rows)
        return _handed_over(iter(rows), name, size, output)


def _output() -> IO[bytes] | None:
    """The file into which Spark's worker writes what the function that runs gives; None where it is done otherwise."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "dump_stream":
            stream: IO[bytes] | None = frame.f_locals.get("stream")
            return stream if hasattr(stream, "flush") else None
    return None


def _handed_over(
    batches: Iterator[pa.RecordBatch], name: str, size: int, output: IO[bytes]
) -> Generator[pa.RecordBatch, None, None]:
    """Batches as they are, or messages about them: the first one decides, because a task's answers have one schema."""
    first = next(batches, None)
    if first is not None:
        large = pa.ipc.get_record_batch_size(first) >= WORTH_BYTES
        yield from _messages(first, batches, name, size, output) if large else chain([first], batches)


def _messages(
    first: pa.RecordBatch, batches: Iterator[pa.RecordBatch], name: str, size: int, output: IO[bytes]
) -> Generator[pa.RecordBatch, None, None]:
    schema = pa.schema([pa.field(name, pa.binary(), nullable=False)])

    def message(text: pa.Buffer) -> pa.RecordBatch:
        offsets = pa.py_buffer(struct.pack("=ii", 0, len(text)))
        column = pa.BinaryArray.from_buffers(pa.binary(), 1, [None, offsets, text])
        return pa.RecordBatch.from_arrays([column], schema=schema)

    sender: _Sender | None = None
    with contextlib.suppress(OSError):
        sender = _Sender(size, first.schema)
    try:
        if sender is not None:
            yield message(pa.py_buffer(sender.offer))
            output.flush()
        for batch in chain([first], batches):
            for piece in [batch] if sender is None else sender.fitting(batch):
                placed = None if sender is None else sender.place(piece)
                yield message(_enclosed(piece) if placed is None else pa.py_buffer(placed))
                # Spark's worker collects 64 KiB: the JVM would wait for what is said here, and this for the JVM.
                output.flush()
    finally:
        if sender is not None:
            sender.close()


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
        self.buffer_bytes = size // BUFFERS // mmap.PAGESIZE * mmap.PAGESIZE
        self.size = _HEAD_BYTES + BUFFERS * self.buffer_bytes
        self.token = secrets.token_bytes(16)
        self._taken = [0] * BUFFERS
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
        return True

    def write(self, buffer: int, batch: pa.RecordBatch) -> int:
        """Write a batch, as an Arrow stream.

        Args:
            buffer: the buffer's number; its memory is taken.
            batch: fits into it.

        Returns:
            The length in bytes.
        """
        begin = self.offset(buffer)
        target = pa.py_buffer(self._memory[begin : begin + self.buffer_bytes])
        with pa.FixedSizeBufferWriter(target) as sink:
            with pa.ipc.RecordBatchStreamWriter(sink, batch.schema) as writer:
                writer.write_batch(batch)
            return int(sink.tell())


class _Sender:
    """The worker's side of one task."""

    def __init__(self, size: int, schema: pa.Schema) -> None:
        self._replies, said = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._ring = Ring(size)
        except OSError:
            os.close(self._replies)
            os.close(said)
            raise
        self._around = len(schema.serialize()) + 64
        """What a stream has around its batch, at most, in bytes."""
        self._said: int | None = said
        """This process's own way into the pipe, open until the JVM has one."""
        self._free = list(range(BUFFERS))
        self._asked = self._sent = 0
        """The messages behind the offer that the JVM has waited for, and those that were given."""
        self._over = False
        self._parent = os.getppid()
        head = _offer.pack(OFFER, os.getpid(), self._ring.file, said, self._ring.size)
        self.offer = head + self._ring.token

    def close(self) -> None:
        self._ring.close()
        os.close(self._replies)
        if self._said is not None:
            os.close(self._said)

    def fitting(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """A batch in pieces that fit into a buffer, if its rows do."""
        if batch.num_rows <= 1 or self._bytes(batch) <= self._ring.buffer_bytes:
            yield batch
            return
        half = batch.num_rows // 2
        yield from self.fitting(batch.slice(0, half))
        yield from self.fitting(batch.slice(half))

    def place(self, batch: pa.RecordBatch) -> bytes | None:
        """Put a batch into the ring.

        Returns:
            The message that tells where it is; None when it must be enclosed.
        """
        size = self._bytes(batch)
        self._sent += 1
        if not SMALL_BYTES < size <= self._ring.buffer_bytes or not self._wait_for_buffer():
            return None
        # The one that was used last: its memory is there already, and may still be in the processor's cache.
        buffer = self._free[-1]
        if not self._ring.take(buffer, size):
            return None
        self._free.pop()
        return _placed.pack(PLACED, buffer, self._ring.offset(buffer), self._ring.write(buffer, batch))

    def _bytes(self, batch: pa.RecordBatch) -> int:
        return int(pa.ipc.get_record_batch_size(batch)) + self._around

    def _wait_for_buffer(self) -> bool:
        """Whether a buffer is free, now or when the JVM has gone on."""
        self._listen()
        if self._said is not None:
            return False
        while not self._free and not self._over and self._asked < self._sent:
            if not select.select([self._replies], [], [], _ALIVE_S)[0] and os.getppid() != self._parent:
                self._over = True
            self._listen()
        return bool(self._free) and not self._over

    def _listen(self) -> None:
        """Take what the JVM has said."""
        try:
            replies = os.read(self._replies, 4096)
        except BlockingIOError:
            return
        self._over = not replies
        for reply in replies:
            if reply == ASK:
                self._asked += 1
            else:
                self._free.append(reply)
        if self._said is not None:
            # The JVM has opened the pipe: from now on its end is the pipe's end.
            os.close(self._said)
            self._said = None
