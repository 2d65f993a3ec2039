"""Servers that die or freeze while they are used: who waits finds out in seconds, and goes on when there is another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit

import pytest
from client_tools import Proxy, ThroughProxy, append, content, framed, make_stream, pool_to
from controller_relay import relayed
from freezing_proxy import FreezingProxy

from pyspark_pravega import deadlines, outages
from pyspark_pravega.client import Client, Controller, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.connections import absent
from pyspark_pravega.client.key_value import NOT_EXISTS
from pyspark_pravega.client.segments.reading import follow_segment, segment_state
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.errors import (
    ControllerUnavailableError,
    SegmentStoreUnavailableError,
    UnavailableError,
)
from pyspark_pravega.registry import SchemaRegistry, transport
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.in_turn]

NOTICED_S = 10.0
"""A frozen server is noticed after 7 s. It took 120 before."""


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t", segments=8)


@contextmanager
def frozen(client: Client, stream: Stream, settings: Settings) -> Iterator[tuple[Client, FreezingProxy]]:
    """A client whose controller names a segment store that can be frozen, and the right one since it is."""
    target = client.controller.endpoint(stream, 0)
    with FreezingProxy(target) as proxy, ThroughProxy(settings, proxy) as broken:
        runs = proxy._runs
        broken.controller.endpoint = lambda *_: proxy.address if runs.is_set() else target  # type: ignore[method-assign]
        yield broken, proxy


def test_an_append_to_a_segment_store_that_freezes_goes_to_the_one_that_has_taken_over(
    settings: Settings, client: Client, stream: Stream
) -> None:
    with frozen(client, stream, settings) as (broken, proxy):
        writer = SegmentWriter(broken.pool, stream, 0)
        writer.append(framed(b"one"), 1)
        writer.flush()
        proxy.freeze()
        begun = time.monotonic()
        writer.append(framed(b"two"), 1)
        writer.flush()
        assert time.monotonic() - begun < NOTICED_S
        writer.close()
    assert content(client.pool, stream, 0) == framed(b"one") + framed(b"two")


def test_a_frozen_segment_store_is_noticed_once_for_all_segments(
    settings: Settings, client: Client, stream: Stream
) -> None:
    with frozen(client, stream, settings) as (broken, proxy):
        for segment_id in range(8):
            segment_state(broken.pool, stream, segment_id)
        proxy.freeze()
        begun = time.monotonic()
        for segment_id in range(8):
            segment_state(broken.pool, stream, segment_id)
        assert time.monotonic() - begun < NOTICED_S


def test_a_reader_at_the_tail_of_a_frozen_segment_store_goes_on_elsewhere(
    settings: Settings, client: Client, stream: Stream
) -> None:
    with frozen(client, stream, settings) as (broken, proxy):
        tail = follow_segment(broken.pool, stream, 0, 0, pause=0.1)
        assert next(tail) is None
        proxy.freeze()
        append(client, stream, 0, framed(b"one"))
        begun = time.monotonic()
        assert next(data for data in tail if data is not None) == framed(b"one")
        assert time.monotonic() - begun < NOTICED_S + 5
        tail.close()


def test_what_is_read_between_two_outages_parts_them(settings: Settings, client: Client, stream: Stream) -> None:
    """Whoever took his time with what had come was told at the next lost connection that the time was over."""
    with (
        Proxy(client.controller.endpoint(stream, 0)) as proxy,
        pool_to(settings, proxy.address, timeout=2.0) as pool,
        closing(follow_segment(pool, stream, 0, 0, pause=0.1)) as tail,
    ):
        assert next(tail) is None
        append(client, stream, 0, framed(b"one"))
        assert next(data for data in tail if data is not None) == framed(b"one")
        append(client, stream, 0, framed(b"two"))
        proxy.cut_all()
        # The next one for the bytes that are there, and the one behind it, for those to come, is cut at once.
        proxy._allowances += [1 << 62, 1]
        two = next(data for data in tail if data is not None)
        time.sleep(2.5)
        append(client, stream, 0, framed(b"three"))
        three = next(data for data in tail if data is not None)
        assert (bytes(two), bytes(three)) == (framed(b"two"), framed(b"three"))
        assert not proxy._allowances


def test_a_segment_store_that_is_slow_but_there_keeps_its_connection(
    settings: Settings, client: Client, stream: Stream
) -> None:
    """The connection that is silent is pinged by another one."""
    target = client.controller.endpoint(stream, 0)
    with FreezingProxy(target) as proxy, pool_to(settings, proxy.address) as pool:
        segment_state(pool, stream, 0)
        proxy.freeze()
        presence = pool._presence(proxy.address)
        pinged = threading.Event()

        def answers(seconds: float) -> absent.Greeted:
            assert seconds == deadlines.CONNECT_S
            pinged.set()
            threading.Timer(0.5, proxy.thaw).start()
            return pool._new(target, seconds)

        presence._connect = answers
        segment_state(pool, stream, 0)
        assert pinged.is_set()
        assert not presence.is_missed
        assert proxy.connections == 1


def test_a_controller_that_freezes_holds_no_call_that_the_next_one_can_do(settings: Settings, scope: str) -> None:
    real = "{}:{}".format(*settings.controllers[0])
    with (
        FreezingProxy(settings.controllers[0]) as proxy,
        Controller(f"tcp://127.0.0.1:{proxy.address[1]},{real}") as controller,
    ):
        assert controller.scope_exists(scope)
        proxy.freeze()
        begun = time.monotonic()
        stream = Stream(scope, "made")
        assert controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=1)))
        controller.begin_transaction(stream, lease_ms=20_000)
        assert time.monotonic() - begun < NOTICED_S


def test_who_has_never_answered_is_given_up_early_and_who_has_is_waited_for(
    settings: Settings, client: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "FIRST_CONTACT_S", 0.5)
    proxy = Proxy(client.controller.endpoint(stream, 0))
    proxy.close()
    # Not when the timeout is over: the test's own comes before it.
    with (
        pool_to(settings, proxy.address, timeout=3000) as pool,
        pytest.raises(SegmentStoreUnavailableError, match="check that this machine can reach the address"),
    ):
        segment_state(pool, stream, 0)
    with Proxy(client.controller.endpoint(stream, 0)) as proxy, pool_to(settings, proxy.address, timeout=2) as pool:
        segment_state(pool, stream, 0)
        proxy.close()
        begun = time.monotonic()
        words = (
            r"no Pravega segment store answers at 127\.0\.0\.1:\d+ since \d\d:\d\d:\d\d, for \d s \(.*refused\): it has"
        )
        with pytest.raises(SegmentStoreUnavailableError, match=words):
            segment_state(pool, stream, 0)
        assert time.monotonic() - begun > 0.5


class Rescue(logging.Handler):
    """Does something when it is said that a server is waited for."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.said, self._act = list[str](), act

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        if "doesn't answer since" in self.said[-1]:
            self._act()

    def __enter__(self) -> Rescue:
        logging.getLogger("pyspark_pravega.outages").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("pyspark_pravega.outages").removeHandler(self)


@pytest.mark.parametrize("silent", [False, True])
def test_who_begins_during_a_fail_over_waits_for_it_and_is_told_at_once(
    settings: Settings, scope: str, monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    """A controller and a registry that this process has never reached come back when it is said that they are gone."""
    monkeypatch.setattr(transport, "ATTEMPT_S", 0.3)
    registry = urlsplit(settings.schema_registry_uri or "")
    for target, ask in (
        (settings.controllers[0], lambda port: Controller(f"tcp://0.0.0.0:{port}").scope_exists(scope)),
        ((str(registry.hostname), registry.port or 0), lambda port: SchemaRegistry(f"http://0.0.0.0:{port}").ping()),
    ):
        with closing(FreezingProxy(target) if silent else Proxy(target)) as proxy:
            port = proxy.address[1]
            # This machine by another name: where nobody listens on one's own nothing is waited for.
            if isinstance(proxy, FreezingProxy):
                proxy.freeze()
                act: Callable[[], object] = proxy.thaw
            else:
                proxy.close()
                act = partial(Proxy, target, port=port)
            with Rescue(act) as rescue:
                ask(port)
        assert "it has never answered this process: the address may be wrong" in rescue.said[0]
        assert "answers again" in rescue.said[1]


def test_what_is_waited_for_is_said_once_and_so_is_its_end(
    settings: Settings,
    client: Client,
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(deadlines, "SAID_AFTER_S", 0.2)
    target = client.controller.endpoint(stream, 0)
    with Proxy(target) as proxy, pool_to(settings, proxy.address, timeout=2) as pool:
        segment_state(pool, stream, 0)
        proxy.close()
        name = f"segment store 127.0.0.1:{proxy.address[1]}"
        with caplog.at_level(logging.WARNING, logger="pyspark_pravega.outages"):
            for segment_id in range(2):
                with pytest.raises(SegmentStoreUnavailableError):
                    segment_state(pool, stream, segment_id)
            with Proxy(target, port=proxy.address[1]):
                time.sleep(0.6)
                segment_state(pool, stream, 0)
        first, *again, last = (record.getMessage() for record in caplog.records if name in record.getMessage())
        assert f"{name} doesn't answer since" in first
        assert "it is tried until" in first
        # Whoever waits when another one has given up says it, too.
        assert len(again) <= 1
        assert f"{name} answers again, after" in last


def test_what_comes_and_goes_is_not_said_each_time(
    settings: Settings,
    client: Client,
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a segment store does, each second or two, while its containers wait for a bookie."""
    monkeypatch.setattr(deadlines, "SAID_AFTER_S", 0.1)
    target = client.controller.endpoint(stream, 0)
    with Proxy(target) as proxy, pool_to(settings, proxy.address, timeout=1) as pool:
        segment_state(pool, stream, 0)
        port, name = proxy.address[1], f"segment store 127.0.0.1:{proxy.address[1]}"
    with caplog.at_level(logging.WARNING, logger="pyspark_pravega.outages"):
        for round in range(4):
            if round == 3:
                # Of what goes later it is said.
                monkeypatch.setattr(outages, "QUIET_S", timedelta(0))
            with pytest.raises(SegmentStoreUnavailableError):
                segment_state(pool, stream, 0)
            with Proxy(target, port=port):
                time.sleep(0.6)
                segment_state(pool, stream, 0)
    said = [record.getMessage() for record in caplog.records if name in record.getMessage()]
    assert [words for one in said for words in ("doesn't answer since", "answers again") if words in one] == [
        *("doesn't answer since", "answers again") * 2
    ]


def test_controllers_that_are_gone_are_named_with_the_time_by_each_call(
    settings: Settings, scope: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who tries it after another one has given up is told, too: else that call hangs without a word."""
    monkeypatch.setattr(deadlines, "SAID_AFTER_S", 0.2)
    with (
        Proxy(settings.controllers[0]) as proxy,
        Controller(f"tcp://127.0.0.1:{proxy.address[1]}", timeout=2) as controller,
        caplog.at_level(logging.WARNING, logger="pyspark_pravega.outages"),
    ):
        assert controller.scope_exists(scope)
        proxy.close()
        for _ in range(2):
            with pytest.raises(ControllerUnavailableError, match=r"no .* controller answers at .* since .*has died"):
                controller.scope_exists(scope)
    first, second = (record.getMessage().split("it is tried until") for record in caplog.records)
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_an_error_that_has_taken_all_the_time_is_not_waited_for_again() -> None:
    error = UnavailableError("gone")
    error.since = time.monotonic() - 60
    tries = deadlines.Retries(50)
    try:
        raise error
    except UnavailableError:
        assert not tries.again()


def test_a_conditional_change_whose_answer_is_lost_is_made_once(settings: Settings, client: Client, scope: str) -> None:
    client.create_key_value_table(scope, "kv", partitions=1, key_bytes=1)
    stream = client.key_value_table(scope, "kv")._stream
    with Proxy(client.controller.endpoint(stream, 0)) as proxy, ThroughProxy(settings, proxy) as through:
        table = through.key_value_table(scope, "kv")
        version = table.put([(b"k", NOT_EXISTS, b"1")])[0]
    outcomes: set[str] = set()
    # Cut after so many bytes of both directions: before the command, in it, behind it, and in its answer.
    for size in (33, 60, 120, 150, 190, 200, 210, 215, 220, 230):
        with Proxy(client.controller.endpoint(stream, 0), size) as proxy, ThroughProxy(settings, proxy) as through:
            table = through.key_value_table(scope, "kv")
            value = str(size).encode()
            try:
                version = table.put([(b"k", version, value)])[0]
                outcomes.add("made")
            except SegmentStoreUnavailableError as error:
                outcomes.add(str(error))
            (entry,) = client.key_value_table(scope, "kv").get([b"k"])
            assert entry is not None
            assert entry.value == value
            version = entry.version
    assert "made" in outcomes
    assert all("may or may not have been made" in outcome for outcome in outcomes - {"made"})


def test_a_controller_of_a_cluster_that_does_not_do_a_call_is_there(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """A standalone server never tells which controllers there are, a cluster's does: nothing else is said of it."""
    nodes = b"\n\x0e\n\x09127.0.0.1\x10\x82\x47"
    held = threading.Event()

    def answer(method: str, call: Callable[[], bytes]) -> bytes:
        if method == "checkScopeExists" and held.is_set():
            time.sleep(3)
        return nodes if method == "getControllerServerList" else call()

    with relayed(settings.controller_uri) as relay, Controller(relay.uri, timeout=1.0) as controller:
        relay.answer = answer
        assert not controller.scope_exists("nowhere")
        held.set()
        with pytest.raises(ControllerUnavailableError, match="is there, but has not done checkScopeExists"):
            controller.scope_exists("nowhere")
    assert [record.message for record in caplog.records if record.name.startswith("grpc")] == []
