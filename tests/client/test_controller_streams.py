"""Streams on a real controller: creation, listing, configuration, truncation, sealing, deletion."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from client_tools import append, content, framed, make_stream

from pyspark_pravega.client import (
    Client,
    Controller,
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    Stream,
    StreamConfiguration,
)
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.rpc import ControllerRpc
from pyspark_pravega.client.controller.scaling import even_ranges
from pyspark_pravega.client.names import Access
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import (
    ConfigurationError,
    ConflictError,
    ScopeNotFoundError,
    StreamNotFoundError,
    StreamNotSealedError,
    StreamSealedError,
)
from pyspark_pravega.settings import Settings

server = pytest.mark.server
LEASE_MS = 60_000


@pytest.fixture
def controller(client: Client) -> Controller:
    return client.controller


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


@server
def test_streams_are_listed_over_pages_each_once_without_those_of_pravega_itself(client: Client, scope: str) -> None:
    names = {f"s{i}" for i in range(40)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: make_stream(client, scope, name), sorted(names)))
    listed = list(client.controller.list_streams(scope))
    assert set(listed) == names
    assert len(listed) == len(names)


@server
@pytest.mark.parametrize(
    "call",
    [
        Controller.current_segments,
        partial(Controller.current_segments, access=Access.READ_WRITE),
        partial(Controller.is_current, segment_id=0),
        partial(Controller.update_stream, change=lambda before: replace(before, tags=("a",))),
    ],
    ids=["segments", "token", "valid", "update"],
)
def test_a_stream_whose_creation_is_under_way_is_waited_for(
    controller: Controller, scope: str, call: Callable[..., object]
) -> None:
    """As a session that was killed leaves it: the controller goes on by itself."""
    stream = Stream(scope, "big")
    with ThreadPoolExecutor(1) as threads:
        created = threads.submit(
            controller.create_stream, stream, StreamConfiguration(scaling=ScalingPolicy.fixed(500))
        )
        while True:
            # For a moment it is there and has no state yet: of the four calls some say then that it doesn't exist.
            with suppress(StreamNotFoundError):
                call(controller, stream)
                break
            if created.done():
                # It tells why it failed, if it did.
                created.result()
        assert created.result()


@server
def test_a_listing_asks_for_its_pages_as_they_are_wanted(client: Client, scope: str) -> None:
    make_stream(client, scope, "t")
    pages = client.controller.list_streams(scope)
    assert next(pages) == "t"
    client.controller.delete_scope(scope, recursive=True)
    # The end of the listing is a page of its own, of a scope that is no longer there.
    with pytest.raises(ScopeNotFoundError):
        next(pages)


@server
def test_streams_are_found_by_their_tags(client: Client, scope: str) -> None:
    controller = client.controller
    tagged = {f"s{i}": ("even",) if i % 2 == 0 else ("odd", "é") for i in range(12)}
    for name, tags in tagged.items():
        controller.create_stream(Stream(scope, name), StreamConfiguration(tags=tags))
    assert sorted(controller.list_streams(scope, tag="even")) == sorted(n for n, t in tagged.items() if t == ("even",))
    assert sorted(controller.list_streams(scope, tag="é")) == sorted(n for n, t in tagged.items() if "é" in t)
    assert list(controller.list_streams(scope, tag="none")) == []
    assert controller.stream_tags(Stream(scope, "s1")) == ("odd", "é")
    controller.update_stream(Stream(scope, "s0"), lambda c: replace(c, tags=("odd", "b", "b", "a")))
    assert controller.stream_tags(Stream(scope, "s0")) == ("a", "b", "odd")
    assert "s0" in controller.list_streams(scope, tag="odd")
    assert "s0" not in controller.list_streams(scope, tag="even")
    controller.delete_stream(Stream(scope, "s2"), seal=True)
    assert "s2" not in controller.list_streams(scope, tag="even")
    with pytest.raises(ScopeNotFoundError, match='scope "test-nowhere" does not exist'):
        list(controller.list_streams("test-nowhere", tag="even"))
    with pytest.raises(ConfigurationError, match="never empty"):
        controller.list_streams(scope, tag="")


@server
def test_a_scope_s_hidden_streams_are_there_and_not_listed(client: Client, scope: str) -> None:
    make_stream(client, scope, "t")
    assert client.controller.create_key_value_table(scope, "kv", partitions=1, key_bytes=8)
    # Pravega itself keeps a stream of marks beside each stream.
    assert client.controller.current_segments(Stream(scope, "_MARKt")).ids
    assert list(client.controller.list_streams(scope)) == ["t"]


@server
def test_an_empty_scope_has_no_streams(controller: Controller, scope: str) -> None:
    assert list(controller.list_streams(scope)) == []
    assert list(controller.list_key_value_tables(scope)) == []


@server
def test_a_missing_scope_is_named(controller: Controller) -> None:
    missing = Stream(f"test-{uuid.uuid4().hex[:12]}", "t")
    expected = f'scope "{missing.scope}" does not exist'
    with pytest.raises(ScopeNotFoundError, match=expected):
        list(controller.list_streams(missing.scope))
    with pytest.raises(ScopeNotFoundError, match=expected):
        list(controller.list_key_value_tables(missing.scope))
    with pytest.raises(ScopeNotFoundError, match=expected):
        list(controller.list_reader_groups(missing.scope))
    with pytest.raises(ScopeNotFoundError, match=expected):
        controller.create_stream(missing, StreamConfiguration())
    with pytest.raises(ScopeNotFoundError, match=expected):
        controller.create_key_value_table(missing.scope, "kv", partitions=1, key_bytes=8)


CONFIGURATIONS = [
    StreamConfiguration(),
    StreamConfiguration(scaling=ScalingPolicy(min_segments=3)),
    StreamConfiguration(
        scaling=ScalingPolicy(
            scale_type=ScaleType.BY_EVENTS_PER_SECOND, target_rate=100, scale_factor=2, min_segments=2
        ),
        retention=RetentionPolicy(retention_type=RetentionType.SIZE, minimum=1 << 30),
    ),
    StreamConfiguration(
        scaling=ScalingPolicy(scale_type=ScaleType.BY_KILOBYTES_PER_SECOND, target_rate=9, scale_factor=3),
        retention=RetentionPolicy(retention_type=RetentionType.TIME, minimum=60_000, maximum=3_600_000),
        tags=("a", "ü"),
        timestamp_aggregation_timeout=5_000,
        rollover_size_bytes=1 << 24,
    ),
]


@server
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_stream_keeps_the_configuration_it_was_created_with(
    controller: Controller, scope: str, configuration: StreamConfiguration
) -> None:
    stream = Stream(scope, "t")
    assert controller.create_stream(stream, configuration) is True
    assert controller.stream_configuration(stream) == configuration
    assert len(controller.current_segments(stream).ids) == configuration.scaling.min_segments


@server
def test_creating_a_stream_again_changes_nothing(controller: Controller, stream: Stream) -> None:
    before = controller.stream_configuration(stream)
    other = StreamConfiguration(scaling=ScalingPolicy(min_segments=4), tags=("new",))
    assert controller.create_stream(stream, other) is False
    assert controller.stream_configuration(stream) == before


@server
def test_of_many_who_create_a_stream_at_once_one_has_made_it(controller: Controller, scope: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        answers = list(
            threads.map(lambda _: controller.create_stream(Stream(scope, "t"), StreamConfiguration()), range(4))
        )
    assert answers.count(True) >= 1
    assert list(controller.list_streams(scope)) == ["t"]


@server
def test_a_stream_is_deleted_only_when_it_is_sealed(controller: Controller, stream: Stream) -> None:
    with pytest.raises(StreamNotSealedError, match=f'stream "{stream}" must be sealed'):
        controller.delete_stream(stream)
    assert not controller.is_sealed(stream)
    controller.seal_stream(stream)
    controller.seal_stream(stream)
    assert controller.is_sealed(stream)
    assert controller.stream_exists(stream)
    assert controller.delete_stream(stream) is True
    assert controller.delete_stream(stream) is False
    assert controller.delete_stream(stream, seal=True) is False
    assert not controller.stream_exists(stream)
    assert controller.create_stream(stream, StreamConfiguration())
    assert controller.delete_stream(stream, seal=True) is True


@server
def test_a_stream_made_again_has_none_of_the_old_one_s_events(client: Client, stream: Stream) -> None:
    append(client, stream, 0, framed(b"old"))
    client.controller.seal_stream(stream)
    client.controller.delete_stream(stream)
    assert client.controller.create_stream(stream, StreamConfiguration())
    (segment_id,) = client.controller.current_segments(stream).ids
    assert segment_id > 0
    assert content(client.pool, stream, segment_id) == b""


MISSING: list[Callable[[Controller, Stream], Any]] = [
    lambda controller, stream: controller.stream_configuration(stream),
    lambda controller, stream: controller.seal_stream(stream),
    lambda controller, stream: controller.current_segments(stream),
    lambda controller, stream: controller.head(stream),
    lambda controller, stream: controller.segments_from(stream, {0: 0}),
    lambda controller, stream: controller.begin_transaction(stream, lease_ms=LEASE_MS),
    lambda controller, stream: controller.scale(stream, [0], [(0.0, 1.0)], now_ms=1),
    lambda controller, stream: controller.is_scaled(stream, 0),
    lambda controller, stream: controller.scale_stream(stream, [0], [(0.0, 1.0)]),
    lambda controller, stream: controller.scale_to(stream, 2),
    lambda controller, stream: controller.split_segment(stream, 0),
    lambda controller, stream: controller.stream_tags(stream),
    lambda controller, stream: controller.update_stream(stream, lambda c: replace(c, tags=("a",))),
    lambda controller, stream: controller.truncate_stream(stream, {0: 0}),
    lambda controller, stream: controller.is_stream_cut_valid(stream, {0: 0}),
    lambda controller, stream: controller.is_sealed(stream),
    lambda controller, stream: controller.is_current(stream, 0),
    lambda controller, stream: controller.segments_between(stream),
    lambda controller, stream: controller.successors(stream, 0),
    lambda controller, stream: controller.note_timestamp(stream, "w", 1, {0: 0}),
    lambda controller, stream: controller.subscribers(stream),
]


@server
@pytest.mark.parametrize("call", MISSING)
@pytest.mark.parametrize("where", ["here", "test-nowhere"])
def test_a_missing_stream_is_named(
    controller: Controller, scope: str, call: Callable[[Controller, Stream], Any], where: str
) -> None:
    stream = Stream(scope if where == "here" else where, "missing")
    with pytest.raises(StreamNotFoundError, match=f'stream "{stream}" does not exist'):
        call(controller, stream)


# Configuration


@server
def test_a_change_of_the_configuration_keeps_the_rest(controller: Controller, scope: str) -> None:
    stream, before = Stream(scope, "t"), CONFIGURATIONS[3]
    controller.create_stream(stream, before)
    rules = RetentionPolicy.by_size(1 << 20, 1 << 30)
    after = controller.update_stream(stream, lambda c: replace(c, retention=rules, rollover_size_bytes=1 << 25))
    assert after == replace(before, retention=rules, rollover_size_bytes=1 << 25)
    assert controller.stream_configuration(stream) == after
    assert controller.update_stream(stream, lambda c: replace(c, retention=None)).retention is None
    assert controller.update_stream(stream, lambda c: replace(c, tags=())).tags == ()


@server
def test_a_change_that_changes_nothing_is_none(controller: Controller, stream: Stream) -> None:
    before = controller.stream_configuration(stream)
    assert controller.update_stream(stream, lambda c: c) == before
    # A sealed stream can't be updated: so nothing was asked.
    controller.seal_stream(stream)
    assert controller.update_stream(stream, lambda c: replace(c, tags=())) == before


@server
def test_an_update_keeps_the_segments_that_a_scale_has_made(client: Client, scope: str) -> None:
    controller, stream = client.controller, make_stream(client, scope, "t", segments=2)
    scaled = controller.split_segment(stream, 1)
    assert len(scaled.ids) == 3
    after = controller.update_stream(stream, lambda c: replace(c, tags=("a",)))
    assert after.scaling == ScalingPolicy.fixed(3)
    assert controller.current_segments(stream) == scaled


@server
def test_a_new_number_of_segments_scales_the_stream_evenly(client: Client, scope: str) -> None:
    controller, stream = client.controller, make_stream(client, scope, "t", segments=2)
    controller.update_stream(stream, lambda c: replace(c, scaling=ScalingPolicy.fixed(4)))
    assert [(r.min_key, r.max_key) for r in controller.current_segments(stream).ranges] == even_ranges(4)
    automatic = ScalingPolicy.by_events_per_second(100, factor=3, min_segments=5)
    assert controller.update_stream(stream, lambda c: replace(c, scaling=automatic)).scaling == automatic
    assert len(controller.current_segments(stream).ids) == 5


@server
def test_changes_of_several_threads_lose_nothing(controller: Controller, stream: Stream) -> None:
    def add(tag: str) -> None:
        controller.update_stream(stream, lambda c: replace(c, tags=(*c.tags, tag)))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(add, "abcdef"))
    assert controller.stream_tags(stream) == tuple("abcdef")


@server
def test_changes_of_several_processes_are_made_one_after_another_or_reported(
    controller: Controller, settings: Settings, stream: Stream
) -> None:
    # Another process has no lock in common with this one: here it asks the server past it.
    rpc = ControllerRpc(settings.controller_uri, timeout=settings.timeout)
    others, stop = [0], threading.Event()

    def interfere() -> None:
        while not stop.is_set():
            other = StreamConfiguration(tags=(f"other{others[0]}",))
            others[0] += rpc.status("updateStream", messages.configuration_message(stream, other)) == 0

    def tagged(tag: str, configuration: StreamConfiguration) -> StreamConfiguration:
        return replace(configuration, tags=(tag,))

    thread = threading.Thread(target=interfere)
    thread.start()
    try:
        results, conflicts = [], []
        for i in range(8):
            try:
                results.append(controller.update_stream(stream, partial(tagged, f"own{i}")).tags)
            except ConflictError as error:
                conflicts.append(str(error))
    finally:
        stop.set()
        thread.join()
        rpc.close()
    assert others[0] > 0
    assert all(len(tags) == 1 and tags[0].startswith("own") for tags in results)
    assert all(f'stream "{stream}"' in conflict for conflict in conflicts)


@server
def test_a_configuration_that_only_other_clients_allow_can_be_read_and_repaired(
    controller: Controller, settings: Settings, scope: str
) -> None:
    stream = Stream(scope, "t")
    odd = StreamConfiguration(
        scaling=ScalingPolicy(
            scale_type=ScaleType.BY_EVENTS_PER_SECOND, target_rate=5, scale_factor=1, min_segments=1, checked=False
        ),
        retention=RetentionPolicy(retention_type=RetentionType.SIZE, minimum=9, maximum=3, checked=False),
        timestamp_aggregation_timeout=-1,
        checked=False,
    )
    rpc = ControllerRpc(settings.controller_uri, timeout=settings.timeout)
    assert rpc.status("createStream", messages.configuration_message(stream, odd)) == 0
    rpc.close()
    assert controller.stream_configuration(stream) == odd
    with pytest.raises(ConfigurationError, match="timestamp_aggregation_timeout must be 0 or more"):
        controller.update_stream(stream, lambda c: replace(c, tags=("a",)))
    repaired = controller.update_stream(stream, lambda c: replace(c, tags=("a",), timestamp_aggregation_timeout=0))
    assert (repaired.tags, repaired.scaling) == (("a",), odd.scaling)


@server
def test_a_sealed_stream_is_changed_no_more(controller: Controller, stream: Stream) -> None:
    controller.seal_stream(stream)
    calls: list[tuple[str, Callable[[], object]]] = [
        ("updated", lambda: controller.update_stream(stream, lambda c: replace(c, tags=("a",)))),
        ("truncated", lambda: controller.truncate_stream(stream, {0: 0})),
        ("scaled", lambda: controller.scale(stream, [0], [(0.0, 1.0)])),
        ("scaled", lambda: controller.scale_stream(stream, [0], even_ranges(2))),
        ("scaled", lambda: controller.scale_to(stream, 1)),
        ("updated", lambda: controller.scale_to(stream, 2)),
        ("scaled", lambda: controller.split_segment(stream, 0)),
        ("written to", lambda: controller.begin_transaction(stream, lease_ms=LEASE_MS)),
    ]
    for what, call in calls:
        with pytest.raises(StreamSealedError, match=f'stream "{stream}" is sealed: it can\'t be {what} any more'):
            call()


# Watermarks and tokens


@server
def test_writers_note_their_times_and_never_go_back(controller: Controller, stream: Stream) -> None:
    controller.note_timestamp(stream, "w", 1_000, {0: 10})
    controller.note_timestamp(stream, "w", 1_000, {0: 10})
    controller.note_timestamp(stream, "w", 2_000, StreamCut(stream, {0: 20}))
    with pytest.raises(ConfigurationError, match=f'writer "w" of stream "{stream}" can\'t go back to time 1999'):
        controller.note_timestamp(stream, "w", 1_999, {0: 30})
    with pytest.raises(ConfigurationError, match="can't go back to position"):
        controller.note_timestamp(stream, "w", 3_000, {0: 19})
    assert controller.remove_writer(stream, "w") is True
    assert controller.remove_writer(stream, "never") is False


@server
def test_several_note_the_first_time_of_one_writer_at_once(controller: Controller, stream: Stream) -> None:
    """As a program does whose commit notes a time, too: the controller then finds that there is a mark already."""
    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            notes = [
                threads.submit(controller.note_timestamp, stream, f"writer-{number}", 1_000, {0: 10}) for _ in range(8)
            ]
            for note in notes:
                note.result()


@server
def test_a_server_without_authentication_gives_no_tokens(controller: Controller, stream: Stream) -> None:
    assert [controller.delegation_token(stream, access) for access in Access] == [""] * 4
    assert controller.current_segments(stream, Access.READ).token == ""
