"""Key-value tables are made, however many look for them meanwhile.

Each look between two steps of the controller may make it break a creation off (`client/key_value/creation.py`). Of
1,000 tables, each looked for every 10 ms, that were two or three.

`make chaos` makes 5,000 tables, `make chaos-sample` 200; `CREATED_TABLES=N` makes another number.
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

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.key_value import creation
from pyspark_pravega.connector.log import create_ledger, open_ledger
from pyspark_pravega.connector.log.entries import State
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.timeout(7200)]

TABLES = int(os.environ.get("CREATED_TABLES", "200"))
AT_ONCE = 4
IN_SCOPE = 25
"""So many streams of a scope get a commit log: the more there are, the slower a scope is to be deleted."""


@contextmanager
def looked_for(others: Sequence[Client], stream: Stream) -> Iterator[None]:
    """Others look for a stream's commit log all the time, as queries do that follow the stream."""
    over, begun = threading.Event(), threading.Barrier(len(others) + 1)

    def look(other: Client) -> None:
        with suppress(PravegaError):
            open_ledger(other, stream)
        begun.wait()
        while not over.is_set():
            with suppress(PravegaError):
                open_ledger(other, stream)
            time.sleep(0.005)

    with ThreadPoolExecutor(len(others)) as threads:
        looking = [threads.submit(look, other) for other in others]
        begun.wait()
        try:
            yield
        finally:
            over.set()
    for one in looking:
        one.result()


def test_tables_are_made_while_others_look_for_them(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    forget: Callable[..., list[str]] = creation.forget_broken_names
    broken: list[str] = []

    def count(*arguments: object) -> list[str]:
        names = forget(*arguments)
        broken.extend(names)
        return names

    monkeypatch.setattr(creation, "forget_broken_names", count)
    monkeypatch.setattr(creation, "_ASKED_AGAIN_S", 2.0)

    def make_logs(tables: int) -> None:
        with Client(settings) as client, Client(settings) as other, Client(settings) as third:
            scope = f"test-{uuid.uuid4().hex[:12]}"
            client.controller.create_scope(scope)
            for number in range(tables):
                stream = make_stream(client, scope, f"t{number}")
                with looked_for([other, third], stream):
                    assert create_ledger(client, stream).state() == State()
                assert open_ledger(client, stream) is not None
            client.controller.delete_scope(scope, recursive=True)

    begun = time.monotonic()
    scopes = [min(IN_SCOPE, TABLES - first) for first in range(0, TABLES, IN_SCOPE)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(make_logs, scopes))
    print(f"{TABLES} tables, {len(broken)} creations broken off, {time.monotonic() - begun:.0f} s")
