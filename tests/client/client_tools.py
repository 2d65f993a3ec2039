"""What the client's tests share: streams with events, hosts that misbehave, and a proxy that cuts connections."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from waiting import eventually

from pyspark_pravega.client import Client, ConnectionPool, Controller, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.rpc import ControllerRpc
from pyspark_pravega.client.key_value import NOT_EXISTS
from pyspark_pravega.client.key_value.creation import _METADATA as METADATA
from pyspark_pravega.client.key_value.creation import _Metadata
from pyspark_pravega.client.segments.reading import read_range, segment_state
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.errors import ScaleRefusedError
from pyspark_pravega.settings import Settings


def make_stream(client: Client, scope: str, name: str, *, segments: int = 1) -> Stream:
    stream = Stream(scope, name)
    configuration = StreamConfiguration(scaling=ScalingPolicy(min_segments=segments))
    assert client.controller.create_stream(stream, configuration)
    return stream


def framed(payload: bytes) -> bytes:
    return struct.pack(">ii", 0, len(payload)) + payload


def append(client: Client, stream: Stream, segment_id: int, *blocks: bytes) -> None:
    """Each block as one event's worth of bytes, whatever they are."""
    writer = SegmentWriter(client.pool, stream, segment_id)
    for block in blocks:
        writer.append(block, 1)
    writer.flush()
    writer.close()


def content(pool: ConnectionPool, stream: Stream, segment_id: int) -> bytes:
    """All bytes of a segment."""
    state = segment_state(pool, stream, segment_id)
    return b"".join(read_range(pool, stream, segment_id, state.start_offset, state.write_offset))


def break_creation(client: Client, scope: str, table: str, *, has_segment: bool) -> None:
    """Leave of a key-value table what the controller leaves when it breaks off its creation: a name with an id.

    Args:
        client: somebody who may do everything.
        scope: the table's scope.
        table: its name.
        has_segment: whether the segment is there in which the controller would keep what it knows of the table.
    """
    metadata, table_id = _Metadata(client), uuid.uuid4()
    put_metadata(client, metadata._names(scope), table, table_id.bytes)
    if has_segment:
        with client.pool.connection(METADATA, 0) as connection:
            make = wire.CreateTableSegment(
                request_id=connection.next_id(),
                segment=f"{METADATA}/{scope}/{table}/metadata.#.{table_id}",
                token=client.pool.tokens.get(METADATA, write=True),
            )
            connection.call(make, wire.SegmentCreated)


@contextmanager
def scope_that_is_deleted(client: Client, scope: str) -> Iterator[None]:
    """For the controller a scope is being deleted with all that is in it, as Java's `deleteScopeRecursive` does."""
    metadata, deleted_scopes = _Metadata(client), "_system/deletingScopes"
    scope_id, _ = metadata.get(f"{METADATA}/scopes", scope)
    put_metadata(client, deleted_scopes, scope, scope_id)
    try:
        yield
    finally:
        _, version = metadata.get(deleted_scopes, scope)
        assert metadata.remove(deleted_scopes, scope, version)


def put_metadata(client: Client, segment: str, key: str, value: bytes) -> None:
    """Put a key that isn't there into a table segment of the controller's own."""
    with client.pool.connection(METADATA, 0) as connection:
        entry = wire.UpdateTableEntries(
            request_id=connection.next_id(),
            segment=segment,
            token=client.pool.tokens.get(METADATA, write=True),
            entries=((key.encode(), NOT_EXISTS, value),),
        )
        connection.call(entry, wire.TableEntriesUpdated)


def truncate(settings: Settings, stream: Stream, cut: dict[int, int]) -> None:
    """Through the controller; the server's stream cut is laid out like the lower half of a range of cuts."""
    request = pb.StreamCutRange(stream_info=messages.info(stream))
    getattr(request, "from").update(cut)
    rpc = ControllerRpc(settings.controller_uri, timeout=settings.timeout)
    assert rpc.status("truncateStream", request) == 0
    rpc.close()


def scale(client: Client, stream: Stream, sealed: list[int], ranges: list[tuple[float, float]]) -> None:
    """Replace segments by others, and wait until that is done."""
    epoch = client.controller.scale(stream, sealed, ranges, now_ms=time.time_ns() // 1_000_000)
    eventually(lambda: client.controller.is_scaled(stream, epoch))


def scale_at_random(client: Client, stream: Stream, chance: random.Random) -> None:
    """Split a segment, merge two, or replace them all."""
    ranges = client.controller.current_segments(stream).ranges
    what = chance.random()
    with suppress(ScaleRefusedError):
        if what < 0.4 and len(ranges) < 8:
            client.controller.split_segment(stream, chance.choice(ranges).segment_id, chance.randint(2, 3))
        elif what < 0.7 and len(ranges) > 1:
            first = chance.randrange(len(ranges) - 1)
            client.controller.merge_segments(stream, [r.segment_id for r in ranges[first : first + 2]])
        else:
            client.controller.scale_to(stream, chance.randint(1, 5))


@contextmanager
def host(serve: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """A host on loopback that does with each connection what it is told; it lives as long as the block."""
    accepted: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(connection)
            try:
                serve(connection)
            except OSError:
                continue

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        # Closing alone doesn't wake a thread that accepts.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
        for connection in accepted:
            connection.close()


class Proxy:
    """Passes bytes on between a client and a segment store, until a connection's allowance is used up.

    `cut_after` holds an allowance in bytes, counted in both directions, for each connection to come; later ones have
    none. A connection also ends where `loses` says so. A context manager.
    """

    def __init__(self, target: tuple[str, int], *cut_after: int, address: str = "127.0.0.1", port: int = 0) -> None:
        self.connections = 0
        self._target, self._allowances = target, list(cut_after)
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server((address, port))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cut all connections, and take no more."""
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        """Cut the connections that are open now."""
        with self._lock:
            pairs, self._open = self._open, []
        for end in pairs:
            cut(end)

    def loses(self, data: bytes) -> bool:
        """Whether what has come, from either side, isn't passed on, and its connection ends; subclasses decide."""
        return False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                allowance = [self._allowances.pop(0) if self._allowances else 1 << 62]
                server = socket.create_connection(self._target)
                self._open += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink, allowance), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, allowance: list[int]) -> None:
        try:
            while (data := source.recv(1 << 16)) and not self.loses(data):
                with self._lock:
                    passed = data[: allowance[0]]
                    allowance[0] -= len(passed)
                    spent = allowance[0] == 0
                sink.sendall(passed)
                if spent:
                    break
        except OSError:
            pass
        cut(source)
        cut(sink)


_HEADERS, _RESET, _CANCEL = 1, b"\x03\x00", struct.pack(">I", 8)


class CancellingProxy(Proxy):
    """Between gRPC's client and server: the first calls to be answered look to the client as if they were cancelled."""

    def __init__(self, target: tuple[str, int], *, calls: int) -> None:
        self._calls = calls
        self.cancelled: set[bytes] = set()
        super().__init__(target)

    def _pump(self, source: socket.socket, sink: socket.socket, allowance: list[int]) -> None:
        if source.getpeername()[1] != self._target[1]:
            super()._pump(source, sink, allowance)
            return
        pending = b""
        try:
            while data := source.recv(1 << 16):
                pending += data
                # HTTP/2: three bytes of length, type, flags, stream; the payload.
                while len(pending) >= 9 + (size := int.from_bytes(pending[:3])):
                    frame, pending = pending[: 9 + size], pending[9 + size :]
                    call = frame[5:9]
                    if frame[3] == _HEADERS and len(self.cancelled) < self._calls:
                        self.cancelled.add(call)
                        sink.sendall(struct.pack(">I", 4)[1:] + _RESET + call + _CANCEL)
                    sink.sendall(frame)
        except OSError:
            pass
        cut(source)
        cut(sink)


def cut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()


class RedirectedController(Controller):
    """A controller that names one address for every segment."""

    def __init__(self, settings: Settings, address: tuple[str, int]) -> None:
        super().__init__(settings.controller_uri, timeout=settings.timeout)
        self.address = address

    def endpoint(self, stream: Stream, segment_id: int) -> tuple[str, int]:
        return self.address


@contextmanager
def pool_to(settings: Settings, address: tuple[str, int], *, timeout: float = 30.0) -> Iterator[ConnectionPool]:
    """A pool that finds every segment at one address."""
    with (
        RedirectedController(settings, address) as controller,
        ConnectionPool(controller, timeout=timeout) as pool,
    ):
        yield pool


class ThroughProxy(Client):
    """A client whose segment store is reached through a proxy."""

    def __init__(self, settings: Settings, proxy: Proxy) -> None:
        super().__init__(settings)
        self.controller.endpoint = lambda *_: proxy.address  # type: ignore[method-assign]
