"""Lakes whose files are laid out by partitions, and sorted; held against a dict, and against pyiceberg alone."""

from __future__ import annotations

import datetime as dt
import inspect
import itertools
import math
import os
import random
from collections.abc import Callable
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import mmh3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import test_lake
import test_lake_columns
import test_lake_keyed
import test_lake_keyed_reads
import test_lake_streams
from lake_tools import Table
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, LessThan
from pyspark.sql import types as t
from test_lake_files import EPOCH, MICROSECOND, TYPES, Typed, holds

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn, DeleteColumn, RemoveProperty
from pyspark_pravega.connector.lake import iceberg_name
from pyspark_pravega.connector.log import create_ledger
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.write import WriteJob, WritePlan
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.lake import Between, LakeFile, iceberg, laid_out, spans

pytestmark = [pytest.mark.server, pytest.mark.in_turn]

TIMES = ("years({})", "months({})", "days({})")
TRANSFORMS: dict[type[t.DataType], tuple[str, ...]] = {
    t.BooleanType: ("{}",),
    t.IntegerType: ("{}", "bucket(3, {})", "truncate(7, {})"),
    t.ByteType: ("{}", "bucket(3, {})", "truncate(7, {})"),
    t.ShortType: ("{}", "bucket(3, {})", "truncate(7, {})"),
    t.LongType: ("{}", "bucket(3, {})", "truncate(7, {})"),
    t.StringType: ("{}", "bucket(3, {})", "truncate(2, {})"),
    t.VarcharType: ("{}", "bucket(3, {})", "truncate(2, {})"),
    t.BinaryType: ("{}", "bucket(3, {})", "truncate(3, {})"),
    t.DecimalType: ("{}", "bucket(3, {})", "truncate(50, {})"),
    t.DateType: ("{}", "bucket(3, {})", *TIMES),
    t.TimestampType: ("{}", "bucket(3, {})", "hours({})", *TIMES),
    t.TimestampNTZType: ("{}", "bucket(3, {})", "hours({})", *TIMES),
}
HISTORIES: list[Callable[..., None]] = [
    test_lake.test_random_histories_give_what_a_dict_gives,
    test_lake_streams.test_random_histories_are_streamed_once_in_order,
    test_lake_columns.test_columns_and_tables_change_before_and_behind_the_lake,
    test_lake_keyed.test_random_histories_of_keys_give_what_a_dict_gives,
    test_lake_keyed_reads.test_random_histories_of_keys_are_told_behind_the_lake,
]


def any_layout(schema: t.StructType, dice: random.Random) -> dict[str, str]:
    """Partitions and an order of some columns."""
    able = [field for field in schema if type(field.dataType) in TRANSFORMS]
    given = {}
    parts = dice.sample(able, min(len(able), dice.choice([0, 1, 1, 2])))
    if parts:
        terms = [dice.choice(TRANSFORMS[type(field.dataType)]).format(f"`{field.name}`") for field in parts]
        given["lake-partitioned-by"] = ", ".join(terms)
    keys = dice.sample(able, min(len(able), dice.choice([0, 1, 2])))
    if keys:
        words = ("", " DESC", " DESC NULLS LAST", " NULLS LAST", " DESC NULLS FIRST")
        given["lake-sorted-by"] = ", ".join(f"`{field.name}`{dice.choice(words)}" for field in keys)
    return given


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "2"))))
@pytest.mark.parametrize("history", HISTORIES, ids=lambda one: one.__module__)
@pytest.mark.in_turn(8)
def test_histories_are_as_they_were_however_files_are_laid_out(
    catalog: Catalog,
    scope: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    history: Callable[..., None],
    seed: int,
) -> None:
    """Each tiering has another layout, or that of the one before, and some die."""
    dice, tier = random.Random(seed), Table.tier
    # So that rows wait in files, and are sorted in several ranges.
    monkeypatch.setattr(laid_out, "_SPILLED_BYTES", 3000)
    monkeypatch.setattr(laid_out, "_SORTED_BYTES", 2000)
    monkeypatch.setattr(spans, "_WAITING_BYTES", 500)
    monkeypatch.setattr(spans, "_RANGE_BYTES", 300)
    seen: list[str] = []
    before: tuple[set[tuple[str, t.DataType]], dict[str, str]] = set(), {}

    def laid_out_anew(table: Table) -> list[Any]:
        definition = table.catalog.definition(table.stream, age_s=0)
        nonlocal before
        columns = {(field.name, field.dataType) for field in definition.schema}
        known, given = before
        if not definition.properties.lake:
            given = {}
        elif not known or dice.random() < 0.3 or not known <= columns:
            given = any_layout(definition.schema, dice)
            before = columns, given
        seen.extend(given)
        print("layout", given)
        table.set(**given)
        try:
            return tier(table)
        finally:
            table.alter(*(RemoveProperty(property=name) for name in given))

    monkeypatch.setattr(Table, "tier", laid_out_anew)
    given = {"catalog": catalog, "scope": scope, "tmp_path": tmp_path, "monkeypatch": monkeypatch, "seed": 20 + seed}
    history(**{name: given[name] for name in inspect.signature(history).parameters})
    assert seen


def internal(value: Any) -> Any:
    """As Iceberg keeps a value: times as numbers."""
    if isinstance(value, dt.datetime):
        return (value - (EPOCH if value.tzinfo else EPOCH.replace(tzinfo=None))) // MICROSECOND
    return (value - EPOCH.date()).days if isinstance(value, dt.date) else value


def unscaled(value: Decimal) -> int:
    """A decimal's digits."""
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def hashed(value: Any) -> int:
    """As Iceberg's specification says."""
    number = internal(value)
    if isinstance(number, Decimal):
        number = unscaled(number)
        return mmh3.hash(number.to_bytes((8 + (number + (number < 0)).bit_length()) // 8, "big", signed=True))
    return mmh3.hash(number.to_bytes(8, "little", signed=True) if isinstance(number, int) else number)


def partition(term: str, value: Any) -> Any:
    """What a value's partition is, told without pyiceberg."""
    transform, _, rest = term.partition("(")
    if value is None or not rest:
        return internal(value)
    width = int(rest.split(",")[0]) if "," in rest else 0
    if transform == "bucket":
        return (hashed(value) & 0x7FFFFFFF) % width
    if transform == "truncate":
        if isinstance(value, Decimal):
            number = unscaled(value)
            return Decimal(number - number % width).scaleb(int(value.as_tuple().exponent), Context(prec=40))
        return value - value % width if isinstance(value, int) else value[:width]
    months = 12 * (value.year - 1970) + value.month - 1
    since = internal(value) if type(value) is dt.date else internal(value) // 86_400_000_000
    return {"years": value.year - 1970, "months": months, "days": since}.get(
        transform, internal(value) // 3_600_000_000
    )


def in_order(order: str) -> Callable[[dict[str, Any]], Any]:
    """The key by which rows are sorted."""
    terms = [term.split() for term in order.split(", ")]

    def key(row: dict[str, Any]) -> Any:
        keys: list[Any] = []
        for name, *words in terms:
            value, nulls_first = row[name], words[-1:] == ["FIRST"] or (not words)
            is_nan = isinstance(value, float) and math.isnan(value)
            known = (0 if value is None or is_nan else internal(value), is_nan)[::-1]
            keys.append(((value is None) != nulls_first, Descending(known) if "DESC" in words else known))
        return keys

    return key


class Descending:
    """Something that comes before what is smaller."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def of_iceberg(table: Table) -> Any:
    """The Iceberg table, as pyiceberg alone finds it."""
    return load_catalog("pravega", type="sql", **table.alone()).load_table(iceberg_name(table.stream))


@pytest.mark.in_turn(8)
def test_each_file_is_of_one_partition_and_sorted_and_others_are_passed_over(
    catalog: Catalog, scope: str, tmp_path: Path
) -> None:
    """By each transform of each type, with nulls; the layout is another one with each tiering."""
    table = Typed(catalog, scope, tmp_path, **{"lake-row-group-size": "2 KiB"})
    kinds = {name: TRANSFORMS.get(type(kind), ()) for name, (kind, *_) in TYPES.items()}
    by_column = [[term.format(name) for term in terms] for name, terms in kinds.items()]
    levels = [[some[number] for some in by_column if len(some) > number] for number in range(6)]
    names, first = list(TYPES), 0
    paths: set[str] = set()
    rounds = [terms[number : number + 4] for terms in levels for number in range(0, len(terms), 4)]
    for number, some in enumerate([*rounds, []]):
        order = ", ".join(
            f"{names[(number * 2 + more) % len(names)]}{words}"
            for more, words in enumerate(("", " DESC", " DESC NULLS FIRST", " NULLS LAST"))
        )
        if some:
            table.set(lake_partitioned_by=", ".join(some), lake_sorted_by=order)
        else:
            table.alter(*(RemoveProperty(property=f"lake-{name}-by") for name in ("partitioned", "sorted")))
        table.put(first, first + 45)
        first += 45
        table.tier()
        there = of_iceberg(table)
        new = [task.file for task in there.scan().plan_files() if task.file.file_path not in paths]
        paths |= {file.file_path for file in new}
        partitions = []
        for file in new:
            rows = pq.read_table(file.file_path.removeprefix("file://")).to_pylist()
            fields = there.metadata.specs()[file.spec_id].fields
            assert len(fields) == len(some)
            for row in rows:
                expected = [partition(term, row[term.rstrip(")").split("(")[-1].split(", ")[-1]]) for term in some]
                assert list(file.partition) == expected, (some, row)
            if some:
                assert [row["id"] for row in rows] == [row["id"] for row in sorted(rows, key=in_order(order))], order
                assert file.sort_order_id == there.metadata.default_sort_order_id
            partitions.append(tuple(file.partition))
        assert len(set(partitions)) == len(partitions)
    total, there = first, of_iceberg(table)
    assert table.ids() == list(range(total))
    assert there.scan().to_arrow()["id"].sort().to_pylist() == list(range(total))
    lake = table.state().lake
    assert lake is not None
    assert lake.snapshot is not None
    metadata, snapshot = lake.metadata, lake.snapshot
    wrong, files = [], len(paths)

    def passed(name: str, least: Any, most: Any) -> list[LakeFile]:
        bound = Between(column=name, least=least, most=most, among=() if most is None else (most,))
        return iceberg.files_of(iceberg.store_of(()), metadata, snapshot, None, (bound,))

    for name, (kind, of, told) in TYPES.items():
        for comparison, number in itertools.product(("=", "<", ">="), (299,)):
            value = of(number)
            wanted = {id for id in range(total) if holds(comparison, table.value(name, id), value)}
            read = table.ids(Predicate(column=name, comparison=comparison, values=(told(value),)))
            if len(set(read)) < len(read) or not wanted <= set(read):
                wrong.append((name, comparison, number, "ours"))
            if isinstance(value, float | bool):
                continue
            # A condition on a partition passes other ones over, whether figures of files would or not.
            least = raw(kind, value)
            if comparison != "<" and len(passed(name, least, least if comparison == "=" else None)) == files:
                wrong.append((name, comparison, number, "nothing is passed over"))
            by_others = {"=": EqualTo, "<": LessThan, ">=": GreaterThanOrEqual}[comparison](name, value)
            alone = there.scan(row_filter=by_others, selected_fields=("id",)).to_arrow()["id"].to_pylist()
            if sorted(alone) != sorted(wanted):
                wrong.append((name, comparison, number, "pyiceberg's"))
    assert not wrong


def raw(kind: t.DataType, value: Any) -> Any:
    """As files tell of values."""
    return value.encode() if isinstance(value, str) and kind.typeName() != "binary" else internal(value)


def test_a_partition_by_a_hash_is_found_by_its_values(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Figures of files pass none over there."""
    table = Table(catalog, scope, tmp_path, **{"lake-partitioned-by": "bucket(8, name), bucket(4, id)"})
    table.insert(400)
    table.tier()
    table.check()
    assert len(table.files) == of_iceberg(table).inspect.partitions().num_rows == 32

    def read(column: str, comparison: str, *values: Any) -> int:
        predicate = Predicate(column=column, comparison=comparison, values=values)
        return len(table.read(predicates=(predicate,)))

    assert read("id", "=", 17) <= 400 / 2
    assert read("name", "=", "n17") <= 400 / 4
    assert read("name", "IN", "n17", "n370") <= 400 / 2
    assert read("id", "<", 17) >= 17


BAD = {
    "lake-partitioned-by": {
        "nope": '"nope" is not a column',
        "days(nmae)": '"nmae" is not a column.*did you mean "name"',
        "weeks(name)": r'"weeks\(name\)" isn\'t a column, years\(c\)',
        "bucket(id)": "isn't a column",
        "days(3, id)": "isn't a column",
        "bucket(0, id)": "must be 1 to 2147483647",
        "truncate(99999999999, id)": "must be 1 to 2147483647",
        "days(id)": 'can\'t partition rows by column "id" of type bigint: take identity, bucket, truncate',
        "identity(d)": 'by column "d" of type double: take another column',
        "r": 'by column "r" of type struct',
        "r.x": '"r.x" is not a column: fields of structs',
        "_version": '"_version" is not a column of the table\'s own: metadata columns',
        "name, bucket(3, name), name": 'column "name" is there twice by identity',
        "years(at), hours(at)": 'column "at" is there twice by times',
        "name,,id": '",id" isn\'t a column',
        "": "isn't a column",
    },
    "lake-sorted-by": {
        "nope DESC": '"nope" is not a column',
        "name SIDEWAYS": "isn't a column, which ASC or DESC",
        "days(at)": "isn't a column, which ASC or DESC",
        "r": 'rows can\'t be sorted by column "r" of type struct<x:int>: take another column',
        "id, name, id DESC": 'column "id" is there twice',
        "_offset": "metadata columns",
    },
}


def test_layouts_that_cant_be_are_refused(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """In CREATE TABLE and ALTER TABLE; and in a call of `tier`, where another program has changed the columns."""
    table = Table(catalog, scope, tmp_path)
    fields: list[tuple[str, t.DataType]] = [("d", t.DoubleType()), ("at", t.TimestampType())]
    fields.append(("r", t.StructType([t.StructField("x", t.IntegerType())])))
    for name, kind in fields:
        table.alter(AddColumn(column=(name,), type=kind))
    schema = table.catalog.definition(table.stream, age_s=0).schema
    for name, texts in BAD.items():
        for text, message in texts.items():
            with pytest.raises(PravegaError, match=f'"{name}": .*{message}'):
                table.set(**{name: text})
            with pytest.raises(PravegaError, match=f'"{name}": .*{message}'):
                table.catalog.tables.create([scope], "other", schema, [], {"lake": "iceberg", name: text})
        with pytest.raises(PravegaError, match=f'"{name}" goes with "lake"'):
            table.catalog.tables.create([scope], "other", schema, [], {name: "id"})
    table.set(lake_partitioned_by="HOUR( AT ),identity(`NAME`),Truncate(4,id)")
    table.set(lake_sorted_by="D desc nulls last,AT nulls LAST")
    properties = table.catalog.definition(table.stream, age_s=0).properties
    assert properties["lake-partitioned-by"] == "hours(at), name, truncate(4, id)"
    assert properties["lake-sorted-by"] == "d DESC, at NULLS LAST"
    for column, name in (("at", "partitioned"), ("name", "partitioned"), ("d", "sorted")):
        with pytest.raises(PravegaError, match=f'column "{column}" of stream .* is in "lake-{name}-by": take it out'):
            table.alter(DeleteColumn(column=(column,)))
    create_ledger(table.catalog.client, table.stream).change_properties(
        lambda before: {**before, "lake-sorted-by": "gone"}
    )
    table.catalog.forget(table.stream)
    table.set(**{"team.owner": "us"})
    with pytest.raises(PravegaError, match='"lake-sorted-by": "gone" is not a column'):
        table.tier()
    assert not list(tmp_path.rglob("*.parquet"))


def test_more_partitions_than_files_should_be_are_refused(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laid_out, "_MOST_PARTITIONS", 50)
    table = Table(catalog, scope, tmp_path, **{"lake-partitioned-by": "id"})
    table.insert(60)
    with pytest.raises(PravegaError, match=r"these rows are of more than 50 partitions.*take a coarser transform"):
        table.tier()
    assert not list(tmp_path.rglob("*.parquet"))
    table.set(lake_partitioned_by="truncate(10, id)")
    assert table.tier()[:3] == [1, 60, 6]
    table.set(lake_partitioned_by="truncate(20, id)")
    table.insert(10)
    assert table.tier()[:3] == [2, 10, 1]
    table.check()


def test_columns_that_are_called_as_partitions_may_come(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Later, or in place of others with another type."""
    given = {"lake-partitioned-by": "name, bucket(2, id)", "lake-sorted-by": "name"}
    table = Table(catalog, scope, tmp_path, **given)
    table.insert(6)
    table.tier()
    for name in ("id_bucket_2", "name_identity"):
        table.alter(AddColumn(column=(name,), type=t.LongType()))
        table.columns.append(name)
    table.insert(6)
    table.tier()
    table.check()
    schema = t.StructType([t.StructField("id", t.LongType(), False), t.StructField("name", t.LongType())])
    where = [scope], table.stream.name
    _, staged = table.catalog.replacing.stage(*where, schema, [], {**table.properties}, create=True, replace=True)
    table.catalog.replacing.commit(staged, written=False)
    definition = table.catalog.definition(table.stream, age_s=0)
    job = WriteJob(WritePlan.of(definition, WriteOptions()))
    batch = pa.record_batch({"id": pa.array([1, 2], pa.int64()), "name": pa.array([10, None], pa.int64())})
    job.commit_job([job.write_task(iter([batch]))])
    assert table.tier()[1:3] == [2, 2]
    rows = of_iceberg(table).scan(selected_fields=("id", "name")).to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, 10), (2, None)]
    assert sorted(table.unsorted(None, "id", "name")) == [(1, 10), (2, None)]
