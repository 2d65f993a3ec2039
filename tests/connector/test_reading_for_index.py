"""CALL index beside all that changes a table: what it has read is as it says, and no query loses a row."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from client_tools import make_stream
from test_index_places import History, read

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import SetProperty
from pyspark_pravega.catalog.plans.read_request import position_of, text_of_unindexed
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.catalog.plans.unindexed import plan_unindexed
from pyspark_pravega.catalog.statements import Caller, Reading
from pyspark_pravega.catalog.statements.procedures import indexing
from pyspark_pravega.client import EventWriter, SegmentPart, Stream
from pyspark_pravega.connector.index import blocks as index_blocks
from pyspark_pravega.connector.index.figures import figures_of
from pyspark_pravega.connector.indexing import BLOCK_COLUMNS, Unindexed
from pyspark_pravega.connector.log import recovery, take_snapshot
from pyspark_pravega.connector.log.entry_keys import read_index_key
from pyspark_pravega.connector.table import indexed_columns
from pyspark_pravega.errors import (
    EventDecodeError,
    NotFoundError,
    TableChangedError,
    TransactionError,
    UnsupportedOperationError,
)
from pyspark_pravega.registry import SchemaInfo, SchemaRegistry

pytestmark = pytest.mark.server

SEED = int(os.environ.get("INDEX_SEED", "5"))
STEPS = int(os.environ.get("INDEX_STEPS", "12"))


class DeathError(Exception):
    """What a test does in place of a driver's death."""


def steps(catalog: Catalog, table: str) -> Iterator[list[Any] | None]:
    """A call, as the JVM makes it; None between a job and what is told of its rows, and before it."""
    caller = Caller(catalog="pravega")
    while isinstance(step := catalog.procedures.step(caller, "index", [table]), Reading):
        yield None
        wanted = position_of(text_of_unindexed(step.wanted))
        assert wanted == step.wanted
        assert isinstance(wanted, Unindexed)
        stream = step.definition.stream
        plan = plan_unindexed(catalog.definition(stream, age_s=0), wanted, BLOCK_COLUMNS.fieldNames())
        rows = read(plan.reader)
        yield None
        caller = Caller(catalog="pravega", after=dict(step.after), rows=rows)
    assert isinstance(step, list)
    (row,) = step
    yield row


def call(
    catalog: Catalog, table: str, meanwhile: Callable[[], Any] = bool, dies_at: int | None = None
) -> dict[str, int]:
    """A call until its end, or its death."""
    for number, row in enumerate(steps(catalog, table)):
        if row is not None:
            return dict(zip(["blocks", "events", "bytes", "before", "left"], row, strict=True))
        if number == dies_at:
            raise DeathError
        meanwhile()
    raise AssertionError


class IndexedHistory(History):
    """A table that is indexed now and then."""

    def call(self, meanwhile: Callable[[], Any] = bool, dies_at: int | None = None) -> dict[str, int]:
        return call(self.catalog, f"{self.scope}.t", meanwhile, dies_at)

    def check_read(self) -> int:
        """What lies in each block that was read is just what its figures tell."""
        definition = self.definition()
        columns = {column.read_key: column for column in indexed_columns(definition)}
        heads = {part.segment_id: part.start for part in take_snapshot(self.catalog.client, self.stream).parts}
        checked = 0
        for index in self.ledger.indexes().read().by_number.values():
            for block in index.blocks:
                if any(heads.get(part.segment_id, part.end) > part.start for part in block.parts):
                    continue
                parts = [SegmentPart(stream=self.stream, segment_id=i, start=s, end=e) for i, s, e in block.parts]
                rows = self.rows_in(parts)
                assert len(rows) == block.rows
                for key, figures in zip(index.columns, block.figures, strict=True):
                    if key in columns:
                        name = columns[key].name
                        kind = definition.codec.schema.field(name).type
                        assert figures == figures_of(pa.array([row[name] for row in rows], kind)), (name, block)
                        checked += 1
        return checked

    def check_all_indexed(self) -> None:
        """A condition that no row meets reads nothing, and another call nothing."""
        again = self.call()
        assert (again["blocks"], again["bytes"], again["left"]) == (0, 0, 0)
        assert again["before"] == take_snapshot(self.catalog.client, self.stream).size
        condition = {"column": "id", "comparison": "<", "values": [0]}
        assert plan_scan(self.definition(), ScanRequest(columns=["id"], condition=condition)).size == 0


@pytest.mark.in_turn(8)
@pytest.mark.parametrize(("table_format", "segments"), [("avro", 1), ("json", 3), ("protobuf", 2)])
def test_whatever_happens_meanwhile_no_query_loses_a_row(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch, table_format: str, segments: int
) -> None:
    monkeypatch.setattr(recovery, "GRACE_S", 0.0)
    monkeypatch.setattr(index_blocks, "WORTH_SKIPPING_BYTES", 0)
    at = random.Random(f"{SEED} {table_format}")
    history = IndexedHistory(catalog, scope, table_format, at, segments)

    def insert() -> None:
        history.commit(at.choice(["one", "many"]), at.choice(["none", "during", "behind"]), "none")

    ways: dict[str, Callable[[], Any]] = {
        "insert": insert,
        "foreign": history.foreign,
        "scale": history.scale,
        "add": lambda: history.alter("add" if "more" not in history.definition().schema.fieldNames() else "again"),
        "again": lambda: history.alter("again"),
        "other type": lambda: history.alter("other type"),
        "widen": lambda: history.alter("widen"),
        "fewer": lambda: catalog.altering.alter([scope], "t", [SetProperty(property="index-columns", value="id")]),
        "truncate": history.truncate,
        "overwrite": history.overwrite,
        "drop": history.drop,
    }
    weights = [6, 8, 2, 1, 1, 1, 1, 1, 1, 1, 1]

    def happen() -> None:
        with suppress(UnsupportedOperationError):
            ways[at.choices(list(ways), weights)[0]]()

    checked = deaths = 0
    for number in range(STEPS):
        for _ in range(at.randrange(1, 4)):
            happen()
        monkeypatch.setattr(index_blocks, "MOST_BLOCKS", at.choice([1, 2, 3, 2000]))
        monkeypatch.setattr(indexing, "LEAST_TASK_BYTES", at.choice([1, 300, 1 << 20]))
        monkeypatch.setattr(indexing, "STEP_BYTES", 1)
        try:
            history.call(happen if number % 2 else bool, at.choice([None, None, 0, 1, 3]))
        except DeathError:
            deaths += 1
        except (TableChangedError, NotFoundError, TransactionError):
            # Its columns were changed, or the table was dropped, while it was under way.
            assert number % 2
        checked += history.check_read()
        history.check(4)
        if number % 5 == 4:
            monkeypatch.setattr(index_blocks, "MOST_BLOCKS", 2000)
            history.call()
            history.check_all_indexed()
            history.check(15)
            history.check_versions(3)
            entries = history.ledger._table.iterate(prefix=read_index_key(0)[:8])
            assert [key for key, _ in entries] == [*map(read_index_key, history.ledger.indexes().read().numbers)]
    assert checked > STEPS
    assert deaths


def test_events_that_can_t_be_decoded_are_read_by_each_query(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block with one has no figures, so who reads is told of it with an index as without."""
    monkeypatch.setattr(index_blocks, "WORTH_SKIPPING_BYTES", 0)
    history = IndexedHistory(catalog, scope, "json", random.Random(SEED), 1)
    history.foreign()
    history.call()
    good = take_snapshot(catalog.client, history.stream).size
    with EventWriter(catalog.client, history.stream) as writer:
        writer.write_batch(pa.array([b"no JSON"]))
    row = history.call()
    bad = take_snapshot(catalog.client, history.stream).size - good
    assert row == {"blocks": 0, "events": 0, "bytes": 0, "before": good, "left": bad}
    condition = {"column": "id", "comparison": "<", "values": [0]}
    plan = plan_scan(history.definition(), ScanRequest(columns=["id"], condition=condition))
    assert (plan.size, plan.skipped) == (bad, good)
    with pytest.raises(EventDecodeError, match="can't be decoded"):
        read(plan.reader)
    # What is behind it is indexed all the same.
    history.foreign()
    assert history.call()["left"] >= bad


@pytest.mark.parametrize("number", range(5))
def test_two_calls_at_a_time_note_each_block(catalog: Catalog, scope: str, number: int) -> None:
    history = IndexedHistory(catalog, scope, "avro", random.Random(number), 2)
    for _ in range(3):
        history.foreign()
    one, two = steps(catalog, f"{scope}.t"), steps(catalog, f"{scope}.t")
    at, running = random.Random(number), [one, two]
    while running:
        which = at.choice(running)
        if next(which) is not None:
            running.remove(which)
    assert history.check_read()
    history.check_all_indexed()
    rows = sum(block.rows for index in history.ledger.indexes().read().by_number.values() for block in index.blocks)
    assert rows == history.next_id


def test_a_default_that_others_change_changes_no_answer(catalog: Catalog, registry: SchemaRegistry, scope: str) -> None:
    """Events without a field have the default of the schema by which they are read."""
    stream: Stream = make_stream(catalog.client, scope, "theirs")
    registry.create_group(scope, "theirs", serialization_format="Avro", compatibility="AllowAny")

    def add(more: str) -> None:
        fields = f'{{"name": "id", "type": "long"}}{more}'
        data = f'{{"type": "record", "name": "E", "fields": [{fields}]}}'.encode()
        registry.add_schema(
            scope, "theirs", SchemaInfo(type="E", serialization_format="Avro", schema_data=data, properties={})
        )

    def write(*rows: dict[str, Any]) -> None:
        codec = catalog.definition(stream, age_s=0).for_writing()
        with EventWriter(catalog.client, stream) as writer:
            writer.write_batch(codec.encode(pa.RecordBatch.from_pylist(list(rows), schema=codec.schema)))

    def ids(column: str, value: int) -> tuple[Counter[int], int]:
        condition = {"column": column, "comparison": "=", "values": [value]}
        plan = plan_scan(catalog.definition(stream, age_s=0), ScanRequest(columns=["id", column], condition=condition))
        return Counter(row["id"] for row in read(plan.reader) if row[column] == value), plan.skipped

    add("")
    write({"id": 1}, {"id": 2})
    for default in (5, 7):
        add(f', {{"name": "v", "type": "long", "default": {default}}}')
        catalog.altering.alter([scope], "theirs", [SetProperty(property="index-columns", value="id, v")])
        for indexed in (False, True):
            if indexed:
                assert call(catalog, f"{scope}.theirs")["events"] == 2
            for value in (5, 6, 7):
                wanted = Counter([1, 2] if value == default else [])
                assert ids("v", value) == (wanted, 0 if wanted or not indexed else ids("id", 9)[1])
        assert ids("id", 9)[1] > 0
