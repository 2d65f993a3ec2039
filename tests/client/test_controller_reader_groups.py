"""Reader groups and subscribers on a real controller."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest
from client_tools import append, framed, make_stream
from controller_relay import relayed

from pyspark_pravega.client import Client, Controller, Stream
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller import messages, reader_groups
from pyspark_pravega.client.reader_groups import NEW_GROUP, ReaderGroup, ReaderGroupRetention, ReaderGroupStream
from pyspark_pravega.client.stream_cut import UNBOUNDED, StreamCut, Unbounded
from pyspark_pravega.errors import (
    ConfigurationError,
    ConflictError,
    InvalidStreamCutError,
    ReaderGroupNotFoundError,
    ScopeNotFoundError,
    StreamNotFoundError,
)
from pyspark_pravega.settings import Settings

server = pytest.mark.server


@pytest.fixture
def controller(client: Client) -> Controller:
    return client.controller


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


def group(
    stream: Stream, name: str = "g", *, retention: ReaderGroupRetention = ReaderGroupRetention.MANUAL
) -> ReaderGroup:
    return ReaderGroup(scope=stream.scope, name=name, streams=(ReaderGroupStream(stream=stream),), retention=retention)


@server
def test_a_group_is_made_once_and_told_again(client: Client, stream: Stream) -> None:
    controller, other = client.controller, make_stream(client, stream.scope, "u")
    plan = ReaderGroup(
        scope=stream.scope,
        name="g",
        streams=(
            ReaderGroupStream(stream=stream, start=StreamCut(stream, {0: 8}), end=StreamCut(stream, {0: 16})),
            ReaderGroupStream(stream=other),
        ),
        retention=ReaderGroupRetention.AUTOMATIC,
        group_refresh_ms=1_000,
        checkpoint_interval_ms=2_000,
        max_outstanding_checkpoints=5,
    )
    present = controller.create_reader_group(plan)
    assert present.id != NEW_GROUP
    assert replace(present, id=NEW_GROUP) == plan
    assert controller.create_reader_group(group(stream)) == present
    assert controller.reader_group(stream.scope, "g") == present
    assert list(controller.list_reader_groups(stream.scope)) == ["g"]
    # Its own stream isn't one of the users'.
    assert sorted(controller.list_streams(stream.scope)) == ["t", "u"]
    assert controller.subscribers(stream) == controller.subscribers(other) == (f"{stream.scope}/g",)


@server
def test_a_group_is_changed_and_counts_its_changes(controller: Controller, stream: Stream) -> None:
    before_update = controller.create_reader_group(group(stream))
    changed = controller.update_reader_group(
        stream.scope, "g", lambda g: replace(g, retention=ReaderGroupRetention.NONE, group_refresh_ms=7)
    )
    assert changed == replace(before_update, retention=ReaderGroupRetention.NONE, group_refresh_ms=7, generation=1)
    assert controller.reader_group(stream.scope, "g") == changed
    assert controller.update_reader_group(stream.scope, "g", lambda g: g) == changed
    assert controller.subscribers(stream) == ()

    def late(before: ReaderGroup) -> ReaderGroup:
        controller.update_reader_group(stream.scope, "g", lambda g: replace(g, group_refresh_ms=8))
        return replace(before, group_refresh_ms=9)

    with pytest.raises(ConflictError, match=f'reader group "{stream.scope}/g" was changed by somebody else'):
        controller.update_reader_group(stream.scope, "g", late)
    assert controller.reader_group(stream.scope, "g").group_refresh_ms == 8


@server
def test_a_group_that_is_gone_is_gone(controller: Controller, stream: Stream) -> None:
    first = controller.create_reader_group(group(stream))
    assert controller.delete_reader_group(stream.scope, "g") is True
    assert controller.delete_reader_group(stream.scope, "g") is False
    with pytest.raises(ReaderGroupNotFoundError, match=f'reader group "{stream.scope}/g" does not exist'):
        controller.reader_group(stream.scope, "g")
    with pytest.raises(ReaderGroupNotFoundError):
        controller.reader_group("test-nowhere", "g")
    with pytest.raises(ReaderGroupNotFoundError):
        controller.update_reader_group(stream.scope, "g", lambda g: g)
    assert list(controller.list_reader_groups(stream.scope)) == []
    assert controller.subscribers(stream) == ()
    assert controller.create_reader_group(group(stream)).id != first.id


@server
def test_a_group_of_a_stream_or_scope_that_is_not_there_is_refused(controller: Controller, stream: Stream) -> None:
    missing = Stream(stream.scope, "missing")
    with pytest.raises(StreamNotFoundError, match=f'stream "{missing}" does not exist'):
        controller.create_reader_group(group(missing))
    assert list(controller.list_reader_groups(stream.scope)) == []
    with pytest.raises(ScopeNotFoundError, match='scope "test-nowhere" does not exist'):
        controller.create_reader_group(replace(group(stream), scope="test-nowhere"))
    controller.create_reader_group(group(stream))
    with pytest.raises(StreamNotFoundError, match=f'stream "{missing}" does not exist'):
        controller.update_reader_group(
            stream.scope, "g", lambda g: replace(g, streams=(ReaderGroupStream(stream=missing),))
        )


@server
def test_a_subscriber_tells_how_far_it_is_and_never_goes_back(client: Client, stream: Stream) -> None:
    controller, subscriber = client.controller, f"{stream.scope}/g"
    controller.create_reader_group(group(stream))
    append(client, stream, 0, framed(b"one"), framed(b"two"))
    controller.update_subscriber(stream, subscriber, {0: 11})
    controller.update_subscriber(stream, subscriber, StreamCut(stream, {0: 22}))
    for cut in ({0: 11}, {0: 22, 1: 0}):
        with pytest.raises(InvalidStreamCutError, match=f'subscriber "{subscriber}" of stream "{stream}"'):
            controller.update_subscriber(stream, subscriber, cut)
    for nobody in (f"{stream.scope}/none", "none"):
        with pytest.raises(ReaderGroupNotFoundError):
            controller.update_subscriber(stream, nobody, {0: 22})
    controller.create_reader_group(group(stream, "n", retention=ReaderGroupRetention.NONE))
    with pytest.raises(ReaderGroupNotFoundError, match=f'group "{stream.scope}/n" is no subscriber of stream'):
        controller.update_subscriber(stream, f"{stream.scope}/n", {0: 22})


def test_groups_that_can_not_be_are_refused() -> None:
    stream = Stream("s", "t")
    with pytest.raises(ConfigurationError, match='reader group "s/g" needs at least one stream'):
        ReaderGroup(scope="s", name="g", streams=())
    with pytest.raises(ConfigurationError, match="at least 1 outstanding checkpoint"):
        replace(group(stream), max_outstanding_checkpoints=0)
    with pytest.raises(ConfigurationError, match='a cut of stream "s/u" can\'t bound stream "s/t"'):
        ReaderGroupStream(stream=stream, end=StreamCut(Stream("s", "u"), {0: 0}))


def test_a_group_survives_the_controller_s_message() -> None:
    stream = Stream("s", "t")
    bounds: list[StreamCut | Unbounded] = [UNBOUNDED, StreamCut(stream, {0: 3, 1 << 32: -1})]
    for start in bounds:
        for end in bounds:
            part = ReaderGroupStream(stream=stream, start=start, end=end)
            configuration = replace(
                group(stream), streams=(part,), id=uuid.uuid4(), generation=4, rollover_size_bytes=9
            )
            assert messages.reader_group(messages.reader_group_message(configuration)) == configuration


@server
def test_a_creation_without_an_answer_is_asked_for_again(
    settings: Settings, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same id: one that the controller broke off is ended by nothing else (tests/chaos/test_creations.py)."""
    monkeypatch.setattr(reader_groups, "_ASKED_AGAIN_S", 0.5)
    asked: list[ReaderGroup] = []
    over = Event()

    def hangs_once(method: str, call: Callable[[], bytes]) -> bytes:
        answer = call()
        if method == "createReaderGroup":
            asked.append(messages.reader_group(pb.CreateReaderGroupResponse.FromString(answer).config))
            if len(asked) == 1:
                over.wait()
        return answer

    with relayed(settings.controller_uri) as relay, Client(replace(settings, controller_uri=relay.uri)) as through:
        relay.answer = hangs_once
        try:
            assert through.controller.create_reader_group(group(stream)) == asked[0]
        finally:
            over.set()
    assert len(asked) > 1
    assert [*{*asked}] == asked[:1]
