"""Commit logs that are made while the controller doesn't answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest
from client_tools import break_creation, make_stream
from controller_relay import relayed

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.key_value import creation
from pyspark_pravega.connector.log import Ledger, claim_ledger, create_ledger, open_ledger
from pyspark_pravega.connector.log.entries import State
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.settings import Settings
from pyspark_pravega.together import together

pytestmark = pytest.mark.server


def test_a_log_is_used_though_the_controller_never_answers_its_creation(
    settings: Settings, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six who made one log at once, one was told nothing for 30 s, by four calls; the log was there."""
    monkeypatch.setattr(creation, "_ASKED_AGAIN_S", 1.0)
    over = Event()

    def never_answers(method: str, call: Callable[[], bytes]) -> bytes:
        answer = call()
        if method == "createKeyValueTable":
            over.wait()
        return answer

    patient = replace(settings, timeout=5.0)
    with relayed(settings.controller_uri) as relay, Client(replace(patient, controller_uri=relay.uri)) as through:
        relay.answer = never_answers
        try:
            assert create_ledger(through, stream).state().version == 0
        finally:
            over.set()


@pytest.mark.parametrize("make", [create_ledger, claim_ledger])
def test_a_log_is_made_though_the_controller_does_not_end_its_creation(
    settings: Settings,
    client: Client,
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Client, Stream], Ledger | None],
) -> None:
    """It is asked once more. One of some hundred creations by several at once was seen to hang."""
    monkeypatch.setattr(creation, "_ASKED_AGAIN_S", 1.0)
    begun: list[str] = []
    over = Event()

    def hangs_once(method: str, call: Callable[[], bytes]) -> bytes:
        if method == "createKeyValueTable":
            begun.append(method)
            if len(begun) == 1:
                over.wait()
        return call()

    with relayed(settings.controller_uri) as relay, Client(replace(settings, controller_uri=relay.uri)) as through:
        relay.answer = hangs_once
        try:
            ledger = make(through, stream)
            assert ledger is not None
            assert ledger.state() == State()
        finally:
            over.set()
    assert len(begun) == 2
    assert open_ledger(client, stream) is not None


def test_a_log_is_made_where_the_controller_broke_off_an_earlier_creation(
    client: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that looked for the log at the wrong moment had it: the stream took no INSERT ever after."""
    monkeypatch.setattr(creation, "_ASKED_AGAIN_S", 0.7)
    monkeypatch.setattr(creation, "_BARE_S", 0.7)
    other = make_stream(client, stream.scope, "other")
    for one in (stream, other):
        break_creation(client, one.scope, ledger_name(one), has_segment=True)
        assert open_ledger(client, one) is None
    for ledger in together(lambda: create_ledger(client, stream), lambda: claim_ledger(client, other)):
        assert ledger is not None
        assert ledger.state() == State()
    assert open_ledger(client, stream) is not None
