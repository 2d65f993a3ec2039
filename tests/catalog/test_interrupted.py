"""Statements that replace a table, and end in the middle: whoever comes next finds the old table or the new one."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from catalog_tools import insert, make, plan, rows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.client.key_value import ANY_VERSION
from pyspark_pravega.connector.log import Intent, Ledger, cleaning, open_ledger, settle, take_snapshot
from pyspark_pravega.connector.log.entry_keys import commit_key
from pyspark_pravega.connector.log.tail import take_tail
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import OverwritingJob, ReadSet, WriteJob
from pyspark_pravega.errors import ConflictError, PravegaError, TableChangedError, WriteConflictError

pytestmark = pytest.mark.server

OTHERS = StructType([StructField("id", StringType(), False), StructField("x", StringType())])
LOG = "pyspark_pravega.connector.log"
STEPS = {
    "promised": f"{LOG}.recovery.commit_all",
    "committed": f"{LOG}.ledger.Ledger.complete",
    "a version": f"{LOG}.cleaning.truncate_at",
}
"""How far a statement had come, and what it couldn't do any more."""


class Died(BaseException):
    """What ends a driver in the tests; nothing catches it."""


def dies(*_: object, **__: object) -> NoReturn:
    raise Died


def add(job: WriteJob, definition: TableDefinition, *ids: int) -> None:
    """Commit rows of whatever columns the table has."""
    kind = definition.schema["id"].dataType
    values: dict[str, Any] = {"id": pa.array(ids if isinstance(kind, LongType) else [str(id) for id in ids])}
    other = next(name for name in definition.schema.fieldNames() if name != "id")
    batch = pa.record_batch(values | {other: pa.array([f"n{id}" for id in ids])})
    job.commit_job([job.write_task(iter([batch]))] if ids else [])


def seen(catalog: Catalog, stream: Stream) -> tuple[list[str], list[int]]:
    """A table's columns and its ids, as somebody who knows nothing of it reads it."""
    definition = Catalog(catalog.settings).definition(stream)
    ids = rows(definition, take_snapshot(catalog.client, stream), "id")
    return definition.schema.fieldNames(), sorted(int(id) for id in ids)


def ledger_of(catalog: Catalog, stream: Stream) -> Ledger:
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    return ledger


@pytest.mark.parametrize("kind", ["overwrite", "overwrite without rows", "truncate", "replace", "replace without rows"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.in_turn
def test_others_finish_what_a_dead_driver_has_left(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch, kind: str, step: str
) -> None:
    monkeypatch.setattr(f"{LOG}.recovery.GRACE_S", 0.1)
    stream = make(catalog, scope, segments=2, tags="old")
    insert(catalog, stream, 1, 2, 3)
    catalog.procedures.call("scale", [f"{scope}.t", 3])
    insert(catalog, stream, 4)
    definition, staged, died = catalog.definition(stream), None, False
    if "replace" in kind:
        definition, staged = catalog.replacing.stage(
            [scope], "t", OTHERS, [], {"tags": "new"}, create=True, replace=True
        )
    new = [7, 8] if kind in ("overwrite", "replace") else []
    with monkeypatch.context() as broken:
        broken.setattr(STEPS[step], dies)
        try:
            if kind == "truncate":
                catalog.relations.truncate([scope], "t")
            elif kind == "replace without rows":
                assert staged is not None
                catalog.replacing.commit(staged, written=False)
            else:
                becomes = catalog.replacing.staged_table(staged) if staged else None
                add(OverwritingJob(plan(definition, becomes)), definition, *new)
        except Died:
            died = True
    assert died or (step == "promised" and not new), "without rows there is no transaction"
    is_new = not died or step == "a version" or (step == "committed" and bool(new))

    columns, kept = (["id", "x"] if is_new and staged else ["id", "name"]), (new if is_new else [1, 2, 3, 4])
    assert seen(catalog, stream) == (columns, kept)
    others = Catalog(catalog.settings)
    finished = others.definition(stream)
    add(WriteJob(plan(finished)), finished, 9)
    assert seen(catalog, stream) == (columns, [*kept, 9])
    tail = take_tail(others.client, stream)
    assert tail is not None
    assert tail.parts == take_snapshot(others.client, stream).parts, "the writer has truncated what was replaced"
    if staged and is_new:
        monkeypatch.setattr("pyspark_pravega.catalog.statements.replacing.GRACE_S", -60)
        finished = others.replacing.finish_left(others.definition(stream, age_s=0))
        assert finished.configuration.tags == ("new",)
        assert ledger_of(others, stream).state().cleaning is None
    if staged:
        # Spark says so when the statement has failed; also after a commit whose answer was lost.
        catalog.relations.abort(staged)
        assert seen(catalog, stream) == (columns, [*kept, 9])


def test_a_replacement_is_finished_though_the_log_has_forgotten_its_version(catalog: Catalog, scope: str) -> None:
    """Others have committed so much since that the log doesn't know any more when it was made."""
    stream = make(catalog, scope, tags="old")
    insert(catalog, stream, 1)
    definition, staged = catalog.replacing.stage([scope], "t", OTHERS, [], {"tags": "new"}, create=True, replace=True)
    add(OverwritingJob(plan(definition, catalog.replacing.staged_table(staged))), definition, 7)
    ledger = ledger_of(catalog, stream)
    ledger._table.remove((commit_key(2), ANY_VERSION))
    others = Catalog(catalog.settings)
    looked_up = others.definition(stream, age_s=0)
    assert looked_up.configuration.tags == ("old",), "a look-up changes nothing"
    assert others.replacing.finish_left(looked_up).configuration.tags == ("new",)
    assert ledger.state().cleaning is None
    assert seen(catalog, stream) == (["id", "x"], [7])


def test_a_commit_that_begins_while_another_one_cleans_up_is_waited_for(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who settles the log gets a state without a commit in progress: what is based on it would overwrite that one."""
    monkeypatch.setattr(f"{LOG}.recovery.GRACE_S", 0.1)
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    with monkeypatch.context() as broken:
        broken.setattr(STEPS["a version"], dies)
        with pytest.raises(Died):
            catalog.relations.truncate([scope], "t")
    log, truncate = ledger_of(catalog, stream), cleaning.truncate_at
    transaction = catalog.client.controller.begin_transaction(stream, lease_ms=10_000)
    intent = Intent(job=str(uuid.uuid4()), transactions=(str(transaction.id),), rows=1, bytes=9, started_at=0)

    def truncate_slowly(client: Client, cut: StreamCut) -> None:
        truncate(client, cut)
        log.begin(log.state(), intent)

    monkeypatch.setattr(STEPS["a version"], truncate_slowly)
    assert settle(catalog.client, log).pending is None
    with pytest.raises(ConflictError):
        log.begin(replace(log.state(), pending=intent), intent)


def test_plans_do_not_outlive_their_table(catalog: Catalog, scope: str) -> None:
    """Neither one that was made another table, nor one that was dropped, nor one that was made again."""
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    definition = catalog.definition(stream)
    running, planned = WriteJob(plan(definition)), plan(definition)
    _, staged = catalog.replacing.stage([scope], "t", OTHERS, [], {}, create=True, replace=True)
    catalog.replacing.commit(staged, written=False)
    with pytest.raises(TableChangedError, match=f'"{scope}/t" was made another table .*run the statement again'):
        add(running, definition, 2)
    with pytest.raises(TableChangedError, match="was made another table"):
        add(WriteJob(planned), definition, 2)
    assert seen(catalog, stream) == (["id", "x"], [])

    now = catalog.definition(stream, age_s=0)
    running, planned = WriteJob(plan(now)), plan(now)
    catalog.relations.drop([scope], "t")
    with pytest.raises(PravegaError, match=f'"{scope}/t" was dropped'):
        add(running, now, 3)
    with pytest.raises(TableChangedError, match=f'"{scope}/t" was dropped after this write was planned'):
        add(WriteJob(planned), now, 3)
    assert open_ledger(catalog.client, stream) is None, "a write doesn't bring the log back"

    make(catalog, scope)
    with pytest.raises(TableChangedError, match="was dropped and made again after this write was planned"):
        add(WriteJob(planned), now, 3)
    assert seen(catalog, stream) == (["id", "name"], [])


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_events_of_others_count_as_well(catalog: Catalog, scope: str, level: str) -> None:
    """What the statement has read is compared with the stream, not only with the versions."""
    stream = make(catalog, scope, segments=2, isolation_level=level)
    insert(catalog, stream, 1, 2)
    definition = catalog.definition(stream, age_s=0)

    def read() -> ReadSet:
        return ReadSet.of(take_snapshot(catalog.client, stream))

    def overwrite(before: ReadSet, *ids: int) -> None:
        job = OverwritingJob(plan(definition))
        batch = pa.record_batch({"id": pa.array(ids), "name": pa.array([f"n{id}" for id in ids])})
        job.commit_job([job.write_task(iter([batch]))], seen=[before])

    before = read()
    catalog.procedures.call("scale", [f"{scope}.t", 3])
    overwrite(before, 3, 4)
    assert seen(catalog, stream)[1] == [3, 4], "a scale alone is nothing new"

    before = read()
    direct = WriteJob(replace(plan(definition), mode="at-least-once"))
    add(direct, definition, 5)
    if level == "serializable":
        with pytest.raises(WriteConflictError, match="events of another version of its rows"):
            overwrite(before, 6)
        assert seen(catalog, stream)[1] == [3, 4, 5]
    else:
        overwrite(before, 6)
        assert seen(catalog, stream)[1] == [5, 6]

    before = read()
    catalog.relations.truncate([scope], "t")
    with pytest.raises(WriteConflictError, match="another version was committed since"):
        overwrite(before, 10)
    assert seen(catalog, stream)[1] == [], "of two that replace all rows the first one wins"
