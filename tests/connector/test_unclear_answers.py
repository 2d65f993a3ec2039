"""The controller says that a call has failed, in ways that don't prove that nothing was done."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import grpc
import pytest
from answering_proxy import AnsweringProxy
from client_tools import Proxy
from connector_tools import batch, ledger_of, open_transactions, raw_table, read_events

from pyspark_pravega.client import Client, Controller, ScalingPolicy, Stream, StreamConfiguration, TransactionState
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.key_value import NOT_EXISTS
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.overwrite import OverwritingJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.errors import (
    PravegaError,
    ScopeNotEmptyError,
    SegmentStoreUnavailableError,
    StreamNotFoundError,
    TransactionError,
    UnclearAnswerError,
)
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.in_turn]

CODES = tuple(
    getattr(grpc.StatusCode, name)
    for name in ("UNKNOWN", "INTERNAL", "DATA_LOSS", "RESOURCE_EXHAUSTED", "ABORTED", "CANCELLED", "UNAVAILABLE")
)
ALWAYS = 1 << 30
REFUSAL = "java.lang.IllegalArgumentException: no"
LACK = (
    "/hostTxnIndex/127.0.0.1-2e907c4e-a0e5-428c-ba43-5a47c8657a21/shop_%_orders_%_00000000-0000-0000-0000-000000000002"
)
"""As a controller said when ZooKeeper was gone for 15 s (INTERNAL)."""
FAILURE = pb.StatusReply(status=1).SerializeToString()
PAGE = {"reply": pb.StreamsInScopeResponse(status=1).SerializeToString()}


class EndsWithRequest(Proxy):
    """Takes a request that has something in it, and ends then."""

    wanted = b"the last request"

    def loses(self, data: bytes) -> bool:
        """Such a request."""
        if self.wanted not in data:
            return False
        self.close()
        return True


@pytest.fixture
def proxy(settings: Settings) -> Iterator[AnsweringProxy]:
    with AnsweringProxy(settings.controllers[0]) as proxy:
        yield proxy


@pytest.fixture
def table(client: Client, settings: Settings, scope: str, proxy: AnsweringProxy) -> TableDefinition:
    """A table of which all calls go through the proxy."""
    made = raw_table(client, settings, scope)
    return replace(made, settings=replace(settings, controller_uri=proxy.uri, timeout=4.0))


def committed(table: TableDefinition, kind: type[WriteJob], *events: bytes) -> WriteJob:
    """Write events as Spark does: where it fails the job is aborted."""
    job = kind(WritePlan.of(table, WriteOptions(transaction_timeout_ms=60_000)))
    messages = [job.write_partition(0, iter([batch(*events)]))]
    try:
        job.commit_job(messages)
    except PravegaError:
        job.abort_job(messages)
        raise
    return job


def test_a_commit_that_is_said_to_have_failed_is_looked_after(
    client: Client, table: TableDefinition, proxy: AnsweringProxy
) -> None:
    """Whatever the controller says, how often, whether it has done it or not, and of whichever call."""
    rows: list[bytes] = []
    called = ("commitTransaction", "checkTransactionState", "getCurrentSegments", "createTransaction")
    kinds = itertools.cycle((WriteJob, WriteJob, OverwritingJob))
    for number, (code, done) in enumerate(itertools.product(CODES, (True, False))):
        for method in called if code is CODES[0] else called[:1]:
            kind, event = next(kinds), f"{number} {method}".encode()
            times = 2 if method != "commitTransaction" else 1 + number % 4
            proxy.substitute(method, code, times=times, done=done)
            proxy.substituted.clear()
            committed(table, kind, event)
            assert proxy.substituted.count(method) == times
            rows = [event] if kind is OverwritingJob else [*rows, event]
            assert sorted(read_events(client, table)) == sorted(rows)
    assert ledger_of(client, table).state().pending is None


@pytest.mark.parametrize("done", [True, False])
def test_a_failed_statement_leaves_nothing_though_nobody_answered(
    client: Client, table: TableDefinition, proxy: AnsweringProxy, done: bool
) -> None:
    """If the controller never says that it is done the transaction's state does; where it is open it is thrown away."""
    committed(table, WriteJob, b"before")
    proxy.substitute("commitTransaction", CODES[0], times=ALWAYS, done=done)
    if done:
        committed(table, WriteJob, b"new")
    else:
        with pytest.raises(TransactionError, match="could not be committed: the controller fails, again and again"):
            committed(table, WriteJob, b"new")
    proxy.substitute("commitTransaction", CODES[0], times=0)
    committed(table, WriteJob, b"after")
    new = [b"new"] if done else []
    assert sorted(read_events(client, table)) == sorted([b"after", b"before", *new])
    assert open_transactions(client, table.stream) == []


def test_a_commit_whose_end_nobody_tells_is_said_to_be_under_way(
    client: Client, table: TableDefinition, proxy: AnsweringProxy
) -> None:
    committed(table, WriteJob, b"before")
    job = WriteJob(WritePlan.of(table, WriteOptions(transaction_timeout_ms=60_000)))
    message = job.write_partition(0, iter([batch(b"new")]))
    proxy.substitute("commitTransaction", CODES[0], times=ALWAYS)
    # Before the commit is noted its transaction is asked about once.
    proxy.substitute("checkTransactionState", CODES[0], times=ALWAYS, skip=1)
    with pytest.raises(PravegaError, match="is being committed, and no server tells whether that is done"):
        job.commit_job([message])
    proxy.substitute("commitTransaction", CODES[0], times=0)
    proxy.substitute("checkTransactionState", CODES[0], times=0)
    committed(table, WriteJob, b"after")
    assert sorted(read_events(client, table)) == [b"after", b"before", b"new"]


def test_what_is_made_and_removed_is_looked_for(settings: Settings, proxy: AnsweringProxy) -> None:
    """Each call of the controller's that changes something, said to have failed when it was done."""
    with Client(replace(settings, controller_uri=proxy.uri, timeout=10.0)) as client:
        controller, scope = client.controller, f"test-{uuid.uuid4().hex[:12]}"
        stream = Stream(scope, "s")
        two = StreamConfiguration(scaling=ScalingPolicy.fixed(2))
        begin = partial(controller.begin_transaction, stream, lease_ms=10_000)
        calls: list[tuple[str, Callable[[], object], object]] = [
            ("createScope", partial(controller.create_scope, scope), True),
            ("createStream", partial(controller.create_stream, stream, two), True),
            # Others may have made it, which nobody tells: of who makes a commit log only one may think so.
            (
                "createKeyValueTable",
                lambda: client.create_key_value_table(scope, "t", partitions=1, key_bytes=8),
                None,
            ),
            (
                "updateStream",
                lambda: controller.update_stream(stream, lambda old: replace(old, tags=("x",))).tags,
                ("x",),
            ),
            ("scale", lambda: len(controller.split_segment(stream, controller.current_segments(stream).ids[0]).ids), 3),
            ("createTransaction", lambda: controller.transaction_state(stream, begin().id), TransactionState.OPEN),
            ("abortTransaction", lambda: controller.abort_transaction(stream, begin().id), True),
            ("sealStream", partial(controller.seal_stream, stream), None),
            ("deleteStream", partial(controller.delete_stream, stream, seal=True), True),
            ("deleteKeyValueTable", partial(controller.delete_key_value_table, scope, "t"), False),
            ("deleteScope", partial(controller.delete_scope, scope), True),
        ]
        for method, call, expected in calls:
            proxy.substitute(method, CODES[0])
            assert (method, call()) == (method, expected)
            assert proxy.substituted[-1] == method
        assert not controller.scope_exists(scope)


@pytest.mark.parametrize("lost", [{"code": CODES[0]}, {"code": CODES[-1]}, {"reply": FAILURE}], ids=str)
def test_what_others_make_meanwhile_is_neither_sealed_nor_deleted(
    settings: Settings, client: Client, proxy: AnsweringProxy, lost: dict[str, Any]
) -> None:
    """An answer is lost; when the call is made again another thing has the name."""
    others, scope = client.controller, f"test-{uuid.uuid4().hex[:12]}"
    one = StreamConfiguration(scaling=ScalingPolicy.fixed(1))
    others.create_scope(scope)

    def make(name: str) -> Stream:
        stream = Stream(scope, name)
        assert others.create_stream(stream, one)
        return stream

    def made_again(stream: Stream) -> None:
        others.delete_stream(stream, seal=True)
        make(stream.name)

    def table() -> None:
        assert client.create_key_value_table(scope, "t", partitions=1, key_bytes=8)

    table()
    sealed, ended, deleted = make("sealed"), make("ended"), make("deleted")
    others.seal_stream(deleted)
    lost = {"code": CODES[0], **lost}
    with Controller(proxy.uri, timeout=10.0) as controller:
        proxy.substitute("sealStream", then=partial(made_again, sealed), **lost)
        with pytest.raises(StreamNotFoundError):
            controller.seal_stream(sealed)
        proxy.substitute("sealStream", then=partial(made_again, ended), **lost)
        assert controller.delete_stream(ended, seal=True) is False
        for sealing in (False, True):
            proxy.substitute("deleteStream", then=partial(make, deleted.name), **lost)
            assert controller.delete_stream(deleted, seal=sealing) is True
        for stream in (sealed, ended, deleted):
            assert others.current_segments(stream).ids
        proxy.substitute("deleteKeyValueTable", then=table, **lost)
        controller.delete_key_value_table(scope, "t")
        assert list(others.list_key_value_tables(scope)) == ["t"]

        def scope_again() -> None:
            others.create_scope(scope)
            make("first")

        others.delete_scope(scope, recursive=True)
        others.create_scope(scope)
        proxy.substitute("deleteScope", then=scope_again, **lost)
        with pytest.raises(ScopeNotEmptyError):
            controller.delete_scope(scope)
        # A controller that is asked to delete a scope with streams makes no key-value tables in it any more.
        table()
    assert proxy.substituted == ["sealStream"] * 2 + ["deleteStream"] * 2 + ["deleteKeyValueTable", "deleteScope"]


def test_what_is_refused_is_an_error_soon(settings: Settings, proxy: AnsweringProxy) -> None:
    """The controller says UNKNOWN of what it refuses, too: that isn't asked for until the time is over."""
    with Client(replace(settings, controller_uri=proxy.uri, timeout=600.0)) as client:
        for method, call in {
            "checkScopeExists": partial(client.controller.scope_exists, "x"),
            "createScope": partial(client.controller.create_scope, f"test-{uuid.uuid4().hex[:12]}"),
        }.items():
            proxy.substituted.clear()
            proxy.substitute(method, CODES[0], times=ALWAYS, done=False, details=REFUSAL)
            with pytest.raises(UnclearAnswerError, match=f"failed in {method}: UNKNOWN"):
                call()
            assert proxy.substituted == [method] * 3


@pytest.mark.parametrize("instead", [{"details": LACK}, {"reply": FAILURE}], ids=["unclear", "failed"])
def test_what_a_controller_can_t_do_without_others_is_waited_for(
    settings: Settings, proxy: AnsweringProxy, instead: dict[str, Any]
) -> None:
    """While ZooKeeper or a segment store is gone the controller is there, and fails: for longer than a few tries."""
    with Client(replace(settings, controller_uri=proxy.uri, timeout=600.0)) as client:
        controller, scope = client.controller, f"test-{uuid.uuid4().hex[:12]}"
        stream = Stream(scope, "s")
        for method, call, expected in (
            ("createScope", partial(controller.create_scope, scope), True),
            ("createStream", partial(controller.create_stream, stream, StreamConfiguration()), True),
            ("listStreamsInScope", lambda: list(controller.list_streams(scope)), ["s"]),
            ("sealStream", partial(controller.seal_stream, stream), None),
            ("deleteStream", partial(controller.delete_stream, stream), True),
            ("deleteScope", partial(controller.delete_scope, scope), True),
        ):
            failing = PAGE if method.startswith("list") and "reply" in instead else instead
            proxy.substituted.clear()
            proxy.substitute(method, grpc.StatusCode.INTERNAL, times=5, done=False, **failing)
            assert (method, call()) == (method, expected)
            assert proxy.substituted == [method] * 5


def test_segment_stores_that_are_all_gone_are_waited_for(
    settings: Settings, proxy: AnsweringProxy, client: Client, scope: str
) -> None:
    """The controller has no place for a segment then. Who can't find out whether a change was made says so."""
    nowhere: dict[str, Any] = {
        "code": grpc.StatusCode.INTERNAL,
        "done": False,
        "details": "Internal exception occurred",
    }
    client.create_key_value_table(scope, "t", partitions=1, key_bytes=1)
    with Client(replace(settings, controller_uri=proxy.uri, timeout=600.0)) as patient:
        proxy.substitute("getURI", times=5, **nowhere)
        (version,) = patient.key_value_table(scope, "t").put([(b"n", NOT_EXISTS, b"0")])
        assert proxy.substituted == ["getURI"] * 5
    segments = client.controller.key_value_table_segments(scope, "t")
    with (
        Client(replace(settings, controller_uri=proxy.uri, timeout=1.0)) as hasty,
        EndsWithRequest(client.controller.endpoint(segments.stream, segments.ids[0])) as store,
    ):
        ask = hasty.controller.endpoint
        hasty.controller.endpoint = lambda *_: store.address  # type: ignore[method-assign]
        table = hasty.key_value_table(scope, "t")
        assert table.get([b"n"])
        proxy.substitute("getURI", times=ALWAYS, **nowhere)
        hasty.controller.endpoint = ask  # type: ignore[method-assign]
        with pytest.raises(SegmentStoreUnavailableError, match="may or may not have been made"):
            table.put([(b"n", version, store.wanted)])


def test_what_a_controller_lacks_is_named(settings: Settings, proxy: AnsweringProxy) -> None:
    expected = r"is there, but can.t do checkScopeExists since .*ZooKeeper, or a segment store"
    with Client(replace(settings, controller_uri=proxy.uri, timeout=0.5)) as client:
        proxy.substitute("checkScopeExists", grpc.StatusCode.INTERNAL, times=ALWAYS, done=False, details=LACK)
        with pytest.raises(UnclearAnswerError, match=expected):
            client.controller.scope_exists("x")
