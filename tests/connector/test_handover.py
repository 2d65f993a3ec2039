"""The worker's side of batches in shared memory, beside a reader that opens its files as the JVM does."""

from __future__ import annotations

import contextlib
import mmap
import os
import queue
import resource
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

from pyspark_pravega.connector import handover
from pyspark_pravega.connector.handover import ASK, DONE, ENCLOSED, LAID, OFFER, PLACED, Handover
from pyspark_pravega.frames.native_module import module

MARK = "mark"
SIZE = 4 << 20


class Reader:
    """What the JVM does: opens the files, says what it waits for, and gives buffers back. The worker is a thread."""

    def __init__(self, messages: Iterator[pa.RecordBatch], *, takes: bool = True, opens_late: bool = False) -> None:
        self._takes, self._opens_late = takes, opens_late
        self.kinds: list[int] = []
        """Of what came: of messages where there were no notes, else of notes."""
        self.held: list[int] = []
        self.spoken = threading.Event()
        self._late: pa.RecordBatch | None = None
        self._sent: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
        self._schema: pa.Schema | None = None
        self._memory: mmap.mmap | None = None
        self.ring = 0
        """By which one memory file is told from another."""
        self._replies: int | None = None
        self._notes: int | None = None
        self.worker = threading.Thread(target=self._send, args=[messages])
        self.worker.start()

    def _send(self, messages: Iterator[pa.RecordBatch]) -> None:
        for message in messages:
            self._sent.put(message)
        self._sent.put(None)

    def next(self) -> pa.RecordBatch | None:
        """The next batch, in a copy; None for an offer, and behind the last one."""
        if self._notes is not None and self._replies is not None:
            self._say(ASK)
            note = os.read(self._notes, 24)
            if note and note[0] != ENCLOSED:
                self.kinds.append(note[0])
                return self._shared(note)
            if not note:
                self._end_notes()
        message = self._late or self._sent.get(timeout=30)
        self._late = None
        if message is None:
            return None
        assert message.schema.names == [MARK]
        assert message.num_rows == 1
        text = message.column(0)[0].as_py()
        self.kinds.append(text[0])
        if text[0] == OFFER:
            if self._opens_late:
                # The worker goes on when it has waited in vain.
                self._late = self._sent.get(timeout=30)
            if self._takes:
                self._open(text)
            return None
        assert text[0] == ENCLOSED
        return pa.ipc.open_stream(text[8:]).read_next_batch()

    def give_back(self) -> None:
        """The buffer that has been held longest."""
        self._say(self.held.pop(0))

    def end(self, *, whole: bool = False) -> None:
        """As at a task's end; whole where it has read all."""
        assert self._replies is not None
        if whole:
            self._say(DONE)
        os.close(self._replies)
        self._end_notes()

    def _end_notes(self) -> None:
        if self._notes is not None:
            os.close(self._notes)
            self._notes = None

    def _open(self, text: bytes) -> None:
        pid, file, replies, notes, size = struct.unpack_from("=iiiiq", text, 4)
        opened = os.open(f"/proc/{pid}/fd/{file}", os.O_RDWR)
        self.ring = os.fstat(opened).st_ino
        self._memory = mmap.mmap(opened, size)
        os.close(opened)
        assert self._memory[:16] == text[28:]
        self._notes = os.open(f"/proc/{pid}/fd/{notes}", os.O_RDONLY)
        self._replies = os.open(f"/proc/{pid}/fd/{replies}", os.O_WRONLY)

    def _say(self, what: int) -> None:
        assert self._replies is not None
        # The worker may have ended by now.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._replies, bytes([what]))
        self.spoken.set()

    def _shared(self, note: bytes) -> pa.RecordBatch:
        buffer, offset, length = struct.unpack_from("=iqq", note, 4)
        assert buffer not in self.held
        self.held.append(buffer)
        assert self._memory is not None
        memory = self._memory[offset : offset + length]
        if note[0] == LAID:
            assert self._schema is not None
            return laid(memory, self._schema)
        batch = pa.ipc.open_stream(memory).read_next_batch()
        self._schema = batch.schema
        return batch


def laid(memory: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """A batch by the table before it: see native/src/layout.rs."""
    rows, node_count, piece_count = struct.unpack_from("=qii", memory)
    numbers = struct.iter_unpack("=qq", memory[16 : 16 + 16 * (node_count + piece_count)])
    nodes = [next(numbers) for _ in range(node_count)]
    pieces = [pa.py_buffer(memory[at : at + size]) for at, size in numbers]

    def array(kind: pa.DataType) -> pa.Array:
        length, nulls = nodes.pop(0)
        buffers: list[pa.Buffer | None] = [pieces.pop(0) for _ in range(kind.num_buffers)]
        buffers[0] = buffers[0] if nulls else None
        children = [array(kind.field(at).type) for at in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, length, buffers, nulls, children=children)

    batch = pa.RecordBatch.from_arrays([array(field.type) for field in schema], schema=schema)
    assert (batch.num_rows, nodes, pieces) == (rows, [], [])
    return batch


@pytest.fixture
def output(tmp_path: Path) -> Iterator[IO[bytes]]:
    with (tmp_path / "output").open("wb") as stream:
        yield stream


def dump_stream(
    given: Iterable[pa.RecordBatch], stream: IO[bytes], columns: int = 4, stop: str = "/none"
) -> Iterator[pa.RecordBatch]:
    """As Spark's worker calls a function, in a frame of this name with a file of that name."""
    asked = {"partition": [b"p"], "stop": [stop], "mark": [MARK], "bytes": [SIZE]}
    request = pa.record_batch(asked).select(list(range(columns)))
    return Handover(lambda _: iter(given))(iter([request]))


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + count))})


SHARED = PLACED if module() is None else LAID
"""How batches behind the first one are shared."""
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
    assert reader.kinds == [OFFER, PLACED, *[SHARED] * 9]
    assert reader.next() is None
    reader.worker.join(30)
    assert not reader.worker.is_alive()


def test_a_reader_that_holds_all_buffers_and_waits_gets_enclosed_batches(output: IO[bytes]) -> None:
    reader = Reader(dump_stream(BATCHES, output))
    reader.next()
    assert [reader.next() for _ in BATCHES] == BATCHES
    assert reader.kinds.count(PLACED) + reader.kinds.count(LAID) == handover.BUFFERS
    assert sorted(reader.held) == list(range(handover.BUFFERS))


def test_nobody_waits_for_a_reader_that_takes_no_offer_or_has_ended(output: IO[bytes]) -> None:
    deaf = Reader(dump_stream(BATCHES, output), takes=False)
    assert [deaf.next() for _ in range(11)] == [None, *BATCHES]
    assert deaf.kinds == [OFFER, *[ENCLOSED] * 10]
    ended = Reader(dump_stream(BATCHES, output))
    ended.next()
    assert [ended.next() for _ in range(3)] == BATCHES[:3]
    ended.end()
    # What had been noted before is lost; all that follows is enclosed.
    ended.worker.join(30)
    assert not ended.worker.is_alive()


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


def test_batches_of_every_type_are_laid_out_as_they_are(output: IO[bytes]) -> None:
    if module() is None:
        # The plain way is the whole of it.
        assert SHARED == PLACED
    pad = pa.array(["p" * 300] * 1000)
    columns = {
        "bo": [True, None, False],
        "it": pa.array([1, None, 3], pa.int32()),
        "de": pa.array([1, None, 3], pa.decimal128(20, 3)),
        "st": ["ü", None, ""],
        "ar": [[{"p": 1, "q": "q"}, None], None, []],
        "ma": pa.array([[("k", 1)], None, [("a", None), ("b", 2)]], pa.map_(pa.string(), pa.int64())),
        "sr": [{"x": {"y": [1.5, None]}}, None, {"x": None}],
        "ti": pa.array([1, None, 3], pa.timestamp("us", "UTC")),
    }
    rows = {name: pa.array(values).take(pa.array([0, 1, 2, 1] * 250)) for name, values in columns.items()}
    batch = pa.record_batch({"pad": pad, **rows})
    # A slice isn't laid out as it is.
    for second in (batch, batch.slice(1)):
        reader = Reader(dump_stream([batch, second], output))
        assert [reader.next() for _ in range(3)] == [None, batch, second]
        assert reader.kinds == [OFFER, PLACED, PLACED if second.column(0).offset else SHARED]
        reader.end()


def test_what_views_show_is_put_together_in_the_ring(output: IO[bytes]) -> None:
    texts = pa.array(["long " * 200, None, "short", "", "ü" * 7, "thirteen byte"] * 200)
    binaries = pa.array([b"b" * 500, b"", None] * 400)
    batch = pa.record_batch({"text": texts, "bytes": binaries, "number": pa.array(range(1200))})
    kinds = [pa.string_view(), pa.binary_view(), pa.int64()]
    schema = pa.schema([field.with_type(kind) for field, kind in zip(batch.schema, kinds, strict=True)])
    views, others = batch.cast(schema), batch.take(pa.array(range(3, 1200))).cast(schema)
    # Views of several buffers.
    both = zip(views.columns, others.columns, strict=True)
    joined = pa.RecordBatch.from_arrays([pa.concat_arrays(columns) for columns in both], schema=schema)
    reader = Reader(dump_stream([batch, views, joined], output))
    assert [reader.next() for _ in range(3)] == [None, batch, views.cast(batch.schema)]
    assert reader.next() == joined.cast(batch.schema)
    assert reader.kinds == [OFFER, PLACED, SHARED, SHARED]
    reader.end()
    # What is larger than a buffer comes in pieces, which are put together before.
    columns = [pa.concat_arrays([column] * 4) for column in views.columns]
    large = pa.RecordBatch.from_arrays(columns, schema=schema).cast(batch.schema)
    reader = Reader(dump_stream([batch, large.cast(schema)], output))
    received = [reader.next() for _ in range(4)]
    assert pa.concat_batches([part for part in received[2:] if part is not None]) == large
    assert reader.kinds == [OFFER, PLACED, PLACED, PLACED]
    reader.end()


def test_what_is_small_or_not_asked_for_goes_as_it_is(output: IO[bytes]) -> None:
    small = [numbers(1000), *BATCHES]
    assert list(dump_stream(BATCHES, output, columns=1)) == BATCHES
    assert list(dump_stream(small, output)) == small
    assert list(dump_stream([], output)) == []


@pytest.fixture(autouse=True)
def as_a_new_worker() -> None:
    handover._Sender._unanswered = 0
    while handover._kept:
        handover._let_go(*handover._kept.pop())


@contextlib.contextmanager
def limit(kind: int, value: int) -> Iterator[None]:
    """The system's own refusals."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def test_no_memory_is_enclosed(output: IO[bytes]) -> None:
    """A limit on the size of files, which memory files have, too. It comes when the ring is there already."""
    assert handover.why_not(SIZE) is None
    messages = dump_stream(BATCHES, output)
    given = [next(messages)]
    with limit(resource.RLIMIT_FSIZE, SIZE // 8):
        given += list(messages)
    kinds = [message.column(0)[0].as_py()[0] for message in given]
    assert kinds == [OFFER, *[ENCLOSED] * 10]


@pytest.mark.parametrize("refusal", ["files", "size", "memory"])
def test_where_no_ring_can_be_made_batches_go_as_they_are(output: IO[bytes], refusal: str) -> None:
    """Nothing is left open by a ring that was half made: a file and one of two pipes."""
    before = set(os.listdir("/proc/self/fd"))
    if refusal == "size":
        limits = [(resource.RLIMIT_FSIZE, SIZE // 2)]
    elif refusal == "memory":
        # As of `spark.executor.pyspark.memory`.
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits = [(resource.RLIMIT_AS, pages * mmap.PAGESIZE + SIZE // 2)]
    else:
        # A ring has five files: none of them fits, one, and so on.
        limits = [(resource.RLIMIT_NOFILE, number) for number in unused()[:5]]
    for known in (True, False):
        for kind, value in limits:
            handover.why_not.cache_clear()
            assert not known or handover.why_not(SIZE) is None
            with limit(kind, value):
                assert list(dump_stream(BATCHES, output)) == BATCHES
            assert set(os.listdir("/proc/self/fd")) == before
    handover.why_not.cache_clear()


def unused() -> list[int]:
    """The lowest numbers that no open file has: the system gives them out in this order."""

    def free(number: int) -> bool:
        try:
            os.fstat(number)
        except OSError:
            return True
        return False

    return [number for number in range(2048) if free(number)]


def test_a_ring_that_is_too_large_is_told(output: IO[bytes]) -> None:
    handover.why_not.cache_clear()
    with limit(resource.RLIMIT_FSIZE, SIZE // 2):
        assert handover.why_not() is None
        assert handover.why_not(SIZE) == "no memory file of 4 MiB can be made here (File too large)"
    handover.why_not.cache_clear()


def test_a_worker_with_many_files(output: IO[bytes]) -> None:
    """Numbers of files above 1,023, which the system's `select` doesn't take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard > 2048
    with limit(resource.RLIMIT_NOFILE, max(soft, 2048)):
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
        try:
            reader = Reader(dump_stream(BATCHES[:3], output))
            assert [reader.next() for _ in range(4)] == [None, *BATCHES[:3]]
            assert reader.kinds == [OFFER, PLACED, SHARED, SHARED]
            reader.end()
            reader.worker.join(30)
        finally:
            for file in files:
                os.close(file)


def test_a_reader_that_is_late_is_offered_again(output: IO[bytes]) -> None:
    """One that reads something else first, as the other side of a join, can open the worker's files all the same."""
    for _ in range(handover._MOST_UNANSWERED + 1):
        spoken = threading.Event()

        def until(spoken: threading.Event = spoken) -> Iterator[pa.RecordBatch]:
            yield from BATCHES
            assert spoken.wait(30)

        late = Reader(dump_stream(until(), output), opens_late=True)
        late.spoken = spoken
        assert [late.next() for _ in range(11)] == [None, *BATCHES]
        assert late.kinds == [OFFER, *[ENCLOSED] * 10]
        late.worker.join(30)
    deaf = [Reader(dump_stream(BATCHES[:2], output), takes=False) for _ in range(2)]
    for reader in deaf:
        assert [reader.next() for _ in range(3)] == [None, *BATCHES[:2]]
        reader.worker.join(30)
    assert list(dump_stream(BATCHES, output)) == BATCHES


WITHOUT_MEMORY_FILES = """
import ctypes, os, platform, struct, sys

# A filter of system calls: load the call's number; equal to memfd_create's: EPERM; else allowed.
number = {"x86_64": 319, "aarch64": 279}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0
"""


WITHOUT_FILES_OF_OTHERS = """
import ctypes

# Not for other processes, not even root's; see unreadable_workers.py.
libc = ctypes.CDLL(None)
assert libc.prctl(4, 0, 0, 0, 0) == 0
libc.prctl(24, 19, 0, 0, 0)
"""
BY_SOCKET = "rows go from Python workers to tasks through sockets"


@pytest.mark.parametrize(
    ("before", "variable", "told"),
    [
        ("", None, ["ok", "used: tasks that read share up to 16 MiB each with their Python workers"]),
        ("", "1m", ["ok", "share up to 1 MiB each"]),
        ("", "0", ["ok", f'not used, as "shared-memory" is 0: {BY_SOCKET}']),
        # By a filter of system calls, as containers have.
        (WITHOUT_MEMORY_FILES, None, ["slow", f"16 MiB can be made here (Operation not permitted): {BY_SOCKET}"]),
        (WITHOUT_FILES_OF_OTHERS, None, ["slow", f"be opened in /proc here (Permission denied): {BY_SOCKET}"]),
    ],
)
def test_doctor_tells_whether_it_is_used(tmp_path: Path, before: str, variable: str | None, told: list[str]) -> None:
    program = before + "from pyspark_pravega.cli import main\nmain(['doctor', '--controller', 'tcp://localhost:1'])\n"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRAVEGA_")}
    environment.update({"PRAVEGA_TIMEOUT": "1", "HOME": str(tmp_path)})
    if variable is not None:
        environment["PRAVEGA_SHARED_MEMORY"] = variable
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    line = next(line for line in ended.stdout.splitlines() if "shared memory" in line)
    assert [part for part in told if part not in line] == []


def read_whole(batches: list[pa.RecordBatch], output: IO[bytes], *, whole: bool) -> int:
    """Read all of a task's batches; returns its ring."""
    reader = Reader(dump_stream(batches, output))
    assert reader.next() is None
    for expected in batches:
        assert reader.next() == expected
        reader.give_back()
    assert reader.next() is None
    reader.worker.join(30)
    reader.end(whole=whole)
    return reader.ring


def test_a_ring_is_used_again_behind_a_task_that_has_read_all(output: IO[bytes]) -> None:
    first = read_whole(BATCHES, output, whole=True)
    assert read_whole(BATCHES[::-1], output, whole=True) == first
    # A task that hasn't: somebody may read there still.
    assert read_whole(BATCHES, output, whole=False) == first
    second = read_whole(BATCHES, output, whole=True)
    assert second != first
    # Nor may one that has not ended yet lose its ring to another one.
    reader = Reader(dump_stream(BATCHES, output))
    assert reader.next() is None
    assert reader.ring == second
    assert read_whole(BATCHES, output, whole=True) != second
    assert [reader.next() for _ in range(3)] == BATCHES[:3]
    reader.end()
    reader.worker.join(30)


def test_a_ring_of_another_size_is_made_anew(output: IO[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    first = read_whole(BATCHES, output, whole=True)
    monkeypatch.setitem(globals(), "SIZE", SIZE * 2)
    second = read_whole(BATCHES, output, whole=True)
    assert second != first
    assert read_whole(BATCHES, output, whole=True) == second


def test_at_most_one_ring_stays(output: IO[bytes]) -> None:
    read_whole(BATCHES, output, whole=True)
    before = len(os.listdir("/proc/self/fd")), mapped_rings()
    for taken in (1, 5, 11):
        reader = Reader(dump_stream(BATCHES, output))
        for _ in range(taken):
            reader.next()
        reader.end(whole=taken == 11)
        reader.worker.join(30)
        del reader
    assert (len(os.listdir("/proc/self/fd")), mapped_rings()) == before


def mapped_rings() -> int:
    """Readers of tests that have failed are among them."""
    return Path("/proc/self/maps").read_text().count("pravega-batches")
