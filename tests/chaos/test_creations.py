"""Key-value tables, reader groups and streams are made, however many look for them meanwhile.

Each look between two steps of the controller may make it break a creation off (`client/key_value/creation.py`). Of
1,000 tables, each looked for every 10 ms, that were two or three; of 1,000 reader groups seven; of 600 streams eight.

`make chaos` makes 5,000 tables, half as many groups and as many streams as groups, `make chaos-sample` 200 tables;
`CREATED_TABLES=N` makes another number.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from client_tools import make_stream

from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.client.controller import reader_groups
from pyspark_pravega.client.key_value import creation
from pyspark_pravega.client.reader_groups import ReaderGroup, ReaderGroupStream
from pyspark_pravega.connector.log import create_ledger, open_ledger
from pyspark_pravega.connector.log.entries import State
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.timeout(7200)]

TABLES = int(os.environ.get("CREATED_TABLES", "200"))
AT_ONCE = 4
IN_SCOPE = 25
"""So many streams a scope has: the more there are, the slower it is to be deleted."""
Look = Callable[[Client, Stream], object]


@contextmanager
def looked_for(look: Look, others: Sequence[Client], stream: Stream) -> Iterator[None]:
    """Others look all the time, as queries do that follow a stream."""
    over, begun = threading.Event(), threading.Barrier(len(others) + 1)

    def keep_looking(other: Client) -> None:
        with suppress(PravegaError):
            look(other, stream)
        begun.wait()
        while not over.is_set():
            with suppress(PravegaError):
                look(other, stream)
            time.sleep(0.005)

    with ThreadPoolExecutor(len(others)) as threads:
        looking = [threads.submit(keep_looking, other) for other in others]
        begun.wait()
        try:
            yield
        finally:
            over.set()
    for one in looking:
        one.result()


def make_many(settings: Settings, count: int, make: Callable[[Client, Stream], None], look: Look) -> float:
    """Make something of many streams, several at a time, while others look for each; returns how long it took."""

    def make_some(streams: int) -> None:
        with Client(settings) as client, Client(settings) as other, Client(settings) as third:
            scope = f"test-{uuid.uuid4().hex[:12]}"
            client.controller.create_scope(scope)
            for number in range(streams):
                stream = make_stream(client, scope, f"t{number}")
                with looked_for(look, [other, third], stream):
                    make(client, stream)
                assert look(client, stream) is not None
            client.controller.delete_scope(scope, recursive=True)

    begun = time.monotonic()
    scopes = [min(IN_SCOPE, count - first) for first in range(0, count, IN_SCOPE)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(make_some, scopes))
    return time.monotonic() - begun


def test_tables_are_made_while_others_look_for_them(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    forget: Callable[..., list[str]] = creation.forget_broken_names
    broken: list[str] = []

    def count(*arguments: object) -> list[str]:
        names = forget(*arguments)
        broken.extend(names)
        return names

    monkeypatch.setattr(creation, "forget_broken_names", count)
    monkeypatch.setattr(creation, "_ASKED_AGAIN_S", 2.0)

    def make(client: Client, stream: Stream) -> None:
        assert create_ledger(client, stream).state() == State()

    took_s = make_many(settings, TABLES, make, open_ledger)
    print(f"{TABLES} tables, {len(broken)} creations broken off, {took_s:.0f} s")


def test_reader_groups_are_made_while_others_look_for_them(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_groups, "_ASKED_AGAIN_S", 2.0)
    slow: list[str] = []

    def make(client: Client, stream: Stream) -> None:
        group = ReaderGroup(scope=stream.scope, name="g" + stream.name, streams=(ReaderGroupStream(stream=stream),))
        begun = time.monotonic()
        present = client.controller.create_reader_group(group)
        assert client.controller.reader_group(stream.scope, group.name).id == present.id
        if time.monotonic() - begun > 2.0:
            slow.append(group.name)

    groups = TABLES // 2
    took_s = make_many(
        settings, groups, make, lambda client, stream: client.controller.reader_group(stream.scope, "g" + stream.name)
    )
    print(f"{groups} reader groups, {len(slow)} creations asked for again, {took_s:.0f} s")


def test_streams_are_made_while_others_look_for_them(settings: Settings) -> None:
    def copy_of(stream: Stream) -> Stream:
        return Stream(stream.scope, "s" + stream.name)

    def make(client: Client, stream: Stream) -> None:
        assert client.controller.create_stream(copy_of(stream), StreamConfiguration()) is True

    streams = TABLES // 2
    took_s = make_many(
        settings, streams, make, lambda client, stream: client.controller.is_current(copy_of(stream), segment_id=0)
    )
    print(f"{streams} streams, {took_s:.0f} s")
