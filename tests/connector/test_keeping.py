"""What a compaction leaves for named cuts and subscribers: whoever comes when, and whatever the log has forgotten."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from compaction_tools import COLUMNS, compact_with, put, rows_of, runs, two_versions

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, StreamCut
from pyspark_pravega.connector.log import Intent, open_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import ChangesRange
from pyspark_pravega.connector.stream import ChangesSource, StreamSource
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import WriteJob, WritePlan, compact, replace_all
from pyspark_pravega.errors import ConflictError, SegmentTruncatedError

pytestmark = [pytest.mark.server]


@pytest.fixture
def table(catalog: Catalog, scope: str) -> TableDefinition:
    return two_versions(catalog, scope)


@pytest.mark.parametrize(
    ("older", "functions"), [(False, ("settle", "commit_job", "truncate_at")), (True, ("truncate_at",))]
)
def test_a_cut_that_comes_while_a_compaction_ends_is_kept_or_refused(
    catalog: Catalog, table: TableDefinition, client: Client, older: bool, functions: Sequence[str]
) -> None:
    """At each moment of it, and while it removes events; also where an older cut keeps some."""
    name = f"{table.stream.scope}.{table.stream.name}"
    contents = {version: rows_of(table, client, version) for version in ("1", "2")}
    if older:
        compact(table.settings, table.stream)
        catalog.procedures.call("create_cut", [name, "older", "3"])
        put(table, {0: "later"})
    for function in functions:
        compaction = threading.Thread(target=compact, args=(table.settings, table.stream))
        compaction.start()
        while compaction.is_alive() and not runs(compaction, function):
            pass
        kept = []
        for version in contents:
            with contextlib.suppress(SegmentTruncatedError):
                catalog.procedures.call("create_cut", [name, f"cut_{version}", version])
                kept.append(version)
        compaction.join()
        for version in kept:
            assert rows_of(table, client, f"cut_{version}") == contents[version], function
            catalog.procedures.call("drop_cut", [name, f"cut_{version}"])
        put(table, {0: function})
    assert not older or rows_of(table, client, "older") == contents["2"]


def test_a_cut_of_what_is_gone_is_refused(catalog: Catalog, table: TableDefinition, client: Client) -> None:
    """Of a table with a key, and of one without."""
    name, ledger = f"{table.stream.scope}.{table.stream.name}", open_ledger(client, table.stream)
    assert ledger is not None
    cut = take_snapshot(client, table.stream).cut
    put(table, {0: "later"})
    compact(table.settings, table.stream)
    texts = ["1", "2", StreamCut(table.stream, cut).to_json()]
    plain = catalog.tables.create([table.stream.scope], "plain", COLUMNS, [], {})
    for value in ("first", "second"):
        job = WriteJob(WritePlan.of(plain, WriteOptions()))
        rows = pa.record_batch([pa.array([1]), pa.array([value])], ["id", "v"])
        job.commit_job([job.write_partition(0, iter([rows]))])
    plain_ledger = open_ledger(client, plain.stream)
    assert plain_ledger is not None
    replace_all(client, plain_ledger)
    for table_name, version in [*((name, text) for text in texts), (f"{table.stream.scope}.plain", "1")]:
        with pytest.raises(SegmentTruncatedError, match=r"took the place of all|was truncated away"):
            catalog.procedures.call("create_cut", [table_name, "late", version])
    assert ledger.holders().cuts() == plain_ledger.holders().cuts() == {}
    # What stays has its names.
    for table_name, stays in ((name, "4"), (name, None), (f"{table.stream.scope}.plain", None)):
        catalog.procedures.call("create_cut", [table_name, f"cut_{stays}", stays])
    assert rows_of(table, client, "cut_4") == rows_of(table, client, "cut_None") == rows_of(table, client)


def test_who_comes_while_events_are_removed_is_seen(catalog: Catalog, table: TableDefinition, client: Client) -> None:
    """A cut, and a subscriber of each kind, behind the look for those who need events and before these are released."""
    compact_with(table, client)
    ledger, name = open_ledger(client, table.stream), f"{table.stream.scope}.{table.stream.name}"
    assert ledger is not None
    changes = ChangesRange(from_version="1")

    def follow() -> None:
        ChangesSource(client, table.stream, changes, ReadOptions(subscriber="changes"), keyed=True).subscribe()

    def follow_events() -> None:
        StreamSource(client, [table.stream], ReadOptions(subscriber="events")).subscribe()

    for come in (follow, follow_events, lambda: catalog.procedures.call("create_cut", [name, "cut", "2"])):
        holders, state = ledger.holders().look(), ledger.state()
        come()
        with pytest.raises(ConflictError):
            ledger.holders().release(holders, state, replace(state, released=3))
    released = ledger.holders().release(ledger.holders().look(), ledger.state(), replace(ledger.state(), released=3))
    assert ledger.state() == released
    with pytest.raises(SegmentTruncatedError):
        catalog.procedures.call("create_cut", [name, "late", "2"])


@pytest.mark.in_turn
def test_cuts_are_kept_when_the_log_has_forgotten_the_compaction(catalog: Catalog, scope: str, client: Client) -> None:
    """Another cut goes, a subscriber goes: what this one needs stays until it goes itself."""
    made = catalog.tables.create([scope], "keyed", COLUMNS, [], {"primary-key": "id", "history": "100"})
    name, ledger = f"{scope}.keyed", open_ledger(client, made.stream)
    assert ledger is not None
    for value in ("one", "two", "three"):
        put(made, {1: value, 2: value})
    catalog.procedures.call("create_cut", [name, "mine", "2"])
    catalog.procedures.call("create_cut", [name, "other", "3"])
    source = ChangesSource(client, made.stream, ChangesRange(from_version="3"), ReadOptions(subscriber="f"), keyed=True)
    source.subscribe()
    source.commit(source.target())
    compact(made.settings, made.stream)
    put(made, {2: "five"})
    state, cut = ledger.state(), take_snapshot(client, made.stream).cut
    while state.version < 205:
        intent = Intent(job=str(uuid.uuid4()), transactions=(), rows=0, bytes=0, started_at=0)
        state = ledger.complete(state, committed_at=0, cut=cut, without_rows=intent)
    assert ledger.commits([4]) == []
    expected = {1: "two", 2: "two"}
    assert rows_of(made, client, "mine") == expected
    for procedure, dropped in (("drop_cut", "other"), ("drop_subscriber", "f")):
        assert catalog.procedures.call(procedure, [name, dropped]) == [[True]]
        assert rows_of(made, client, "mine") == expected
    compact(made.settings, made.stream)
    assert rows_of(made, client, "mine") == expected
    head = client.controller.head(made.stream)
    catalog.procedures.call("drop_cut", [name, "mine"])
    assert client.controller.head(made.stream) != head
    assert rows_of(made, client) == {1: "three", 2: "five"}
