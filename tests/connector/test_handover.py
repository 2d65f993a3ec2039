"""The worker's side of batches in shared memory, beside a reader that opens its files as the JVM does."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

from pyspark_pravega.connector import handover
from pyspark_pravega.connector.handover import ASK, ENCLOSED, OFFER, PLACED, Handover

MARK = "mark"
SIZE = 4 << 20


class Reader:
    """What the JVM does: opens the files, says what it waits for, and gives buffers back."""

    def __init__(self, messages: Iterator[pa.RecordBatch], *, takes: bool = True) -> None:
        self._messages, self._takes = messages, takes
        self.kinds: list[int] = []
        self.held: list[int] = []
        self._memory: mmap.mmap | None = None
        self._replies: int | None = None

    def next(self) -> pa.RecordBatch | None:
        """The next batch, in a copy; None for an offer."""
        if self._replies is not None:
            self._say(ASK)
        message = next(self._messages)
        assert message.schema.names == [MARK]
        assert message.num_rows == 1
        text = message.column(0)[0].as_py()
        self.kinds.append(text[0])
        if text[0] == OFFER:
            if self._takes:
                self._open(text)
            return None
        if text[0] == ENCLOSED:
            return pa.ipc.open_stream(text[8:]).read_next_batch()
        buffer, offset, length = struct.unpack_from("=iqq", text, 4)
        assert buffer not in self.held
        self.held.append(buffer)
        assert self._memory is not None
        return pa.ipc.open_stream(self._memory[offset : offset + length]).read_next_batch()

    def give_back(self) -> None:
        """The buffer that has been held longest."""
        self._say(self.held.pop(0))

    def end(self) -> None:
        """As at a task's end."""
        assert self._replies is not None
        os.close(self._replies)

    def _open(self, text: bytes) -> None:
        pid, file, pipe, size = struct.unpack_from("=iiiq", text, 4)
        opened = os.open(f"/proc/{pid}/fd/{file}", os.O_RDWR)
        self._memory = mmap.mmap(opened, size)
        os.close(opened)
        assert self._memory[:16] == text[24:]
        self._replies = os.open(f"/proc/{pid}/fd/{pipe}", os.O_WRONLY)

    def _say(self, what: int) -> None:
        assert self._replies is not None
        os.write(self._replies, bytes([what]))


@pytest.fixture
def output(tmp_path: Path) -> Iterator[IO[bytes]]:
    with (tmp_path / "output").open("wb") as stream:
        yield stream


def dump_stream(given: list[pa.RecordBatch], stream: IO[bytes], columns: int = 3) -> Iterator[pa.RecordBatch]:
    """As Spark's worker calls a function, in a frame of this name with a file of that name."""
    request = pa.record_batch({"partition": [b"p"], "mark": [MARK], "bytes": [SIZE]}).select(list(range(columns)))
    return Handover(lambda _: iter(given))(iter([request]))


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + count))})


BATCHES = [numbers(40_000, at) for at in range(0, 400_000, 40_000)]
"""Of 320 kB each: buffers have 1 MiB."""


def test_batches_lie_in_buffers_that_are_used_again(output: IO[bytes]) -> None:
    reader = Reader(dump_stream(BATCHES, output))
    assert reader.next() is None
    for expected in BATCHES:
        batch = reader.next()
        assert batch is not None
        assert batch.equals(expected)
        if len(reader.held) > 1:
            reader.give_back()
    # The first one was written before the reader had said anything.
    assert reader.kinds == [OFFER, *[PLACED] * 10] or reader.kinds == [OFFER, ENCLOSED, *[PLACED] * 9]
    with pytest.raises(StopIteration):
        reader.next()


def test_a_reader_that_holds_all_buffers_and_waits_gets_enclosed_batches(output: IO[bytes]) -> None:
    reader = Reader(dump_stream(BATCHES, output))
    reader.next()
    assert [reader.next() for _ in BATCHES] == BATCHES
    assert reader.kinds.count(PLACED) == handover.BUFFERS
    assert sorted(reader.held) == list(range(handover.BUFFERS))


def test_nobody_waits_for_a_reader_that_takes_no_offer_or_has_ended(output: IO[bytes]) -> None:
    deaf = Reader(dump_stream(BATCHES, output), takes=False)
    assert [deaf.next() for _ in range(11)] == [None, *BATCHES]
    assert deaf.kinds == [OFFER, *[ENCLOSED] * 10]
    messages = dump_stream(BATCHES, output)
    ended = Reader(messages)
    ended.next()
    first = [ended.next() for _ in range(3)]
    ended.end()
    rest = list(messages)
    assert first == BATCHES[:3]
    assert [message.column(0)[0].as_py()[0] for message in rest] == [ENCLOSED] * 7


def test_large_batches_come_in_pieces_and_large_rows_enclosed(output: IO[bytes]) -> None:
    large, huge = numbers(400_000), pa.record_batch({"b": [b"x" * 2_000_000]})
    reader = Reader(dump_stream([large], output))
    found: list[pa.RecordBatch] = []
    while sum(batch.num_rows for batch in found) < 400_000:
        batch = reader.next()
        if batch is not None:
            found.append(batch)
            while reader.held:
                reader.give_back()
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([large]).combine_chunks())
    assert PLACED in reader.kinds
    mixed = [huge, huge.slice(0, 0), pa.record_batch({"b": [b"x"]})]
    reader = Reader(dump_stream(mixed, output))
    assert [reader.next() for _ in range(4)] == [None, *mixed]
    assert reader.kinds == [OFFER, ENCLOSED, ENCLOSED, ENCLOSED]


def test_what_is_small_or_not_asked_for_goes_as_it_is(output: IO[bytes]) -> None:
    small = [numbers(1000), *BATCHES]
    assert list(dump_stream(BATCHES, output, columns=1)) == BATCHES
    assert list(dump_stream(small, output)) == small
    assert list(dump_stream([], output)) == []


def test_no_memory_is_enclosed(output: IO[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own refusal: a limit on the size of files, which memory files have, too."""
    import resource

    assert handover.why_not() is None
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE // 8, before[1]))
    try:
        messages = list(dump_stream(BATCHES, output))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [message.column(0)[0].as_py()[0] for message in messages] == [ENCLOSED] * 10


def test_nothing_stays(output: IO[bytes]) -> None:
    before = set(os.listdir("/proc/self/fd"))
    for taken in (1, 5, 11):
        messages = dump_stream(BATCHES, output)
        reader = Reader(messages)
        for _ in range(taken):
            reader.next()
        reader.end()
        messages.close()  # type: ignore[attr-defined]
        del reader
    assert set(os.listdir("/proc/self/fd")) == before
    assert "pravega-batches" not in Path("/proc/self/maps").read_text()
