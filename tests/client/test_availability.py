"""Servers that go away, come back, or say that somebody else has the segment; and callers with a deadline."""

from __future__ import annotations

import socket
import struct
import threading

import pytest
from client_tools import CancellingProxy, Proxy, ThroughProxy, append, content, framed, host, make_stream, pool_to

from pyspark_pravega.client import Client, ConnectionPool, Controller, Stream, deadline
from pyspark_pravega.client.segments.reading import read_range, segment_state, segment_states
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.client.wire.protocol import FrameDecoder, encode_frame
from pyspark_pravega.errors import (
    ControllerUnavailableError,
    DeadlineExceededError,
    SegmentStoreUnavailableError,
    UnavailableError,
)
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def address(settings: Settings) -> str:
    return settings.controller_uri.removeprefix("tcp://")


def test_the_next_controller_is_asked_when_one_is_away(settings: Settings, scope: str) -> None:
    for uri in (
        f"tcp://127.0.0.1:{closed_port()},{address(settings)}",
        f"tcp://127.0.0.1:{closed_port()},127.0.0.1:{closed_port()},{address(settings)}",
        f"tcp://{address(settings)},127.0.0.1:{closed_port()}",
    ):
        with Controller(uri, timeout=10) as controller:
            for _ in range(3):
                assert controller.scope_exists(scope)


def test_a_controller_that_goes_away_is_replaced_by_the_next_one(settings: Settings, scope: str) -> None:
    with (
        Proxy(settings.controllers[0]) as first,
        Controller(f"tcp://127.0.0.1:{first.address[1]},{address(settings)}", timeout=10) as controller,
    ):
        assert controller.scope_exists(scope)
        first.close()
        for _ in range(3):
            assert controller.scope_exists(scope)


def test_a_controller_that_nobody_has_ever_reached_is_given_up_at_once(settings: Settings) -> None:
    # Not when the timeout is over: the test's own comes before it.
    with (
        Controller(f"tcp://127.0.0.1:{closed_port()},127.0.0.1:{closed_port()}", timeout=3000) as controller,
        pytest.raises(ControllerUnavailableError, match="check the address"),
    ):
        controller.scope_exists("x")


def test_a_call_that_the_controller_cancels_is_tried_again(settings: Settings, scope: str) -> None:
    with (
        CancellingProxy(settings.controllers[0], calls=3) as proxy,
        Controller(f"tcp://127.0.0.1:{proxy.address[1]}", timeout=30) as controller,
    ):
        assert controller.scope_exists(scope)
        assert len(proxy.cancelled) == 3


def test_a_creation_whose_answer_is_lost_is_asked_for_again(settings: Settings, client: Client, scope: str) -> None:
    with (
        CancellingProxy(settings.controllers[0], calls=1) as proxy,
        Controller(f"tcp://127.0.0.1:{proxy.address[1]}", timeout=30) as controller,
    ):
        # Another call than the one that was answered may have made it: this one did.
        assert controller.create_scope(f"{scope}-new")
        assert not controller.create_scope(f"{scope}-new")
        assert len(proxy.cancelled) == 1
    assert client.controller.scope_exists(f"{scope}-new")


def test_a_server_that_comes_back_is_used_again(settings: Settings, client: Client, stream: Stream) -> None:
    """A proxy's port closes and opens: the connections are lost as with a server's restart, the data are not."""
    target = client.controller.endpoint(stream, 0)
    proxy = Proxy(target)
    port = proxy.address[1]
    with ThroughProxy(settings, proxy) as broken:
        append(broken, stream, 0, framed(b"one"))
        proxy.close()
        reopened: list[Proxy] = []
        timer = threading.Timer(0.5, lambda: reopened.append(Proxy(target, port=port)))
        timer.start()
        append(broken, stream, 0, framed(b"two"))
        timer.join()
        reopened[0].close()
    assert content(client.pool, stream, 0) == framed(b"one") + framed(b"two")


class FirstElsewhere(Controller):
    """Names a wrong segment store first, as a controller does whose view of the cluster is old."""

    def __init__(self, settings: Settings, wrong: tuple[str, int]) -> None:
        super().__init__(settings.controller_uri, timeout=settings.timeout)
        self.wrong, self.calls = wrong, 0

    def endpoint(self, stream: Stream, segment_id: int) -> tuple[str, int]:
        self.calls += 1
        return self.wrong if self.calls == 1 else super().endpoint(stream, segment_id)


def says_wrong_host(connection: socket.socket) -> None:
    """Answers every request as a segment store does that doesn't have the segment."""
    connection.sendall(b"".join(encode_frame(wire.Hello())))
    decoder = FrameDecoder()
    while data := connection.recv(1 << 16):
        for request in decoder.feed(data):
            if isinstance(request, wire.GetStreamSegmentInfo | wire.ReadSegment | wire.SetupAppend):
                reply = wire.WrongHost(
                    request_id=request.request_id, segment=request.segment, correct_host="somewhere:1", trace=""
                )
                connection.sendall(b"".join(encode_frame(reply)))


def test_a_segment_that_has_moved_is_looked_for_again(settings: Settings, client: Client, stream: Stream) -> None:
    append(client, stream, 0, framed(b"one"))

    def state(pool: ConnectionPool) -> None:
        assert segment_state(pool, stream, 0).write_offset == 11

    def read(pool: ConnectionPool) -> None:
        assert b"".join(read_range(pool, stream, 0, 0, 11)) == framed(b"one")

    def write(pool: ConnectionPool) -> None:
        writer = SegmentWriter(pool, stream, 0)
        writer.append(framed(b"two"), 1)
        writer.flush()
        writer.close()

    for use in (state, read, write):
        with (
            host(says_wrong_host) as wrong,
            FirstElsewhere(settings, wrong) as controller,
            ConnectionPool(controller, timeout=10) as pool,
        ):
            use(pool)
            assert controller.calls > 1
    assert content(client.pool, stream, 0) == framed(b"one") + framed(b"two")


def test_many_segments_are_looked_for_where_one_is(settings: Settings, client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "many", segments=300)
    append(client, stream, 7, framed(b"one"))
    with (
        host(says_wrong_host) as wrong,
        FirstElsewhere(settings, wrong) as controller,
        ConnectionPool(controller, timeout=10) as pool,
    ):
        states = segment_states(pool, stream, [*range(300), 1 << 40])
        assert {i for i, state in states.items() if state is not None and state.write_offset == 11} == {7}
        assert [i for i, state in states.items() if state is None] == [1 << 40]
        # The wrong place, the right one: not a question for each segment.
        assert controller.calls <= 3
        assert all(
            state and state.created_ms for state in segment_states(pool, stream, range(300), created=True).values()
        )


def greets_and_falls_silent(connection: socket.socket) -> None:
    connection.sendall(struct.pack(">iiii", -127, 8, 16, 5))


def test_a_deadline_ends_what_would_take_longer(settings: Settings, stream: Stream) -> None:
    with host(greets_and_falls_silent) as silent, pool_to(settings, silent, timeout=3000) as pool:
        for use in (
            lambda: segment_state(pool, stream, 0),
            lambda: list(read_range(pool, stream, 0, 0, 10)),
            lambda: write_one(pool, stream),
        ):
            with pytest.raises(UnavailableError), deadline(0.3):
                use()


def write_one(pool: ConnectionPool, stream: Stream) -> None:
    writer = SegmentWriter(pool, stream, 0)
    writer.append(framed(b"x"), 1)
    writer.flush()


def test_a_deadline_that_is_over_lets_nothing_begin(client: Client, scope: str) -> None:
    with deadline(0), pytest.raises(DeadlineExceededError):
        client.controller.scope_exists(scope)
    assert client.controller.scope_exists(scope)


def test_an_inner_deadline_does_not_reach_beyond_the_outer_one(client: Client, scope: str) -> None:
    with deadline(0), deadline(60), pytest.raises(DeadlineExceededError):
        client.controller.scope_exists(scope)
    with deadline(60):
        with deadline(0), pytest.raises(DeadlineExceededError):
            client.controller.scope_exists(scope)
        assert client.controller.scope_exists(scope)


def test_a_longer_deadline_waits_longer_for_a_server(settings: Settings, client: Client, stream: Stream) -> None:
    target = client.controller.endpoint(stream, 0)
    proxy = Proxy(target)
    port = proxy.address[1]
    impatient = Settings.resolve({**settings.to_options(), "timeout": "0.5"}, environ={})
    with ThroughProxy(impatient, proxy) as broken:
        proxy.close()
        with pytest.raises(SegmentStoreUnavailableError):
            segment_state(broken.pool, stream, 0)
        reopened: list[Proxy] = []
        timer = threading.Timer(1.0, lambda: reopened.append(Proxy(target, port=port)))
        timer.start()
        with deadline(30):
            assert segment_state(broken.pool, stream, 0).write_offset == 0
        timer.join()
        reopened[0].close()
