"""Events of more than 8 MiB: stored once, as a whole, and like any other event."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import pytest
from client_tools import Proxy, append, content, framed, make_stream, pool_to
from late_proxy import LateProxy

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.segments.large_events import append_large
from pyspark_pravega.client.segments.reading import segment_state
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.client.wire.protocol import encode_frame
from pyspark_pravega.errors import (
    EventEncodeError,
    OperationFailedError,
    SegmentNotFoundError,
    SegmentSealedError,
    SegmentStoreUnavailableError,
)
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "large")


def event(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", [(8 << 20) + 1, 20_000_003])
def test_a_large_event_is_an_event_like_any_other(client: Client, stream: Stream, size: int) -> None:
    append(client, stream, 0, framed(b"before"))
    append_large(client.pool, stream, 0, [event(size)])
    append(client, stream, 0, framed(b"behind"))
    assert content(client.pool, stream, 0) == framed(b"before") + framed(event(size)) + framed(b"behind")


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 9, (1 << 20) - 8, (1 << 20) - 7, (2 << 20) - 8, (5 << 20) + 1])
def test_events_of_any_size_may_be_appended_so(client: Client, stream: Stream, size: int) -> None:
    append_large(client.pool, stream, 0, [event(size)])
    assert content(client.pool, stream, 0) == framed(event(size))


def test_several_events_are_appended_together(client: Client, stream: Stream) -> None:
    events: list[bytes | bytearray | memoryview] = [
        event(3 << 20),
        b"",
        bytearray(b"small"),
        memoryview(event((1 << 20) + 5)),
    ]
    append_large(client.pool, stream, 0, events)
    append_large(client.pool, stream, 0, [])
    assert content(client.pool, stream, 0) == b"".join(framed(bytes(each)) for each in events)


def test_an_event_whose_length_no_frame_can_say_is_refused(client: Client, stream: Stream) -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 2**31

    with pytest.raises(EventEncodeError, match=f'2147483648 bytes is too long for stream "{stream}": 2147483647'):
        append_large(client.pool, stream, 0, [Huge()])


def test_a_segment_store_without_transient_segments_is_told_by_its_release(
    client: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "TRANSIENT_SEGMENTS", 99)
    with pytest.raises(
        OperationFailedError, match=r"need Pravega 0\.11 or newer: segment store .+:\d+ is Pravega 0\.1"
    ):
        append_large(client.pool, stream, 0, [event(10)])


def test_a_sealed_or_missing_segment_takes_none(client: Client, scope: str, stream: Stream) -> None:
    client.controller.seal_stream(stream)
    with pytest.raises(SegmentSealedError, match=stream.segment_name(0)):
        append_large(client.pool, stream, 0, [event(10)])
    with pytest.raises(SegmentNotFoundError):
        append_large(client.pool, Stream(scope, "nothing"), 0, [event(10)])


def test_over_connections_that_break_anywhere_it_is_stored_once(
    client: Client, settings: Settings, stream: Stream
) -> None:
    target = client.controller.endpoint(stream, 0)
    written = []
    # The first connection only asks whether the segment is sealed.
    for allowance in (17, 60, 150, 220, *range(300, 1100, 36)):
        with Proxy(target, 1 << 40, allowance) as proxy, pool_to(settings, proxy.address) as pool:
            written.append(b"%d" % allowance)
            append_large(pool, stream, 0, [written[-1]])
    assert content(client.pool, stream, 0) == b"".join(map(framed, written))


def test_a_long_upload_begins_anew_when_it_breaks(client: Client, settings: Settings, stream: Stream) -> None:
    with (
        Proxy(client.controller.endpoint(stream, 0), 1 << 40, 2_500_000, 5_500_000) as proxy,
        pool_to(settings, proxy.address) as pool,
    ):
        append_large(pool, stream, 0, [event(6 << 20)])
        assert proxy.connections == 4
    assert content(client.pool, stream, 0) == framed(event(6 << 20))


EVENT = b"an event"


def pass_until_the_merge(stream: Stream) -> int:
    """The bytes that a client sends before it asks for the merge."""
    target = stream.segment_name(0)
    transient = f"{target}#transient.{'0' * 32}.{'0' * 32}"
    writer = uuid.uuid4()
    commands = [
        wire.Hello(),
        wire.CreateTransientSegment(request_id=1, writer_id=writer, parent=target),
        wire.SetupAppend(request_id=1, writer_id=writer, segment=transient),
        wire.ConditionalBlockEnd(writer_id=writer, event_number=1, expected_offset=0, data=framed(EVENT), request_id=1),
    ]
    return sum(len(piece) for command in commands for piece in encode_frame(command))


class DirectFirst:
    """A pool whose connections reach the segment store directly, but for those that are opened for a purpose."""

    def __init__(self, direct: object, late: object) -> None:
        self._direct, self._late = direct, late

    def __getattr__(self, name: str) -> object:
        return getattr(self._late if name in ("open", "learn") else self._direct, name)


def append_late(
    client: Client,
    settings: Settings,
    stream: Stream,
    *,
    before: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
) -> None:
    """The first try's merge arrives while the second try is about to ask for its own."""
    target = client.controller.endpoint(stream, 0)
    question = wire.GetSegmentAttribute(request_id=1, segment=stream.segment_name(0), attribute=uuid.uuid4())
    more = sum(len(piece) for piece in encode_frame(question))
    with LateProxy(target, pass_until_the_merge(stream), before=before, after=after, more=more) as proxy:
        with pool_to(settings, proxy.address) as pool:
            append_large(DirectFirst(client.pool, pool), stream, 0, [EVENT])  # type: ignore[arg-type]
        assert proxy.delivered


def test_a_merge_that_arrives_late_is_not_made_twice(client: Client, settings: Settings, stream: Stream) -> None:
    append_late(client, settings, stream)
    assert content(client.pool, stream, 0) == framed(EVENT)


def test_a_merge_that_arrives_late_but_before_a_seal_was_made(
    client: Client, settings: Settings, stream: Stream
) -> None:
    append_late(client, settings, stream, after=lambda: client.controller.seal_stream(stream))
    assert content(client.pool, stream, 0) == framed(EVENT)


def test_a_merge_that_arrives_after_a_seal_was_not_made(client: Client, settings: Settings, stream: Stream) -> None:
    with pytest.raises(SegmentSealedError, match=stream.segment_name(0)):
        append_late(client, settings, stream, before=lambda: client.controller.seal_stream(stream))
    assert segment_state(client.pool, stream, 0).write_offset == 0


def test_an_append_whose_fate_stays_unknown_says_so(client: Client, settings: Settings, stream: Stream) -> None:
    """Each connection breaks right after its merge was asked for."""
    passes = pass_until_the_merge(stream) + 8
    answers = 500
    with (
        Proxy(client.controller.endpoint(stream, 0), 1 << 40, *([passes + answers] * 100)) as proxy,
        pool_to(settings, proxy.address, timeout=1.0) as pool,
        pytest.raises(SegmentStoreUnavailableError, match=r"large events .* may or may not have been made"),
    ):
        append_large(pool, stream, 0, [EVENT])
