"""A DROP that is interrupted can be done again, and a CREATE isn't kept by what is left of another table."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from catalog_tools import ids, insert, make
from client_tools import make_stream
from controller_relay import relayed
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.statements import tables
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.controller import key_value_tables
from pyspark_pravega.client.key_value import creation
from pyspark_pravega.connector.log import claim_ledger, create_ledger, delete_ledger, open_ledger, sealing
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.deadlines import deadline
from pyspark_pravega.errors import (
    GroupNotFoundError,
    PravegaError,
    RegistryUnavailableError,
    ScopeNotEmptyError,
    StreamNotFoundError,
    StreamSealedError,
)
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

KEY_VALUES_GONE = "PRAVEGA_KEY_VALUE_TABLE_NOT_FOUND"
OTHER = StructType([StructField("id", StringType(), False)])


def registry_process(settings: Settings) -> int:
    """The process that listens where the registry is."""
    assert settings.schema_registry_uri
    port = f":{int(settings.schema_registry_uri.rpartition(':')[2]):04X}"
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    (inode,) = {line[9] for line in lines if line[1].endswith(port) and line[3] == "0A"}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(descriptor) == f"socket:[{inode}]":
                return int(descriptor.parts[2])
        except OSError:
            continue
    raise AssertionError("nobody listens there")


def test_a_drop_without_an_answer_of_the_registry_is_done_again(
    settings: Settings, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    """The stream was gone, SQL couldn't drop the rest, and a CREATE with other types failed each time."""
    patient, catalog = Catalog(settings), Catalog(replace(settings, timeout=2.0))
    stream = make(patient, scope)
    insert(patient, stream, 1, 2)
    process = registry_process(settings)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(RegistryUnavailableError):
            catalog.relations.drop([scope], "t")
        assert stream.name in client.controller.list_streams(scope)
        assert open_ledger(client, stream) is not None
    finally:
        os.kill(process, signal.SIGCONT)
    assert patient.relations.drop([scope], "t") is True
    assert stream.name not in client.controller.list_streams(scope)
    assert open_ledger(client, stream) is None
    with pytest.raises(GroupNotFoundError):
        registry.group(scope, "t")
    assert patient.tables.create([scope], "t", OTHER, [], {}).schema == OTHER


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_drop_goes_on_where_another_one_has_died(
    catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str, steps: int
) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1, 2)
    done: list[Callable[[], object]] = [
        lambda: registry.delete_group(scope, "t"),
        lambda: client.controller.seal_stream(stream),
        lambda: delete_ledger(client, stream),
    ]
    for step in done[:steps]:
        step()
    catalog.forget(stream)
    assert catalog.relations.names([scope]) == ["t"]
    assert catalog.relations.drop([scope], "t") is True
    assert catalog.tables.create([scope], "t", OTHER, [], {}).schema == OTHER


def test_what_is_left_of_a_table_whose_stream_is_gone_keeps_no_other_from_being_made(
    catalog: Catalog, client: Client, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than a test may take: versions show that nobody is making the table just now.
    monkeypatch.setattr(tables, "CLAIM_S", 3000.0)
    stream = make(catalog, scope)
    insert(catalog, stream, 1, 2)
    client.controller.delete_stream(stream, seal=True)
    catalog.forget(stream)
    assert catalog.tables.create([scope], "t", OTHER, [], {}).schema == OTHER
    ledger = open_ledger(client, stream)
    assert ledger is not None
    assert ledger.state().version == 0


def test_a_log_is_not_made_for_a_stream_that_is_gone_or_takes_no_more_events(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t")
    client.controller.seal_stream(stream)
    with pytest.raises(StreamSealedError, match=f'stream "{stream}" is sealed'):
        create_ledger(client, stream, to_write=True)
    assert open_ledger(client, stream) is None
    # Properties of a sealed stream can still be noted.
    create_ledger(client, stream).set_properties({"a.b": "c"})
    assert create_ledger(client, stream, to_write=True).properties() == {"a.b": "c"}
    delete_ledger(client, stream)
    client.controller.delete_stream(stream)
    with pytest.raises(StreamNotFoundError, match=f'stream "{stream}" does not exist'):
        create_ledger(client, stream)
    assert open_ledger(client, stream) is None


def test_a_table_is_dropped_though_the_controller_does_not_end_the_deletion_of_its_log(
    settings: Settings, client: Client, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was waited for until the time was over, for 30 s."""
    monkeypatch.setattr(key_value_tables, "_DELETED_S", 1.0)
    calls: list[str] = []
    over = Event()

    def hangs_once(method: str, call: Callable[[], bytes]) -> bytes:
        calls.append(method)
        if method == "deleteKeyValueTable" and calls.count(method) == 1:
            over.wait()
        return call()

    with relayed(settings.controller_uri) as relay:
        catalog = Catalog(replace(settings, controller_uri=relay.uri))
        stream = make(catalog, scope)
        relay.answer = hangs_once
        try:
            with deadline(20.0):
                assert catalog.relations.drop([scope], "t") is True
        finally:
            over.set()
    assert calls.count("deleteKeyValueTable") == 3
    assert open_ledger(client, stream) is None


def test_who_writes_while_a_table_is_dropped_keeps_no_other_from_being_made(
    catalog: Catalog, client: Client, settings: Settings, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next CREATE TABLE took the log for that of somebody who creates the table, too, and waited for 30 s."""
    # Where a table is made and deleted at one time, the controller may come to the end of neither; it is asked again.
    monkeypatch.setattr(creation, "_ASKED_AGAIN_S", 2.0)
    monkeypatch.setattr(key_value_tables, "_DELETED_S", 1.0)
    create: Callable[..., bool | None] = Client.create_key_value_table
    is_new: dict[str, bool | None] = {}

    def noting(self: Client, scope: str, name: str, **sizes: int) -> bool | None:
        is_new[name] = False
        is_new[name] = create(self, scope, name, **sizes)
        return is_new[name]

    monkeypatch.setattr(Client, "create_key_value_table", noting)
    streams = [make_stream(client, scope, f"t{number}") for number in range(10)]
    dropped = set[Stream]()

    def write(stream: Stream) -> list[str]:
        errors = []
        with Client(settings) as writer:
            while True:
                was_dropped = stream in dropped
                try:
                    create_ledger(writer, stream, to_write=True)
                except PravegaError as error:
                    errors.append(error.condition)
                if was_dropped:
                    return errors
                time.sleep(0.01)

    def drop(stream: Stream) -> None:
        time.sleep(0.03 * streams.index(stream))
        catalog.relations.drop([scope], stream.name)
        dropped.add(stream)

    with ThreadPoolExecutor(2 * len(streams)) as threads:
        writers = [threads.submit(write, stream) for stream in streams]
        list(threads.map(drop, streams))
        errors = {error for writer in writers for error in writer.result()}
    assert "PRAVEGA_STREAM_NOT_FOUND" in errors
    half = "PRAVEGA_TABLE_BEING_DROPPED"
    assert errors <= {"PRAVEGA_STREAM_NOT_FOUND", "PRAVEGA_STREAM_SEALED", KEY_VALUES_GONE, half}
    # A log that was made too late is marked as left over, unless its maker had no answer: nobody waits for its maker.
    for stream in streams:
        log = open_ledger(client, stream)
        assert log is None or log.is_left_over() or not is_new[ledger_name(stream)]
    monkeypatch.setattr(tables, "CLAIM_S", 5.0)
    for stream in streams:
        assert catalog.tables.create([scope], stream.name, OTHER, [], {}).schema == OTHER


def test_of_several_who_drop_a_table_at_once_none_fails(settings: Settings, client: Client, scope: str) -> None:
    """One in five failed: the controller said that a part of the commit log's table wasn't there."""
    catalogs = [Catalog(settings) for _ in range(3)]
    with ThreadPoolExecutor(len(catalogs)) as threads:
        for number in range(5):
            stream = make(catalogs[0], scope)
            insert(catalogs[0], stream, 1)
            pauses = [0.01 * number * place for place in range(len(catalogs))]

            def drop(catalog: Catalog, pause: float) -> bool:
                time.sleep(pause)
                return catalog.relations.drop([scope], "t")

            assert True in list(threads.map(drop, catalogs, pauses))
            assert stream.name not in client.controller.list_streams(scope)
            assert open_ledger(client, stream) is None


def test_a_log_without_a_stream_keeps_no_namespace_from_being_dropped(catalog: Catalog, client: Client) -> None:
    scope = f"left-over-{uuid.uuid4().hex[:8]}"
    catalog.namespaces.create([scope], {})
    begun, too_late = (claim_ledger(client, Stream(scope, name)) for name in ("begun", "late"))
    assert begun is not None
    assert too_late is not None
    too_late.abandon()
    with pytest.raises(ScopeNotEmptyError):
        # Somebody is creating a table.
        catalog.namespaces.drop([scope], cascade=False)
    assert list(client.controller.list_key_value_tables(scope)) == ["begun.ledger"]
    begun.abandon()
    assert catalog.namespaces.drop([scope], cascade=False) is True
    assert not client.controller.scope_exists(scope)


@pytest.mark.parametrize(
    ("is_written", "halted_after", "times"),
    [
        (True, "getEpochSegments", 2),
        (True, "getCurrentSegmentsKeyValueTable", 3),
        (True, "deleteKeyValueTable", 1),
        (True, "sealStream", 1),
        (True, "deleteKeyValueTable", 2),
        (False, "deleteKeyValueTable", 1),
    ],
)
@pytest.mark.in_turn
def test_a_drop_that_others_overtake_leaves_the_table_that_they_have_made(
    settings: Settings,
    catalog: Catalog,
    client: Client,
    scope: str,
    is_written: bool,
    halted_after: str,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It deleted that one's commit log, and said that the stream must be sealed before it is deleted."""
    # The halt may be longer than it is waited for an answer otherwise.
    monkeypatch.setattr(sealing, "FIRST_REMINDER_S", 30.0)
    stream, answered = make(catalog, scope), list[str]()
    if is_written:
        insert(catalog, stream, 1)
    else:
        delete_ledger(client, stream)

    def overtaken(method: str, call: Callable[[], bytes]) -> bytes:
        answer = call()
        answered.append(method)
        if method == halted_after and answered.count(method) == times:
            catalog.relations.drop([scope], "t")
            with suppress(PravegaError):
                # The halted one may seal it meanwhile.
                make(catalog, scope, segments=1, **{"a.b": "c"})
                insert(catalog, stream, 2)
        return answer

    with relayed(settings.controller_uri) as relay:
        other = Catalog(replace(settings, controller_uri=relay.uri))
        relay.answer = overtaken
        is_dropped = other.relations.drop([scope], "t")
    assert is_dropped is (stream.name not in client.controller.list_streams(scope))
    if is_dropped:
        # It came before the seal, and so whole of it went.
        assert open_ledger(client, stream) is None
        make(catalog, scope)
        return
    catalog.forget(stream)
    assert catalog.definition(stream, age_s=0).properties["a.b"] == "c"
    insert(catalog, stream, 3)
    assert ids(catalog, stream) == [2, 3]
