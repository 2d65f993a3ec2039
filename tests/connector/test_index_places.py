"""The indexes of commits, however they came about: each block lies where its index says, and no query loses a row."""

from __future__ import annotations

import operator
import os
import random
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from client_tools import Proxy, ThroughProxy, make_stream
from format_tools import file_set
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn, Bucket, DeleteColumn, SetProperty, UpdateColumnType
from pyspark_pravega.catalog.plans.scans import PlannedScan, ScanRequest, plan_scan
from pyspark_pravega.client import EventWriter, SegmentPart, Stream
from pyspark_pravega.client.events import transaction_writer
from pyspark_pravega.connector.index import blocks as index_blocks
from pyspark_pravega.connector.index.figures import figures_of
from pyspark_pravega.connector.log import Ledger, open_ledger, recovery, take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read import Moment
from pyspark_pravega.connector.read.reader import BatchReader
from pyspark_pravega.connector.read.versions import moment_of
from pyspark_pravega.connector.table import indexed_columns
from pyspark_pravega.connector.write import OverwritingJob
from pyspark_pravega.connector.write.commit.attempts import Attempts
from pyspark_pravega.connector.write.commit.promise import intent_of
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.connector.write.task import TransactionTask
from pyspark_pravega.errors import SegmentTruncatedError, TransactionError, UnsupportedOperationError
from pyspark_pravega.registry import SchemaInfo, SchemaRegistry

pytestmark = pytest.mark.server

SEED = int(os.environ.get("PLACES_SEED", "3"))
WAYS = ["one", "many", "retried", "all own", "late", "lost"]
"""How a commit's rows are written: by one task, by several that share a transaction, by attempts with transactions of
their own whose rows are gathered, with a connection that is lost."""
OTHERS = ["none", "before", "during", "behind", "two", "noted", "promised", "committing", "back"]
"""Who else writes: a foreign writer at three moments, another INSERT, and one who comes when the driver is dead: when
it had noted the index, its promise, or had asked for the commit; or the driver comes back."""
SCALES = ["none", "before", "tasks", "open", "after"]
COLUMNS = StructType(
    [StructField("id", LongType(), False), StructField("x", IntegerType()), StructField("s", StringType())]
)
_KINDS = {"int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
_COMPARISONS = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<>": operator.ne,
}


class History:
    """A table, and what is done to it."""

    def __init__(self, catalog: Catalog, scope: str, table_format: str, at: random.Random, segments: int) -> None:
        self.catalog, self.scope, self.at = catalog, scope, at
        self.format, self.segments = table_format, segments
        self.next_id = self.learnt = self.placed = self.skipped = 0
        self.create()

    def create(self) -> None:
        given = {"format": self.format, "index-columns": "id, x, s"}
        buckets = [Bucket(columns=("id",), buckets=self.segments)]
        self.stream: Stream = self.catalog.tables.create([self.scope], "t", COLUMNS, buckets, given).stream
        self.learnt = 0

    @property
    def ledger(self) -> Ledger:
        ledger = open_ledger(self.catalog.client, self.stream)
        assert ledger is not None
        return ledger

    def definition(self) -> Any:
        return self.catalog.definition(self.stream, age_s=0)

    def batches(self, count: int = 3) -> list[pa.RecordBatch]:
        """Rows whose columns all grow with the id, some of them null; in some batches all."""
        schema, some = self.definition().schema, []
        for _ in range(count):
            ids = list(range(self.next_id, self.next_id + self.at.randrange(1, 30)))
            self.next_id = ids[-1] + 1
            values: dict[str, pa.Array] = {"id": pa.array(ids, pa.int64())}
            is_null = self.at.random() < 0.1
            for field in list(schema)[1:]:
                kind = field.dataType.simpleString()
                column = [
                    None if is_null or self.at.random() < 0.05 else f"{n:06d}é" if kind == "string" else n // 3
                    for n in ids
                ]
                values[field.name] = pa.array(column, _KINDS[kind])
            some.append(pa.record_batch(values))
        return some

    def foreign(self) -> None:
        plan = self.plan()
        with EventWriter(self.catalog.client, self.stream) as writer:
            for batch in self.batches(2):
                form = plan.form.of(batch)
                writer.write_batch(plan.codec.encode(form), plan.routing.keys(form) if plan.routing else None)

    def plan(self) -> WritePlan:
        return WritePlan.of(self.definition(), WriteOptions(transaction_timeout_ms=60_000))

    def scale(self) -> None:
        count = len(self.catalog.client.controller.current_segments(self.stream).ranges)
        self.catalog.client.controller.scale_to(self.stream, 1 + count % 3)

    def tasks(self, job: WriteJob, way: str, meanwhile: Any = bool) -> list[TaskMessage | None]:
        """Write a job's rows; in its midst something else happens."""
        parts = 1 if way == "one" else 3
        rows = [self.batches() for _ in range(parts)]

        def fails(of: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from of[:2]
            raise OSError

        def attempt(part: int) -> TaskMessage:
            return job.write_partition(part, iter(rows[part]))

        if way in ("retried", "all own"):
            for part in range(parts) if way == "all own" else [1]:
                with pytest.raises(OSError):
                    job.write_partition(part, fails(rows[part]))
            messages = [attempt(0)]
            meanwhile()
            return [*messages, *(attempt(part) for part in range(1, parts))]
        if way == "late":
            messages = [attempt(0)]
            meanwhile()
            return [*messages, *(attempt(part) for part in range(1, parts))]
        if way == "lost":
            return self._over_a_proxy(job, rows, meanwhile)
        tasks = [job._task(part) for part in range(parts)]
        for number in range(3):
            for part, task in enumerate(tasks):
                task.add(rows[part][number])
            if number == 1:
                meanwhile()
        return [TaskMessage(task.finish(), job=job.job) for task in tasks]

    def _over_a_proxy(self, job: WriteJob, rows: Sequence[Sequence[pa.RecordBatch]], meanwhile: Any) -> list[Any]:
        client = self.catalog.client
        first = client.controller.current_segments(self.stream).ranges[0].segment_id
        with (
            Proxy(client.controller.endpoint(self.stream, first)) as proxy,
            ThroughProxy(client.settings, proxy) as through,
        ):
            tasks = [
                TransactionTask(through if part == 1 else client, self.ledger.job(job.job), job.plan, partition=part)
                for part in range(3)
            ]
            for number in range(3):
                for part, task in enumerate(tasks):
                    task.add(rows[part][number])
                    if part == 1 and number == self.at.randrange(3):
                        proxy.cut_all()
                if number == 1:
                    meanwhile()
            return [TaskMessage(task.finish(), job=job.job) for task in tasks]

    def commit(self, way: str, other: str, scale: str) -> None:
        """One commit of a kind."""
        if scale == "before":
            self.scale()
        if other == "before":
            self.foreign()
        job = WriteJob(self.plan(), opened=way != "late")
        messages = self.tasks(job, way, self.scale if scale == "tasks" else bool)
        second: tuple[WriteJob, list[TaskMessage | None]] | None = (
            (WriteJob(self.plan()), []) if other == "two" else None
        )
        if second is not None:
            second[1].extend(self.tasks(second[0], "many"))
        if other == "during":
            self.foreign()
        if scale == "open":
            self.scale()
        if other in ("noted", "promised", "committing", "back"):
            self.die(job, messages, other)
        else:
            job.commit_job(messages)
        if second is not None:
            second[0].commit_job(second[1])
        if other == "behind":
            self.foreign()
        if scale == "after":
            self.scale()

    def die(self, job: WriteJob, messages: list[TaskMessage | None], step: str) -> None:
        """Commit up to a step; then another one comes."""
        client = self.catalog.client
        target = self.promise(job, messages, noted_only=step == "noted")
        if step in ("committing", "back"):
            client.controller.commit_transaction(self.stream, target)
            if self.at.random() < 0.3:
                self.foreign()
            if self.at.random() < 0.2:
                self.scale()
        if step != "back":
            # Also while it isn't settled.
            self.check(3)
            heir = WriteJob(self.plan())
            heir.commit_job(self.tasks(heir, "one"))
        if step == "promised":
            with pytest.raises(TransactionError):
                job.commit_job(messages)
        else:
            job.commit_job(messages)

    def promise(self, job: WriteJob, messages: Sequence[TaskMessage | None], *, noted_only: bool = False) -> uuid.UUID:
        """What a driver does until it asks for the commit of its transaction, which is returned."""
        client, ledger = self.catalog.client, self.ledger
        log, written = ledger.job(job.job), [message.written for message in messages if message is not None]
        if job._opened:
            log.close()
        attempts = Attempts(client, log, job.plan, len(messages), written)
        target = attempts.gather()
        index = attempts.index(target)
        assert target is not None
        assert index is not None
        log.note_index(index)
        if not noted_only:
            intent = intent_of(job.job, target, attempts.written, None, indexed=True)
            ledger.begin(recovery.settle(client, ledger), intent)
        return target.id

    def overwrite(self) -> None:
        job = OverwritingJob(self.plan())
        job.commit_job(self.tasks(job, "many"))
        self.learnt = self.ledger.state().version - 1

    def truncate(self) -> None:
        self.catalog.relations.truncate([self.scope], "t")
        self.learnt = self.ledger.state().version

    def drop(self) -> None:
        self.catalog.tables.drop([self.scope], "t")
        self.create()

    def alter(self, what: str) -> None:
        alter = self.catalog.altering.alter
        names = self.definition().schema.fieldNames()

        def index(*columns: str) -> None:
            alter([self.scope], "t", [SetProperty(property="index-columns", value=", ".join(columns))])

        if what == "add":
            alter([self.scope], "t", [AddColumn(column=("more",), type=IntegerType(), nullable=True)])
            index(*names, "more")
        elif what in ("again", "other type"):
            last = names[-1]
            kind = self.definition().schema[last].dataType
            index(*names[:-1])
            alter([self.scope], "t", [DeleteColumn(column=(last,))])
            kind = kind if what == "again" else StringType() if kind != StringType() else LongType()
            alter([self.scope], "t", [AddColumn(column=(last,), type=kind, nullable=True)])
            index(*names)
        elif what == "widen":
            alter([self.scope], "t", [UpdateColumnType(column=("x",), type=LongType())])
        elif what == "widen more":
            alter([self.scope], "t", [UpdateColumnType(column=("x",), type=DoubleType())])

    # What holds of it

    def rows_in(self, parts: Sequence[SegmentPart]) -> list[dict[str, Any]]:
        definition = self.definition()
        snapshot = replace(take_snapshot(self.catalog.client, self.stream), parts=tuple(parts))
        return read(BatchReader(definition, snapshot, definition.schema.fieldNames()))

    def check_places(self) -> None:
        """What lies in each new block is what its figures tell; in all of its parts together they are just that."""
        ledger, definition = self.ledger, self.definition()
        last, columns = ledger.state().version, {column.key: column for column in indexed_columns(definition)}
        current = {part.segment_id for part in take_snapshot(self.catalog.client, self.stream).parts}
        for version, index in ledger.indexes().of_versions(range(self.learnt + 1, last + 1)):
            (commit,) = ledger.commits([version])
            assert sum(block.rows for block in index.blocks) <= commit.rows
            for block in index.blocks:
                if any(part.segment_id not in current for part in block.parts):
                    continue
                rows = self.rows_in(
                    [SegmentPart(stream=self.stream, segment_id=i, start=s, end=e) for i, s, e in block.parts]
                )
                self.placed += 1
                assert len(rows) <= block.rows, (version, block)
                for key, figures in zip(index.columns, block.figures, strict=True):
                    if key not in columns or figures is None:
                        continue
                    name = columns[key].name
                    kind = definition.codec.schema.field(name).type
                    known: Any = figures
                    own: Any = figures_of(pa.array([row[name] for row in rows], kind))
                    assert own is not None
                    if own.values:
                        assert known.least <= own.least, (version, name, figures, own)
                        assert known.greatest is None or known.greatest >= own.greatest, (version, name)
                    assert own.nulls <= figures.nulls
                    if len(rows) == block.rows:
                        assert own == figures, (version, name, figures, own)
        self.learnt = last

    def conditions(self, number: int) -> Iterator[Any]:
        fields = {field.name: field.dataType.simpleString() for field in self.definition().schema}

        def value(name: str) -> Any:
            n = self.at.randrange(-2, self.next_id + 2)
            return f"{n:06d}é"[: self.at.randrange(3, 8)] if fields[name] == "string" else n if name == "id" else n // 3

        def leaf() -> Any:
            name = self.at.choice(list(fields))
            comparison = self.at.choice([*_COMPARISONS, "IN", "IS_NULL", "IS_NOT_NULL", "<=>"])
            count = 0 if comparison.startswith("IS") else self.at.randrange(1, 4) if comparison == "IN" else 1
            return {"column": name, "comparison": comparison, "values": [value(name) for _ in range(count)]}

        def tree(depth: int = 0) -> Any:
            chance = self.at.random()
            if depth < 3 and chance < 0.5:
                return {self.at.choice(["all", "any"]): [tree(depth + 1) for _ in range(2)]}
            return {"not": tree(depth + 1)} if depth < 3 and chance < 0.65 else leaf()

        for _ in range(number):
            yield tree()

    def check(self, number: int, position: Moment | None = None) -> None:
        """Queries with conditions give what reading all of it gives."""
        definition = self.definition()
        names = definition.schema.fieldNames()
        everything = read(plan_scan(definition, ScanRequest(columns=names, position=position)).reader)
        assert len({row["id"] for row in everything}) == len(everything)
        for condition in self.conditions(number):
            wanted = Counter(row["id"] for row in everything if holds(condition, row))
            plan = plan_scan(definition, ScanRequest(columns=names, position=position, condition=condition))
            found = Counter(row["id"] for row in read(plan.reader) if holds(condition, row))
            assert found == wanted, (condition, position)
            self.skipped += plan.skipped > 0

    def check_versions(self, number: int) -> None:
        state = self.ledger.state()
        for version in range(max(1, state.version - 15), state.version + 1):
            # Of those before an OVERWRITE or a TRUNCATE the events are gone.
            with suppress(SegmentTruncatedError) if version < state.version else nullcontext():
                self.check(number, moment_of(self.catalog.client, self.stream, str(version)))


def read(reader: Any) -> list[dict[str, Any]]:
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def holds(condition: Any, row: Mapping[str, Any]) -> bool | None:
    """As SQL has it; None is unknown."""
    if "all" in condition:
        parts = [holds(part, row) for part in condition["all"]]
        return False if False in parts else None if None in parts else True
    if "any" in condition:
        parts = [holds(part, row) for part in condition["any"]]
        return True if True in parts else None if None in parts else False
    if "not" in condition:
        inner = holds(condition["not"], row)
        return None if inner is None else not inner
    own, comparison, values = row[condition["column"]], condition["comparison"], condition["values"]
    if comparison in ("IS_NULL", "IS_NOT_NULL"):
        return bool((own is None) == (comparison == "IS_NULL"))
    if comparison == "<=>":
        return bool(own == values[0])
    if own is None:
        return None
    own, values = (own.encode(), [one.encode() for one in values]) if isinstance(own, str) else (own, values)
    return bool(own in values) if comparison == "IN" else bool(_COMPARISONS[comparison](own, values[0]))


@pytest.mark.in_turn(8)
@pytest.mark.parametrize(
    ("table_format", "segments", "block_bytes"), [("avro", 1, 1), ("json", 3, 1 << 20), ("protobuf", 2, 600)]
)
def test_whoever_writes_whatever_meanwhile_blocks_are_where_they_are_said_to_be(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch, table_format: str, segments: int, block_bytes: int
) -> None:
    monkeypatch.setattr(recovery, "GRACE_S", 0.0)
    monkeypatch.setattr(index_blocks, "WORTH_SKIPPING_BYTES", 0)
    monkeypatch.setattr(transaction_writer, "_MOST_WAITING_BYTES", block_bytes)
    at = random.Random(f"{SEED} {table_format}")
    combinations = list(product(WAYS, OTHERS, SCALES))
    at.shuffle(combinations)
    combinations = combinations[: int(os.environ.get("PLACES_COMMITS", "40"))]
    history = History(catalog, scope, table_format, at, segments)
    changes = [
        "add",
        "widen",
        "again",
        "truncate",
        "other type",
        "drop",
        "overwrite",
        "add",
        "widen",
        "widen more",
        "other type",
        "overwrite",
    ]
    for number, (way, other, scale) in enumerate(combinations, 1):
        monkeypatch.setattr(index_blocks, "MOST_BLOCKS", at.choice([1, 2, 3, 2000]))
        try:
            try:
                history.commit(way, other, scale)
            except TransactionError as error:
                # What was written before a scale and behind it isn't always one transaction.
                if scale != "tasks" or "nothing was written; run it again" not in str(error):
                    raise
            history.check_places()
            history.check(2)
        except BaseException as error:
            error.add_note(f"{number}: {way}, {other}, {scale}")
            raise
        if number % 7 == 0 and changes:
            history.check(25)
            history.check_versions(3)
            change = changes.pop(0)
            # Not each format's types become wider.
            with suppress(UnsupportedOperationError):
                getattr(history, change, lambda change=change: history.alter(change))()
            history.check(15)
    history.check(60)
    history.check_versions(10)

    assert history.placed > len(combinations) / 2
    assert history.skipped > len(combinations)


def test_a_commit_that_a_query_saw_before_its_version_was_there_is_skipped_later(catalog: Catalog, scope: str) -> None:
    history = History(catalog, scope, "avro", random.Random(SEED), 1)
    job = WriteJob(history.plan())
    messages = history.tasks(job, "many")
    transaction = history.promise(job, messages)
    catalog.client.controller.commit_transaction(history.stream, transaction)

    def planned() -> PlannedScan:
        condition = {"column": "id", "comparison": "<", "values": [0]}
        return plan_scan(history.definition(), ScanRequest(columns=["id"], condition=condition))

    seen = planned()
    assert seen.size > 0
    job.commit_job(messages)
    assert (planned().size, planned().skipped) == (0, seen.size)


AVRO = '{"type": "record", "name": "E", "fields": [{"name": "id", "type": "long"}, {"name": "c", "type": %s}]}'
PROTOBUF = """name: "e.proto" syntax: "proto3"
    enum_type { name: "C" value { name: "%s" number: 0 } value { name: "BLUE" number: 1 } }
    message_type { name: "E" field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
    field { name: "c" number: 2 type: TYPE_ENUM type_name: ".C" label: LABEL_OPTIONAL } }"""


@pytest.mark.parametrize("table_format", ["avro", "protobuf"])
def test_names_of_an_enum_have_no_bounds_as_a_later_schema_has_others(
    catalog: Catalog, registry: SchemaRegistry, scope: str, table_format: str
) -> None:
    """The schemas are of others."""
    stream = make_stream(catalog.client, scope, "theirs")
    name = {"avro": "Avro", "protobuf": "Protobuf"}[table_format]
    registry.create_group(scope, "theirs", serialization_format=name, compatibility="AllowAny")

    def add(symbol: str, default: str = "") -> None:
        kind = f'{{"type": "enum", "name": "C", "symbols": ["{symbol}", "BLUE"]{default}}}'
        data = (AVRO % kind).encode() if table_format == "avro" else file_set(PROTOBUF % symbol)
        schema = SchemaInfo(type="E", serialization_format=name, schema_data=data, properties={})
        registry.add_schema(scope, "theirs", schema)

    add("RED")
    setting = SetProperty(property="index-columns", value="id, c")
    catalog.altering.alter([scope], "theirs", [setting])
    for number, color in enumerate(["RED", "BLUE"]):
        job = WriteJob(WritePlan.of(catalog.definition(stream, age_s=0), WriteOptions(transaction_timeout_ms=60_000)))
        job.commit_job([job.write_task(iter([pa.record_batch({"id": pa.array([number]), "c": pa.array([color])})]))])
    add("GREY", ', "default": "GREY"')
    definition = catalog.definition(stream, age_s=0)
    for column, value, expected in (("c", "GREY", [0]), ("c", "BLUE", [1]), ("id", 1, [1]), ("id", 2, [])):
        condition = {"column": column, "comparison": "=", "values": [value]}
        plan = plan_scan(definition, ScanRequest(columns=["id", "c"], condition=condition))
        assert [row["id"] for row in read(plan.reader) if row[column] == value] == expected
        assert (plan.skipped > 0) == (column == "id")
