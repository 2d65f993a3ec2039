"""Which rights on Pravega and the registry suffice for what: as docs/security.md tells it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from client_tools import break_creation
from pyspark.sql.types import IntegerType, StructType
from readers import rows_read
from server_tools import SHORT_TOKEN_TTL_S
from session_tools import Session

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn
from pyspark_pravega.client import Client, EventWriter, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.key_value import NOT_EXISTS, creation
from pyspark_pravega.connector.key_value import (
    KeyValueDefinition,
    KeyValueJob,
    KeyValuePlan,
    KeyValueReader,
    Wanted,
)
from pyspark_pravega.connector.log import create_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import (
    CHANGE_COLUMNS,
    BatchReader,
    ChangesRange,
    RowChangesReader,
    moment_of,
    row_changes,
    rows_at,
    snapshot_reader,
)
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.stream import ChangesSource
from pyspark_pravega.connector.table import DELETED, ChangeCodec, TableDefinition
from pyspark_pravega.connector.write import WriteJob, WritePlan, compact
from pyspark_pravega.connector.write.writer import BatchWriter
from pyspark_pravega.errors import AuthenticationError, ControllerUnavailableError, WriteConflictError
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

COLUMNS = StructType().add("id", "long").add("s", "string")


def catalog_of(sandbox: Sandbox, user: str) -> Catalog:
    options = {"username": user, "password": sandbox.password_of(user), "timeout": "30"}
    return Catalog(Settings.resolve(options, environ=sandbox.environment(secrets=False)))


def read(catalog: Catalog, table: str) -> int:
    definition = catalog.load_table(["rights"], table)
    snapshot = take_snapshot(shared_client(definition.settings), definition.stream)
    reader = BatchReader(definition, snapshot, ["id"])
    return sum(batch.num_rows for partition in reader.partitions() for batch in reader.read(partition))


def write(catalog: Catalog, table: str) -> bool:
    writer = BatchWriter(catalog.load_table(["rights"], table), WriteOptions(transaction_timeout_ms=30_000))
    rows = pa.record_batch({"id": pa.array([1, 2, 3], pa.int64()), "s": pa.array(["a", "b", "c"])})
    writer.commit([writer.write(iter([rows]))])
    return True


def create_and_drop(catalog: Catalog) -> bool:
    catalog.tables.create(["rights"], "t_made", COLUMNS, [], {})
    return catalog.relations.drop(["rights"], "t_made")


def make_namespace(catalog: Catalog) -> bool:
    catalog.namespaces.create(["rights_new"])
    return catalog.namespaces.drop(["rights_new"], cascade=False)


@pytest.fixture(scope="module")
def owner(auth_sandbox: Sandbox) -> Iterator[Catalog]:
    """A catalog with the table that the rights are for, into which nobody has written, and with one more."""
    catalog = catalog_of(auth_sandbox, "admin")
    catalog.namespaces.create(["rights"])
    for table in ("t", "other"):
        catalog.tables.create(["rights"], table, COLUMNS, [], {})
    yield catalog
    catalog.namespaces.drop(["rights"], cascade=True)


WORK: dict[str, Callable[[Catalog], object]] = {
    "write": lambda catalog: write(catalog, "t"),
    "read": lambda catalog: read(catalog, "t") % 3 == 0,
    "write other": lambda catalog: write(catalog, "other"),
    "read other": lambda catalog: read(catalog, "other") % 3 == 0,
    "make tables": create_and_drop,
    "make namespaces": make_namespace,
    "list tables": lambda catalog: catalog.relations.names(["rights"]),
    "list namespaces": lambda catalog: catalog.namespaces.names(),
}
MAY = {
    "rights-writer": {"write": True, "read": True},
    "rights-reader": {"read": True},
    "rights-maker": {**dict.fromkeys(["write", "read", "write other", "read other", "make tables"], True),
                     "list tables": ["other", "t"]},
    "rights-lister": {"list tables": ["t"], "list namespaces": ["rights"]},
    "rights-namespaces": {"make namespaces": True, "list namespaces": []},
    "rights-analyst": {"read": True, "read other": True, "list tables": ["other", "t"]},
    "rights-teller": {"write": True, "read": True, "read other": True},
    "nobody": {},
}  # fmt: skip


@pytest.mark.parametrize("user", MAY)
def test_rights_suffice_for_what_they_are_said_to_and_for_nothing_else(
    auth_sandbox: Sandbox, owner: Catalog, user: str
) -> None:
    catalog = catalog_of(auth_sandbox, user)
    done: dict[str, object] = {}
    for name, work in WORK.items():
        try:
            done[name] = work(catalog)
        except AuthenticationError as error:
            assert "the user has no permission for" in str(error), name  # noqa: PT017
    assert done == MAY[user]


def test_a_key_value_table_is_seen_by_those_who_may_change_it(owner: Catalog, auth_sandbox: Sandbox) -> None:
    columns = StructType().add("id", "long", nullable=False).add("s", "string")
    properties = {"table-type": "key-value", "primary-key": "id", "partitions": "2"}
    made = owner.relations.create(["rights"], "kv", columns, [], properties)
    assert isinstance(made, KeyValueDefinition)
    job = KeyValueJob(KeyValuePlan.of(made, {}, checks=[]), 1)
    rows = pa.record_batch({"id": pa.array([1, 2, 3], pa.int64()), "s": pa.array(["a", None, "c"])})
    job.commit_job([job.write_task(iter([rows]))])
    reader = KeyValueReader(made, ["id", "s"], Wanted())
    found = [row for one in reader.partitions() for batch in reader.read(one) for row in batch.to_pylist()]
    assert sorted((row["id"], row["s"]) for row in found) == [(1, "a"), (2, None), (3, "c")]
    assert "kv" in owner.relations.names(["rights"])
    analyst = catalog_of(auth_sandbox, "rights-analyst").relation(["rights"], "kv")
    assert isinstance(analyst, KeyValueDefinition)
    reader = KeyValueReader(analyst, ["id"], Wanted())
    assert sum(batch.num_rows for one in reader.partitions() for batch in reader.read(one)) == 3
    with pytest.raises(AuthenticationError, match="no permission"):
        catalog_of(auth_sandbox, "rights-reader").relation(["rights"], "kv")
    assert owner.relations.drop(["rights"], "kv")


def change(definition: TableDefinition, rows: dict[int, str | None]) -> None:
    """Rows to write, and to delete where there is no text."""
    plan = WritePlan.of(definition, WriteOptions(transaction_timeout_ms=30_000))
    assert isinstance(plan.codec, ChangeCodec)
    job = WriteJob(replace(plan, codec=plan.codec.telling()))
    deleted = [text is None for text in rows.values()]
    columns = {"id": pa.array(list(rows), pa.int64()), "s": pa.array(list(rows.values()), pa.string())}
    added = {name: pa.nulls(len(rows), pa.int32()) for name in definition.schema.fieldNames() if name not in columns}
    batch = pa.record_batch({**columns, **added, DELETED: pa.array(deleted)})
    try:
        job.commit_job([job.write_partition(0, iter([batch]))])
    except BaseException:
        job.abort_job([None])
        raise


def test_a_table_with_a_key_is_changed_and_compacted_by_those_who_may_write(
    owner: Catalog, auth_sandbox: Sandbox
) -> None:
    """Over a new column, a compaction and a subscriber that keeps old versions; readers see all of that, and change
    nothing.
    """
    columns = StructType().add("id", "long", nullable=False).add("s", "string")
    maker, analyst = (catalog_of(auth_sandbox, user) for user in ("rights-maker", "rights-analyst"))
    made = maker.tables.create(["rights"], "keyed", columns, [], {"primary-key": "id", "segments": "2"})
    change(made, dict.fromkeys(range(10), "old"))
    options = ReadOptions(subscriber="keyed-follower")
    source = ChangesSource(maker.client, made.stream, ChangesRange(from_version="1"), options, keyed=True)
    source.subscribe()
    maker.altering.alter(["rights"], "keyed", [AddColumn(column=("n",), type=IntegerType())])
    made = maker.load_table(["rights"], "keyed")
    change(made, {0: "new", 1: None, 20: "more"})
    assert compact(made.settings, made.stream).rows == 10
    maker.client.controller.scale_to(made.stream, 3)
    change(made, {2: "newest"})
    expected = {id: "old" for id in range(10) if id != 1} | {0: "new", 20: "more", 2: "newest"}

    def rows(catalog: Catalog, version: str | None = None) -> dict[int, str]:
        definition = catalog.load_table(["rights"], "keyed")
        client, stream = shared_client(definition.settings), definition.stream
        snapshot = take_snapshot(client, stream) if version is None else None
        snapshot = snapshot or rows_at(client, stream, moment_of(client, stream, version or ""))
        reader = snapshot_reader(definition, snapshot, ["id", "s", "n"], ReadOptions())
        read = rows_read(reader)
        assert all(row["n"] is None for row in read)
        return {row["id"]: row["s"] for row in read}

    for catalog in (maker, analyst):
        assert rows(catalog) == expected
        assert rows(catalog, "1") == dict.fromkeys(range(10), "old")
        assert rows(catalog, "2") == {**expected, 2: "old"}
    seen = analyst.load_table(["rights"], "keyed")
    told = row_changes(analyst.client, create_ledger(analyst.client, seen.stream), 4, 4)
    reader = RowChangesReader(seen, told, ["id", "s", *CHANGE_COLUMNS.fieldNames()])
    changes = rows_read(reader)
    assert {(row["_change_type"], row["id"], row["s"]) for row in changes} == {
        ("update_preimage", 2, "old"),
        ("update_postimage", 2, "newest"),
    }
    with pytest.raises(AuthenticationError, match="no permission"):
        change(seen, {3: "not written"})
    with pytest.raises(AuthenticationError, match="no permission"):
        compact(seen.settings, seen.stream)
    with pytest.raises(AuthenticationError, match="no permission"):
        catalog_of(auth_sandbox, "rights-reader").load_table(["rights"], "keyed")
    assert rows(maker) == expected
    assert maker.relations.drop(["rights"], "keyed")


def test_a_creation_that_was_broken_off_is_made_up_for_by_who_may_do_everything(
    owner: Catalog, auth_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are told so: what is left of it stands among what the controller keeps for itself."""
    monkeypatch.setattr(creation, "_ASKED_AGAIN_S", 0.7)
    monkeypatch.setattr(creation, "_BARE_S", 0.7)
    break_creation(owner.client, "rights", "broken", has_segment=True)
    maker = catalog_of(auth_sandbox, "rights-maker").client
    hurried = replace(maker.settings, timeout=1.5)
    with Client(hurried) as client, pytest.raises(ControllerUnavailableError, match=r"may do everything \(prn::\*\)"):
        client.create_key_value_table("rights", "broken", partitions=1, key_bytes=4)
    assert owner.client.create_key_value_table("rights", "broken", partitions=1, key_bytes=4)
    assert not maker.create_key_value_table("rights", "broken", partitions=1, key_bytes=4)
    table = maker.key_value_table("rights", "broken")
    table.put([(b"key4", NOT_EXISTS, b"value")])
    assert maker.controller.delete_key_value_table("rights", "broken")


def test_a_transaction_may_read_tables_that_its_user_may_not_change(owner: Catalog, auth_sandbox: Sandbox) -> None:
    """Also one that has no commit log. What others have changed is a conflict there, too. And own rows are read with
    tokens that are valid for some seconds."""
    raw = Stream("rights", "other-raw")
    owner.client.controller.create_stream(raw, StreamConfiguration(scaling=ScalingPolicy.fixed(1)))
    before = read(owner, "t")
    rows = pa.record_batch({"id": pa.array([1], pa.int64()), "s": pa.array(["a"])})
    teller, other = (Session(catalog_of(auth_sandbox, user).settings, "rights") for user in ("rights-teller", "admin"))

    def begun(session: Session, table: str) -> Session:
        session.begin()
        session.write(table, rows)
        return session

    # Who may make tables makes that of the decisions.
    begun(other, "t").commit()
    begun(teller, "t")
    assert len(teller.rows("other", "id")) == read(owner, "other")
    assert teller.rows("other-raw", "event") == []
    assert len(teller.rows("t", "id")) == before + 2
    with pytest.raises(AuthenticationError, match="no permission"):
        teller.write("other", rows)
    time.sleep(SHORT_TOKEN_TTL_S + 1)
    assert len(teller.rows("t", "id")) == before + 2
    teller.commit()
    assert read(owner, "t") == before + 2
    for table in ("other", "other-raw"):
        begun(teller, "t").rows(table, "id" if table == "other" else "event")
        if table == "other":
            write(owner, table)
        else:
            with EventWriter(owner.client, raw) as writer:
                writer.write(b"x")
        id = teller.id
        assert id is not None
        with pytest.raises(WriteConflictError):
            teller.commit()
        teller.methods.writes.roll_back_transaction(id)
    assert read(owner, "t") == before + 2
    for session in (teller, other):
        session.end()
