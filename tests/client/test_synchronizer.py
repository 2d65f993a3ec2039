"""Revisioned streams and state synchronisers: appends that depend on what was seen, and state shared by them."""

from __future__ import annotations

import itertools
import multiprocessing
import struct
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from client_tools import Proxy, ThroughProxy, append, content, framed, make_stream, pool_to, truncate
from late_proxy import LateProxy

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.state.entry_appender import EntryAppender
from pyspark_pravega.client.state.synchronizer import RevisionedStream, StateSynchronizer
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.client.wire.protocol import encode_frame
from pyspark_pravega.errors import (
    ConfigurationError,
    EventEncodeError,
    PravegaError,
    SegmentSealedError,
    SegmentStoreUnavailableError,
    SegmentTruncatedError,
    StreamNotFoundError,
    StreamSealedError,
    WireError,
)
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "state")


@pytest.fixture
def log(client: Client, stream: Stream) -> Iterator[RevisionedStream]:
    with RevisionedStream(client, stream) as opened:
        yield opened


def entries(log: RevisionedStream, revision: int | None = None) -> list[bytes]:
    return [entry for _, entry in log.read_from(log.head() if revision is None else revision)]


# Revisioned streams


def test_an_entry_is_appended_only_where_nothing_came_meanwhile(log: RevisionedStream) -> None:
    start = log.tail()
    first = log.append_conditionally(start, b"one")
    assert first is not None
    assert log.append_conditionally(start, b"two") is None
    second = log.append_conditionally(first, b"two")
    assert second == log.tail()
    assert list(log.read_from(start)) == [(first, b"one"), (second, b"two")]
    assert list(log.read_from(first)) == [(second, b"two")]
    assert list(log.read_from(start, first)) == [(first, b"one")]
    assert list(log.read_from(second or 0)) == []


def test_an_entry_may_be_empty_or_large(log: RevisionedStream) -> None:
    written = [b"", b"x" * (8 << 20), b"", bytes(range(256)) * 5000]
    revision: int | None = log.tail()
    for entry in written:
        assert revision is not None
        revision = log.append_conditionally(revision, entry)
    assert entries(log) == written
    with pytest.raises(EventEncodeError, match=r"8388609 bytes is too long .*: 8388608 is the most"):
        log.append(b"x" * ((8 << 20) + 1))


def test_an_unconditional_append_goes_behind_everything(log: RevisionedStream, client: Client, stream: Stream) -> None:
    start = log.tail()
    with RevisionedStream(client, stream) as other:
        other.append(b"theirs")
    log.append(b"ours")
    assert log.append_conditionally(start, b"late") is None
    assert entries(log) == [b"theirs", b"ours"]


def test_entries_are_plain_events(log: RevisionedStream, client: Client, stream: Stream) -> None:
    assert log.append_conditionally(0, b"one") == 11
    append(client, stream, 0, framed(b"two"))
    assert content(client.pool, stream, 0) == framed(b"one") + framed(b"two")
    assert entries(log) == [b"one", b"two"]


def test_many_entries_are_read_across_the_borders_of_answers(log: RevisionedStream, client: Client) -> None:
    written = [bytes([i % 256]) * (i * 37 % 9000) for i in range(1000)]
    append(client, log.stream, 0, *(b"".join(map(framed, written[i : i + 100])) for i in range(0, 1000, 100)))
    assert entries(log) == written


def test_what_was_truncated_is_an_error_and_what_is_left_is_read(log: RevisionedStream) -> None:
    log.append(b"one")
    second = log.tail()
    log.append(b"two")
    log.truncate_to(second)
    log.truncate_to(second)
    log.truncate_to(0)
    assert log.head() == second
    assert entries(log) == [b"two"]
    with pytest.raises(SegmentTruncatedError, match=f'"{log.stream}" begins at revision {second}: .* 0 has been'):
        log.read_from(0)


def test_a_revision_within_an_entry_is_an_error(log: RevisionedStream) -> None:
    log.append(b"abcdefgh")
    log.append(b"abcdefgh")
    for revision in range(1, 16):
        with pytest.raises(WireError, match=r"no entry .* begins at revision"):
            list(log.read_from(revision))


def test_a_mark_is_changed_only_from_the_expected_one(log: RevisionedStream) -> None:
    assert log.mark() is None
    assert not log.compare_and_set_mark(5, 7)
    assert log.compare_and_set_mark(None, 5)
    assert log.mark() == 5
    assert not log.compare_and_set_mark(None, 6)
    assert log.compare_and_set_mark(5, 6)
    assert log.advance_mark(9) == 6
    assert log.advance_mark(8) == 9
    assert log.mark() == 9
    assert log.compare_and_set_mark(9, None)
    assert log.mark() is None


def test_streams_that_cannot_be_used_are_refused(client: Client, scope: str, stream: Stream) -> None:
    with pytest.raises(StreamNotFoundError):
        RevisionedStream(client, Stream(scope, "nothing"))
    with pytest.raises(ConfigurationError, match=f'"{scope}/wide" has 2 segments; a revisioned stream has one'):
        RevisionedStream(client, make_stream(client, scope, "wide", segments=2))
    log = RevisionedStream(client, stream)
    log.append(b"one")
    client.controller.seal_stream(stream)
    for revision in (None, 0, 11):
        with pytest.raises(SegmentSealedError):
            log.append(b"x") if revision is None else log.append_conditionally(revision, b"x")
    assert entries(log) == [b"one"]
    with pytest.raises(StreamSealedError, match=f'"{stream}" is sealed'):
        RevisionedStream(client, stream)


def test_of_many_threads_one_wins_each_revision(log: RevisionedStream, client: Client, stream: Stream) -> None:
    def write(name: int) -> list[int]:
        won = []
        with RevisionedStream(client, stream) as mine:
            for i in range(50):
                while (revision := mine.append_conditionally(mine.tail(), b"%d.%d" % (name, i))) is None:
                    pass
                won.append(revision)
        return won

    with ThreadPoolExecutor(4) as threads:
        won = list(threads.map(write, range(4)))
    revisions = dict(log.read_from(0))
    assert sorted(revisions) == sorted(itertools.chain(*won))
    for name, ours in enumerate(won):
        assert [revisions[revision] for revision in ours] == [b"%d.%d" % (name, i) for i in range(50)]


# Lost connections


@pytest.mark.parametrize("conditional", [True, False])
def test_an_append_over_connections_that_break_anywhere_is_made_once(
    client: Client, settings: Settings, stream: Stream, conditional: bool
) -> None:
    target = client.controller.endpoint(stream, 0)
    log = RevisionedStream(client, stream)
    written = []
    # Both directions count: greetings, the writer's announcement, the append, and the answer to it.
    for allowance in range(17, 330, 12):
        with Proxy(target, allowance) as proxy, pool_to(settings, proxy.address) as pool:
            appender = EntryAppender(pool, stream, 0)
            written.append(b"entry %d" % allowance)
            assert appender.append(written[-1], log.tail() if conditional else None)
            appender.close()
    assert entries(log) == written
    log.close()


def test_a_conflict_over_connections_that_break_anywhere_is_a_conflict(
    client: Client, settings: Settings, stream: Stream, log: RevisionedStream
) -> None:
    target = client.controller.endpoint(stream, 0)
    log.append(b"theirs")
    for allowance in range(20, 330, 24):
        with Proxy(target, allowance) as proxy, pool_to(settings, proxy.address) as pool:
            appender = EntryAppender(pool, stream, 0)
            assert not appender.append(b"ours", 0)
            appender.close()
    assert entries(log) == [b"theirs"]


@contextmanager
def appender_that_is_late(
    client: Client,
    settings: Settings,
    stream: Stream,
    *,
    before: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
) -> Iterator[EntryAppender]:
    setup = wire.SetupAppend(request_id=1, writer_id=uuid.uuid4(), segment=stream.segment_name(0))
    announcement = sum(len(piece) for command in (wire.Hello(), setup) for piece in encode_frame(command))
    target = client.controller.endpoint(stream, 0)
    with LateProxy(target, announcement, before=before, after=after) as proxy:
        with pool_to(settings, proxy.address) as pool:
            appender = EntryAppender(pool, stream, 0)
            try:
                yield appender
            finally:
                appender.close()
        assert proxy.delivered


@pytest.mark.parametrize("conditional", [True, False])
def test_an_append_that_arrives_late_is_told_from_its_repetition(
    client: Client, settings: Settings, stream: Stream, log: RevisionedStream, conditional: bool
) -> None:
    with appender_that_is_late(client, settings, stream) as appender:
        assert appender.append(b"one", 0 if conditional else None)
        assert appender.append(b"two", 11 if conditional else None)
    assert entries(log) == [b"one", b"two"]


def test_an_append_that_arrives_too_late_is_a_conflict(
    client: Client, settings: Settings, stream: Stream, log: RevisionedStream
) -> None:
    with appender_that_is_late(client, settings, stream, before=lambda: log.append(b"theirs")) as appender:
        assert not appender.append(b"ours", 0)
    assert entries(log) == [b"theirs"]


def test_an_append_that_arrives_late_and_is_followed_by_others_was_made(
    client: Client, settings: Settings, stream: Stream, log: RevisionedStream
) -> None:
    with appender_that_is_late(client, settings, stream, after=lambda: log.append(b"theirs")) as appender:
        assert appender.append(b"ours", 0)
    assert entries(log) == [b"ours", b"theirs"]


@pytest.mark.parametrize("conditional", [True, False])
def test_an_append_that_arrives_late_but_before_a_seal_was_made(
    client: Client, settings: Settings, stream: Stream, log: RevisionedStream, conditional: bool
) -> None:
    def seal() -> None:
        client.controller.seal_stream(stream)

    with appender_that_is_late(client, settings, stream, after=seal) as appender:
        assert appender.append(b"ours", 0 if conditional else None)
    assert entries(log) == [b"ours"]


@pytest.mark.parametrize("conditional", [True, False])
def test_an_append_that_arrives_after_a_seal_was_not_made(
    client: Client, settings: Settings, stream: Stream, log: RevisionedStream, conditional: bool
) -> None:
    def seal() -> None:
        client.controller.seal_stream(stream)

    with (
        appender_that_is_late(client, settings, stream, before=seal) as appender,
        pytest.raises(SegmentSealedError),
    ):
        appender.append(b"ours", 0 if conditional else None)
    assert entries(log) == []


def test_an_append_whose_fate_stays_unknown_says_so(client: Client, settings: Settings, stream: Stream) -> None:
    with (
        Proxy(client.controller.endpoint(stream, 0), *([300] * 1000)) as proxy,
        pool_to(settings, proxy.address, timeout=1.0) as pool,
    ):
        appender = EntryAppender(pool, stream, 0)
        with pytest.raises(SegmentStoreUnavailableError, match=f'an append to stream "{stream}" may or may not have'):
            appender.append(b"x" * 1000, None)
        appender.close()


# Shared state


def counter(client: Client, stream: Stream) -> StateSynchronizer[int, int]:
    return StateSynchronizer(client, stream, initial=0, apply=lambda state, update: state + update)


def test_a_state_begins_as_it_is_told_and_changes_by_updates(client: Client, stream: Stream) -> None:
    with counter(client, stream) as ours, counter(client, stream) as theirs:
        assert ours.state() == 0
        assert ours.update(lambda _: [1, 2]) == 3
        assert ours.state() == 3
        assert theirs.state() == 3
        assert theirs.update(lambda state: [-state]) == 0
        assert ours.state() == 3
        assert ours.fetch() == 0
        assert ours.update(lambda _: []) == 0
        assert ours.bytes_since_compaction() == ours.stream.tail()


def test_an_update_based_on_an_old_state_is_made_again_on_the_new_one(client: Client, stream: Stream) -> None:
    with counter(client, stream) as ours, counter(client, stream) as theirs:
        assert theirs.fetch() == 0
        ours.update(lambda _: [5])
        states: list[int] = []

        def double(state: int) -> list[int]:
            states.append(state)
            return [state]

        assert theirs.update(double) == 10
        assert states == [0, 5]
        assert ours.fetch() == 10


def test_an_update_that_cannot_be_applied_is_never_written(client: Client, stream: Stream) -> None:
    def apply(state: dict[str, int], update: dict[str, int]) -> dict[str, int]:
        return {**state, **{key: 100 // value for key, value in update.items()}}

    nothing: dict[str, int] = {}
    with StateSynchronizer(client, stream, initial=nothing, apply=apply) as shared:
        shared.update(lambda _: [{"a": 5}])
        tail = shared.stream.tail()
        with pytest.raises(ZeroDivisionError):
            shared.update(lambda _: [{"b": 1}, {"c": 0}])
        assert shared.stream.tail() == tail
        assert shared.fetch() == {"a": 20}


def test_many_who_begin_at_once_begin_with_one_state(client: Client, stream: Stream) -> None:
    def add(state: list[int], update: int) -> list[int]:
        return [*state, update]

    def begin(name: int) -> list[int]:
        with StateSynchronizer(client, stream, initial=[name], apply=add) as s:
            return s.state()

    with ThreadPoolExecutor(8) as threads:
        states = list(threads.map(begin, range(8)))
    assert all(state == states[0] for state in states)
    assert len(states[0]) == 1


def test_a_compacted_state_stands_for_all_updates_before(client: Client, stream: Stream) -> None:
    with counter(client, stream) as ours, counter(client, stream) as behind:
        behind.fetch()
        for _ in range(3):
            for _ in range(20):
                ours.update(lambda _: [1])
            ours.compact()
        assert ours.state() == 60
        mark = ours.stream.mark()
        assert mark is not None
        head = ours.stream.head()
        assert 0 < head < mark
        assert ours.bytes_since_compaction() < 50
        with counter(client, stream) as late:
            assert late.state() == 60
            assert late.update(lambda _: [1]) == 61
        assert behind.update(lambda state: [1]) == 62
        assert ours.fetch() == 62
        ours.compact(lambda _: None)
        assert ours.stream.mark() == mark


def test_entries_are_laid_out_as_javas_synchroniser_does_it(client: Client, stream: Stream) -> None:
    with counter(client, stream) as ours:
        ours.update(lambda _: [7, -12])
        assert entries(ours.stream) == [
            struct.pack(">i", 1) + b"0",
            struct.pack(">i", 2) + struct.pack(">i", 1) + b"7" + struct.pack(">i", 3) + b"-12",
        ]


@pytest.mark.parametrize(
    "entry", [b"", b"abc", b"\0\0\0\3", b"\0\0\0\2", b"\0\0\0\2\0\0\0\7x", b"\0\0\0\2\xff\xff\xff\xff"]
)
def test_entries_of_something_else_are_an_error_that_names_the_stream(
    client: Client, stream: Stream, entry: bytes
) -> None:
    with counter(client, stream) as ours:
        if len(entry) > 4:
            ours.fetch()
        ours.stream.append(entry)
        with pytest.raises(PravegaError, match=f'"{stream}" is no part of a synchronised state'):
            ours.fetch()


def test_a_stream_truncated_by_others_down_to_updates_is_an_error(
    client: Client, settings: Settings, stream: Stream
) -> None:
    with counter(client, stream) as ours:
        ours.update(lambda _: [1])
        first = next(iter(ours.stream.read_from(0)))[0]
        truncate(settings, stream, {0: first})
        with counter(client, stream) as late, pytest.raises(PravegaError, match="no part of a synchronised state"):
            late.fetch()


def count(settings: Settings, stream: Stream, times: int) -> None:
    """What a process of the next test does: it counts, and now and then compacts."""
    with Client(settings) as client, counter(client, stream) as shared:
        for i in range(times):
            shared.update(lambda _: [1])
            if i % 100 == 99:
                shared.compact()


def test_processes_and_threads_that_count_together_lose_nothing(
    client: Client, settings: Settings, stream: Stream
) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=count, args=(settings, stream, 500)) for _ in range(2)]
    for process in processes:
        process.start()
    with counter(client, stream) as shared, ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: shared.update(lambda _: [1]), range(200)))
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    with counter(client, stream) as late:
        assert late.state() == 1200


def test_counting_over_connections_that_break_loses_nothing(client: Client, settings: Settings, stream: Stream) -> None:
    target = client.controller.endpoint(stream, 0)
    allowances = [300 + 97 * i % 1400 for i in range(60)]
    with Proxy(target, *allowances) as proxy, ThroughProxy(settings, proxy) as through:
        with counter(through, stream) as shared:
            for _ in range(100):
                shared.update(lambda _: [1])
            assert shared.state() == 100
        assert proxy.connections > 10
    with counter(client, stream) as late:
        assert late.state() == 100
