"""Connections to hosts that are dead, slow, or no segment stores; failures by name; what a pool does with them."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from client_tools import Proxy, append, framed, host, make_stream, pool_to

from pyspark_pravega.client import Client, ConnectionPool, Stream
from pyspark_pravega.client.connections.connection import Connection, failure
from pyspark_pravega.client.connections.pool import MAX_IDLE_PER_ENDPOINT
from pyspark_pravega.client.segments.reading import read_range, segment_state
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.errors import (
    AuthenticationError,
    ConflictError,
    OperationFailedError,
    PravegaError,
    SegmentNotFoundError,
    SegmentSealedError,
    SegmentStoreUnavailableError,
    SegmentTruncatedError,
    TokenExpiredError,
    TransactionError,
    WireError,
    WrongHostError,
)
from pyspark_pravega.settings import Settings

HELLO = struct.pack(">iiii", -127, 8, 16, 5)


def never_answers(connection: socket.socket) -> None:
    del connection


def closes_at_once(connection: socket.socket) -> None:
    connection.close()


def greets_and_falls_silent(connection: socket.socket) -> None:
    connection.sendall(HELLO)


def drips(connection: socket.socket) -> None:
    """One byte of an endless frame after the other."""
    connection.sendall(HELLO + struct.pack(">ii", 10, 1 << 20))
    while True:
        connection.sendall(b"\0")
        time.sleep(0.05)


@pytest.mark.parametrize("serve", [never_answers, closes_at_once])
def test_a_host_that_does_not_greet_is_unavailable_within_the_time_out(serve: Callable[[socket.socket], None]) -> None:
    with (
        host(serve) as (name, port),
        pytest.raises(SegmentStoreUnavailableError, match=f"segment store {name}:{port} was lost"),
    ):
        Connection(name, port, timeout=0.5)


@pytest.mark.parametrize("serve", [greets_and_falls_silent, drips])
def test_a_host_that_does_not_finish_its_answer_is_unavailable_within_the_time_out(
    serve: Callable[[socket.socket], None],
) -> None:
    with host(serve) as (name, port), Connection(name, port, timeout=0.5) as connection:
        with pytest.raises(SegmentStoreUnavailableError, match="no answer in time"):
            connection.call(wire.KeepAlive(), wire.SegmentRead)
        assert not connection.healthy


def test_a_host_that_takes_nothing_is_unavailable_within_the_time_out() -> None:
    block = wire.AppendBlockEnd(
        writer_id=uuid.UUID(int=1), data=bytes(15 << 20), event_count=1, last_event_number=1, request_id=1
    )
    with (
        host(greets_and_falls_silent) as (name, port),
        Connection(name, port, timeout=0.5) as connection,
        pytest.raises(SegmentStoreUnavailableError, match="no answer in time"),
    ):
        connection.send(block)


def test_a_port_where_nobody_listens_is_unavailable_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(SegmentStoreUnavailableError, match=rf"no Pravega segment store answers at 127.0.0.1:{port} \("):
        Connection("127.0.0.1", port, timeout=5)


def test_a_host_without_an_address_is_unavailable() -> None:
    with pytest.raises(SegmentStoreUnavailableError, match=r"no Pravega segment store answers at nowhere.invalid:1 \("):
        Connection("nowhere.invalid", 1, timeout=5)


@pytest.mark.parametrize(
    "greeting",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">ii", 100, 0) + struct.pack(">iiq", 31, 8, 0),
        struct.pack(">iiii", -127, 8, 99, 17),
        struct.pack(">ii", -127, 0),
    ],
    ids=["another protocol", "no greeting", "a protocol that is too new", "half a greeting"],
)
def test_a_host_that_greets_otherwise_is_no_segment_store(greeting: bytes) -> None:
    with host(lambda connection: connection.sendall(greeting)) as (name, port), pytest.raises(WireError):
        Connection(name, port, timeout=5)


@contextmanager
def greeted_by(answer: bytes) -> Iterator[Connection]:
    """A connection to a host that sends these bytes to everyone."""
    with (
        host(lambda connection: connection.sendall(answer)) as (name, port),
        Connection(name, port, timeout=5) as connection,
    ):
        yield connection


def test_keep_alives_of_the_server_are_passed_over() -> None:
    keep_alive = struct.pack(">ii", 100, 0)
    reply = wire.AuthTokenCheckFailed(request_id=1, trace="", code=1)
    payload = b"".join(bytes(piece) for piece in reply.encode())
    answer = HELLO + keep_alive * 3 + struct.pack(">ii", 60, len(payload)) + payload
    with greeted_by(answer) as connection:
        assert connection.receive() == reply
        assert connection.healthy


def test_large_answers_come_whole_in_whatever_pieces_and_small_ones_at_once() -> None:
    """Of a large one the system is told to wait for much; that must not hold up what comes behind it."""
    sizes = [3, 700_000, 1, 1 << 20, 130_000, 600_001, 12]
    replies = [
        wire.SegmentRead(
            segment="s",
            offset=number,
            at_tail=False,
            end_of_segment=False,
            data=memoryview(bytes([number]) * size),
            request_id=number,
        )
        for number, size in enumerate(sizes)
    ]

    def answer(connection: socket.socket) -> None:
        connection.sendall(HELLO)
        for reply in replies:
            payload = b"".join(bytes(piece) for piece in reply.encode())
            frame = struct.pack(">ii", reply.TYPE, len(payload)) + payload
            for at in range(0, len(frame), 90_001):
                connection.sendall(frame[at : at + 90_001])
                time.sleep(0.002)
            # The other side is heard before the next answer begins.
            connection.recv(1)

    with host(answer) as (name, port), Connection(name, port, timeout=20) as connection:
        for reply in replies:
            received = connection.expect(connection.receive(), wire.SegmentRead)
            assert (received.offset, bytes(received.data)) == (reply.offset, bytes(reply.data))
            connection.send(wire.KeepAlive())


def test_an_answer_of_another_kind_than_expected_makes_the_connection_useless() -> None:
    answer = HELLO + struct.pack(">iiq", 75, 12, 1) + struct.pack(">i", 0)
    with greeted_by(answer) as connection:
        with pytest.raises(WireError, match="answered TableEntriesUpdated where SegmentRead was expected"):
            connection.call(wire.KeepAlive(), wire.SegmentRead)
        assert not connection.healthy


FAILURES = [
    (
        wire.WrongHost(request_id=1, segment="s/t/0", correct_host="other:1", trace=""),
        WrongHostError, '"s/t/0" has moved to another segment store (other:1)',
    ),
    (wire.SegmentIsSealed(request_id=1, segment="s/t/0", trace="", offset=0), SegmentSealedError, '"s/t/0" is sealed'),
    (wire.SegmentAlreadyExists(request_id=1, segment="s/t/0", trace=""), OperationFailedError, '"s/t/0" exists'),
    (
        wire.NoSuchSegment(request_id=1, segment="s/t/0", trace="", offset=0),
        SegmentNotFoundError, '"s/t/0" does not exist',
    ),
    (
        wire.SegmentIsTruncated(request_id=1, segment="s/t/0", start_offset=9, trace="", offset=3),
        SegmentTruncatedError, '"s/t/0" begins at offset 9: offset 3 has been truncated',
    ),
    (
        wire.InvalidEventNumber(writer_id=uuid.UUID(int=7), request_id=1, trace="", event_number=4),
        TransactionError, f"another writer took over from writer {uuid.UUID(int=7)}",
    ),
    (wire.OperationUnsupported(request_id=1, operation="x", trace=""), OperationFailedError, "doesn't know x"),
    (wire.AuthTokenCheckFailed(request_id=1, trace="", code=0), AuthenticationError, "refused the delegation token"),
    (wire.AuthTokenCheckFailed(request_id=1, trace="", code=1), TokenExpiredError, "it has expired"),
    (
        wire.ErrorMessage(request_id=1, segment="s/t/0", message="disk full", code=5),
        OperationFailedError, 'on segment "s/t/0": disk full (code 5)',
    ),
    (wire.TableSegmentNotEmpty(request_id=1, segment="s/t/0", trace=""), OperationFailedError, "still holds entries"),
    (wire.TableKeyDoesNotExist(request_id=1, segment="s/t/0", trace=""), ConflictError, '"s/t/0" is gone'),
    (wire.TableKeyBadVersion(request_id=1, segment="s/t/0", trace=""), ConflictError, '"s/t/0" has been changed'),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "kind", "words"), FAILURES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_failure_reply_is_an_error_that_names_the_segment(
    reply: wire.Failure, kind: type[PravegaError], words: str
) -> None:
    error = failure(reply)
    assert type(error) is kind
    assert words in str(error)


def test_no_failure_reply_is_without_a_meaning() -> None:
    failures = {type(reply) for reply, _, _ in FAILURES}
    assert {cls for cls in wire.COMMANDS.values() if issubclass(cls, wire.Failure)} == failures


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


@pytest.mark.server
def test_a_real_segment_store_greets_and_answers_keep_alives(client: Client, stream: Stream) -> None:
    with client.pool.open(stream, 0) as connection:
        healthy = [connection.healthy]
        assert connection.is_sound()
        assert len({connection.next_id() for _ in range(100)}) == 100
    healthy.append(connection.healthy)
    assert healthy == [True, False]
    assert not connection.is_sound()


@pytest.mark.server
def test_an_idle_connection_is_used_again(client: Client, settings: Settings, stream: Stream) -> None:
    with Proxy(client.controller.endpoint(stream, 0)) as proxy, pool_to(settings, proxy.address) as pool:
        for _ in range(5):
            segment_state(pool, stream, 0)
        assert proxy.connections == 1


@pytest.mark.server
def test_an_idle_connection_that_was_closed_is_replaced_without_a_word(
    client: Client, settings: Settings, stream: Stream
) -> None:
    append(client, stream, 0, framed(b"event"))
    with Proxy(client.controller.endpoint(stream, 0)) as proxy, pool_to(settings, proxy.address) as pool:
        assert segment_state(pool, stream, 0).write_offset == 13
        proxy.cut_all()
        assert segment_state(pool, stream, 0).write_offset == 13
        proxy.cut_all()
        assert b"".join(read_range(pool, stream, 0, 0, 13)) == framed(b"event")
        proxy.cut_all()
        with pool.connection(stream, 0, check=True) as connection:
            assert connection.is_sound()
        assert proxy.connections == 4


@pytest.mark.server
def test_many_idle_connections_that_were_closed_are_no_trouble_either(
    client: Client, settings: Settings, stream: Stream
) -> None:
    with Proxy(client.controller.endpoint(stream, 0)) as proxy, pool_to(settings, proxy.address) as pool:
        users = [pool.connection(stream, 0) for _ in range(MAX_IDLE_PER_ENDPOINT + 2)]
        for user in users:
            user.__enter__()
        for user in users:
            user.__exit__(None, None, None)
        assert proxy.connections == MAX_IDLE_PER_ENDPOINT + 2
        proxy.cut_all()
        for _ in range(MAX_IDLE_PER_ENDPOINT + 2):
            assert segment_state(pool, stream, 0).write_offset == 0


@pytest.mark.server
def test_a_connection_whose_user_failed_is_not_used_again(client: Client, settings: Settings, stream: Stream) -> None:
    with Proxy(client.controller.endpoint(stream, 0)) as proxy, pool_to(settings, proxy.address) as pool:
        with pytest.raises(KeyboardInterrupt):
            interrupted(pool, stream)
        assert segment_state(pool, stream, 0).write_offset == 0
        assert proxy.connections == 2


@pytest.mark.server
def test_a_segment_store_that_stays_away_is_unavailable_after_a_second_try(
    settings: Settings, client: Client, stream: Stream
) -> None:
    with host(closes_at_once) as address, pool_to(settings, address, timeout=1) as pool:
        for use in (
            lambda: segment_state(pool, stream, 0),
            lambda: list(read_range(pool, stream, 0, 0, 10)),
            lambda: append_through(pool, stream),
        ):
            with pytest.raises(SegmentStoreUnavailableError):
                use()


def interrupted(pool: ConnectionPool, stream: Stream) -> None:
    """Asks, and goes away before the answer."""
    with pool.connection(stream, 0) as connection:
        connection.send(wire.GetStreamSegmentInfo(request_id=1, segment=stream.segment_name(0)))
        raise KeyboardInterrupt


def append_through(pool: ConnectionPool, stream: Stream) -> None:
    writer = SegmentWriter(pool, stream, 0)
    writer.append(framed(b"x"), 1)
    writer.flush()
