"""Key-value tables and streams whose creation the controller has broken off: what it leaves is made here, on a server.

`tests/chaos/test_creations.py` has the controller itself break creations off.
"""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from client_tools import break_creation, scope_that_is_deleted

from pyspark_pravega.client import Client, KeyValueTable, Stream, StreamConfiguration
from pyspark_pravega.client.controller import streams
from pyspark_pravega.client.key_value import NOT_EXISTS, creation, forget_broken_names
from pyspark_pravega.client.policies import KeyValueTableConfiguration
from pyspark_pravega.deadlines import deadline
from pyspark_pravega.errors import (
    ControllerUnavailableError,
    KeyValueTableNotFoundError,
    OperationFailedError,
    ScopeNotFoundError,
    UnavailableError,
)
from pyspark_pravega.sandbox.ports import free_ports
from pyspark_pravega.settings import Settings
from pyspark_pravega.together import together

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation, "_ASKED_AGAIN_S", 0.7)
    monkeypatch.setattr(creation, "_BARE_S", 0.7)


CONFIGURATION = KeyValueTableConfiguration(partitions=2, key_bytes=4, secondary_key_bytes=2)


def create(client: Client, scope: str, name: str) -> bool | None:
    return client.create_key_value_table(scope, name, partitions=2, key_bytes=4, secondary_key_bytes=2)


def test_a_broken_name_is_made(client: Client, scope: str) -> None:
    """Alone the controller can neither make nor delete it, nor is its scope ever empty."""

    def make(*, has_segment: bool) -> None:
        controller, name = client.controller, f"kv-{has_segment}"
        break_creation(client, scope, name, has_segment=has_segment)
        for _ in range(2):
            with pytest.raises(UnavailableError), deadline(1.0):
                controller.create_key_value_table(scope, name, partitions=1, key_bytes=4)
        assert controller.delete_key_value_table(scope, name) is False
        assert name in list(controller.list_key_value_tables(scope))

        # On a busy machine the answer of the call that makes it isn't waited for.
        create(client, scope, name)
        assert create(client, scope, name) is False
        assert controller.key_value_table_configuration(scope, name) == CONFIGURATION
        table = client.key_value_table(scope, name)
        table.put([(b"keykey", NOT_EXISTS, b"value")])
        assert [entry and entry.value for entry in table.get([b"keykey"])] == [b"value"]
        assert controller.delete_key_value_table(scope, name) is True
        assert name not in list(controller.list_key_value_tables(scope))
        create(client, scope, name)

    together(lambda: make(has_segment=False), lambda: make(has_segment=True))


def test_several_who_make_a_broken_name_at_once_make_one_table(
    settings: Settings, client: Client, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a table takes more than 5 s, and two would make it if one took the other's for broken.
    monkeypatch.setattr(creation, "_BARE_S", 10.0)
    break_creation(client, scope, "kv", has_segment=True)

    def insert(number: int) -> bool:
        with Client(settings) as own:
            time.sleep(0.02 * number)
            is_new = create(own, scope, "kv") is True
            KeyValueTable(own.pool, scope, "kv").put([(b"%06d" % number, NOT_EXISTS, b"value")])
            return is_new

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(insert, range(4))) <= 1
    assert len(list(client.key_value_table(scope, "kv").iterate_keys())) == 4


def test_only_names_without_a_table_are_forgotten(client: Client, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is being made has its table a moment later."""
    create(client, scope, "whole")
    key = b"keykey"
    client.key_value_table(scope, "whole").put([(key, NOT_EXISTS, b"value")])
    break_creation(client, scope, "broken", has_segment=True)
    break_creation(client, scope, "slow", has_segment=False)

    looked, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        looked.set()
        go_on.wait()

    monkeypatch.setattr(creation, "_pause", pause)
    with ThreadPoolExecutor(1) as thread:
        forgotten = thread.submit(forget_broken_names, client, scope, ["whole", "broken", "slow", "nowhere"])
        looked.wait()
        # As when its creation comes to its end meanwhile.
        monkeypatch.setattr(creation, "_pause", lambda: None)
        try:
            assert forget_broken_names(client, scope, ["slow"]) == ["slow"]
            assert create(client, scope, "slow")
        finally:
            go_on.set()
        assert forgotten.result() == ["broken"]
    assert sorted(client.controller.list_key_value_tables(scope)) == ["slow", "whole"]
    assert forget_broken_names(client, f"test-{uuid.uuid4().hex}", ["kv"]) == []
    assert [entry and entry.value for entry in client.key_value_table(scope, "whole").get([key])] == [b"value"]
    with pytest.raises(KeyValueTableNotFoundError):
        client.key_value_table(scope, "broken")


def test_what_no_later_call_can_change_is_said_at_once(client: Client, settings: Settings, scope: str) -> None:
    with pytest.raises(ScopeNotFoundError):
        create(client, "test-nowhere", "kv")
    # A time-out of an hour: the test's own time limit would be over.
    nowhere = replace(settings, controller_uri=f"tcp://127.0.0.1:{free_ports(1)[0]}", timeout=3600.0)
    with Client(nowhere) as lost, pytest.raises(ControllerUnavailableError, match="no Pravega controller answers"):
        create(lost, scope, "kv")


def test_a_stream_is_made_that_the_controller_says_has_no_scope(client: Client, scope: str) -> None:
    """It says so also when somebody's look at the stream makes it break the creation off."""
    stream = Stream(scope, "t")
    with ThreadPoolExecutor(1) as threads:
        with scope_that_is_deleted(client, scope):
            created = threads.submit(client.controller.create_stream, stream, StreamConfiguration())
            time.sleep(0.3)
            assert not created.done()
        assert created.result() is True
    assert client.controller.create_stream(stream, StreamConfiguration()) is False


def test_a_stream_is_not_made_in_a_scope_that_somebody_deletes(
    client: Client, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_CREATE_PATIENCE_S", 0.5)
    says = f'could not create stream "{scope}/t".* scope "{scope}" .*being deleted'
    with scope_that_is_deleted(client, scope), pytest.raises(OperationFailedError, match=says):
        client.controller.create_stream(Stream(scope, "t"), StreamConfiguration())
    with pytest.raises(ScopeNotFoundError, match="create it first"):
        client.controller.create_stream(Stream(scope + "-not", "t"), StreamConfiguration())
