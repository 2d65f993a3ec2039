"""Lakes whose files are laid out by partitions, and sorted; held against a dict, and against pyiceberg alone."""

from __future__ import annotations

import inspect
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_lake
import test_lake_columns
import test_lake_keyed
import test_lake_keyed_reads
import test_lake_streams
from lake_tools import Table
from pyspark.sql import types as t

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import RemoveProperty
from pyspark_pravega.lake import laid_out, spans

pytestmark = pytest.mark.server

TIMES = ("years({})", "months({})", "days({})")
TRANSFORMS: dict[type[t.DataType], tuple[str, ...]] = {
    t.BooleanType: ("{}",),
    t.IntegerType: ("{}", "bucket(3, {})", "truncate(7, {})"),
    t.LongType: ("{}", "bucket(3, {})", "truncate(7, {})"),
    t.StringType: ("{}", "bucket(3, {})", "truncate(2, {})"),
    t.BinaryType: ("{}", "bucket(3, {})"),
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
@pytest.mark.in_turn
def test_histories_are_as_they_were_however_files_are_laid_out(
    catalog: Catalog,
    scope: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    history: Callable[..., None],
    seed: int,
) -> None:
    """Each tiering has another layout, and some die."""
    dice, tier = random.Random(seed), Table.tier
    # So that rows wait in files, and are sorted in several ranges.
    monkeypatch.setattr(laid_out, "_SPILLED_BYTES", 3000)
    monkeypatch.setattr(laid_out, "_SORTED_BYTES", 2000)
    monkeypatch.setattr(spans, "_WAITING_BYTES", 500)
    monkeypatch.setattr(spans, "_RANGE_BYTES", 300)
    seen: list[str] = []

    def laid_out_anew(table: Table) -> list[Any]:
        definition = table.catalog.definition(table.stream, age_s=0)
        given = any_layout(definition.schema, dice) if definition.properties.lake else {}
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
    assert set(seen) == {"lake-partitioned-by", "lake-sorted-by"}
