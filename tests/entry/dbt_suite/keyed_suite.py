"""dbt's snapshots and merged models on tables with keys, each run held against a Python dict: `make dbt-suite`."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from dbt.tests.util import run_dbt
from suite_project import *  # noqa: F403

# Snapshots: a source whose rows change, are deleted, and come again

FIRST_TIME = datetime(2020, 1, 1)
CHECKED = ("name", "amount")


@dataclass(frozen=True)
class Item:
    """A row of the source."""

    name: str | None
    amount: int | None
    note: str
    """No snapshot looks at it."""
    updated_at: datetime


@dataclass
class Record:
    """A row of a snapshot."""

    item: Item
    deleted: bool = False
    current: bool = True


Key = tuple[int, str]


@dataclass
class Expected:
    """What a snapshot is to hold."""

    strategy: str
    hard_deletes: str
    records: dict[Key, list[Record]] = field(default_factory=dict)

    def snapshot(self, source: dict[Key, Item]) -> None:
        """A run."""
        for key, item in source.items():
            records = self.records.setdefault(key, [])
            last = records[-1] if records and records[-1].current else None
            if last is None or last.deleted or self._has_changed(last.item, item):
                if last is not None:
                    last.current = False
                records.append(Record(item))
        for key in self.records.keys() - source.keys():
            last = self.records[key][-1]
            if self.hard_deletes != "ignore" and last.current and not last.deleted:
                last.current = False
                if self.hard_deletes == "new_record":
                    self.records[key].append(Record(last.item, deleted=True))

    def _has_changed(self, before: Item, after: Item) -> bool:
        if self.strategy == "timestamp":
            return after.updated_at > before.updated_at
        return any(getattr(before, name) != getattr(after, name) for name in CHECKED)


SNAPSHOT = """
{{% snapshot {name} %}}
  {{{{ config(file_format='delta', strategy='{strategy}', hard_deletes='{hard_deletes}', {more}) }}}}
  select * from {{{{ target.schema }}}}.items
{{% endsnapshot %}}
"""
STRATEGIES = {"timestamp": "updated_at='updated_at'", "check": f"check_cols={list(CHECKED)}"}
KEYS = {"list": "unique_key=['id', 'region']", "text": "unique_key=\"id || '-' || region\""}
OPEN_END = "dbt_valid_to_current=\"timestamp'9999-12-31'\""
SNAPSHOTS = {
    f"{strategy}_{hard_deletes}": (strategy, hard_deletes, ("list", "text")[number % 2])
    for number, (strategy, hard_deletes) in enumerate(
        itertools.product(STRATEGIES, ("ignore", "invalidate", "new_record"))
    )
}


class TestSnapshots:
    """Each strategy, each way with rows that are gone, and keys of one expression and of several columns."""

    RUNS = 4

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        texts = {}
        for name, (strategy, hard_deletes, key) in SNAPSHOTS.items():
            more = [STRATEGIES[strategy], KEYS[key], *([OPEN_END] if key == "list" else [])]
            texts[f"{name}.sql"] = SNAPSHOT.format(
                name=name, strategy=strategy, hard_deletes=hard_deletes, more=", ".join(more)
            )
        return texts

    def test_each_run_gives_what_a_dict_gives(self, project: Any) -> None:
        chance, source = random.Random(19), dict[Key, Item]()
        expected = {name: Expected(strategy, deletes) for name, (strategy, deletes, _) in SNAPSHOTS.items()}
        project.run_sql(
            "create table {schema}.items (id bigint, region string, name string, amount int, note string, "
            "updated_at timestamp) tblproperties ('primary-key' = 'id, region', 'segments' = '2')"
        )
        for run in range(self.RUNS):
            self._change(project, source, chance, run)
            results = run_dbt(["snapshot"])
            assert {result.status for result in results} == {"success"}
            for name, snapshot in expected.items():
                snapshot.snapshot(source)
                self._check(project, name, snapshot, f"{name}, run {run}")
        # A run that finds nothing new writes nothing.
        versions = {name: self._versions(project, name) for name in expected}
        run_dbt(["snapshot"])
        assert versions == {name: self._versions(project, name) for name in expected}

    @staticmethod
    def _versions(project: Any, name: str) -> int:
        count: int = project.run_sql(f"select count(*) from {{schema}}.`{name}$commits`", "one")[0]
        return count

    @staticmethod
    def _change(project: Any, source: dict[Key, Item], chance: random.Random, run: int) -> None:
        """Rows that are new, gone, changed, changed in columns that nobody looks at, and there again."""
        new = dict[Key, Item]()
        for key in [(id, region) for id in range(8) for region in ("eu", "us")]:
            before, what = source.get(key), chance.random()
            if before is None and what < 0.6:
                new[key] = Item(f"new {run}", None, "", FIRST_TIME + timedelta(days=run))
            elif before is not None and what < 0.3:
                project.run_sql(f"delete from {{schema}}.items where id = {key[0]} and region = '{key[1]}'")
                del source[key]
            elif before is not None and what < 0.6:
                amount, name = chance.choice((None, 1, 2)), chance.choice((None, "a", "b"))
                # Sometimes the time says that nothing has changed.
                days = run - (what < 0.4)
                new[key] = Item(name, amount, before.note, max(before.updated_at, FIRST_TIME + timedelta(days=days)))
            elif before is not None and what < 0.7:
                new[key] = Item(before.name, before.amount, f"note {run}", before.updated_at)
        source.update(new)
        rows = [
            f"({key[0]}, '{key[1]}', {_sql(item.name)}, {_sql(item.amount)}, {_sql(item.note)}, "
            f"timestamp'{item.updated_at}')"
            for key, item in new.items()
        ]
        project.run_sql(f"insert into {{schema}}.items values {', '.join(rows)}")

    @staticmethod
    def _check(project: Any, name: str, expected: Expected, story: str) -> None:
        deleted = "dbt_is_deleted = 'True'" if expected.hard_deletes == "new_record" else "false"
        rows = project.run_sql(
            "select id, region, name, amount, note, updated_at, dbt_valid_from, dbt_valid_to, "
            f"dbt_valid_to is null or year(dbt_valid_to) = 9999, {deleted}, dbt_scd_id "
            f"from {{schema}}.{name} order by id, region, dbt_valid_from, updated_at",
            "all",
        )
        assert len({row[-1] for row in rows}) == len(rows), story
        found: dict[Key, list[Any]] = {}
        for id, region, *others in rows:
            found.setdefault((id, region), []).append(others)
        assert found.keys() == expected.records.keys(), story
        for key, records in found.items():
            # By the timestamps of the rows a deletion may be older than the row that came again.
            wanted = [(r.item.name, r.item.amount, r.item.note, r.deleted, r.current) for r in expected.records[key]]
            made = [(*row[:3], row[7], row[6]) for row in records]
            assert sorted(made, key=str) == sorted(wanted, key=str), f"{story}, {key}"
            assert sum(row[6] for row in records) <= 1, f"{story}, {key}"


def _sql(value: object) -> str:
    return "null" if value is None else repr(value)


# Models that are merged

CHANGED = ("name", "amount", "place")
MODEL = """
{{{{ config(materialized='incremental', file_format='delta', incremental_strategy='merge',
            unique_key=['id', 'region'], {more}) }}}}
select id, region, name, amount, place from {{{{ target.schema }}}}.changes
{{% if is_incremental() and {filtered} %}} where id >= 4 {{% endif %}}
"""
PREDICATES = "incremental_predicates=['DBT_INTERNAL_DEST.id >= 4', \"DBT_INTERNAL_DEST.region <> 'x'\"]"
MODELS = {
    "all_columns": ("", CHANGED),
    "some_columns": ("merge_update_columns=['amount', 'place']", ("amount", "place")),
    "without_columns": ("merge_exclude_columns=['NAME', 'place']", ("amount",)),
    "filtered": (PREDICATES, CHANGED),
}
Row = dict[str, Any]


class TestMergedModels:
    """All columns, some, and those of some rows only; with structs and nulls."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            f"{name}.sql": MODEL.format(more=more, filtered=str(name == "filtered").lower())
            for name, (more, _) in MODELS.items()
        }

    def test_each_run_gives_what_a_dict_gives(self, project: Any) -> None:
        chance, expected = random.Random(5), {name: dict[Key, Row]() for name in MODELS}
        project.run_sql(
            "create table {schema}.changes (id bigint, region string, name string, amount int, "
            "place struct<x: int, y: array<string>>)"
        )
        for run in range(5):
            changes = {
                (id, region): {
                    "name": chance.choice((None, f"name {run}", "it's")),
                    "amount": chance.choice((None, run)),
                    "place": chance.choice((None, (run, ["a", "b"]), (None, None))),
                }
                for id in range(8)
                for region in ("eu", "us")
                if chance.random() < 0.5
            }
            rows = ", ".join(
                f"({id}, '{region}', {_text(row['name'])}, {_sql(row['amount'])}, {_place(row['place'])})"
                for (id, region), row in changes.items()
            )
            project.run_sql(f"insert overwrite {{schema}}.changes values {rows}")
            full = run == 3
            run_dbt(["run", *(["--full-refresh"] if full else [])])
            for name, (_, columns) in MODELS.items():
                table = expected[name]
                if full:
                    table.clear()
                for key, row in changes.items():
                    if name == "filtered" and key[0] < 4 and run not in (0, 3):
                        continue
                    table[key] = table[key] | {c: row[c] for c in columns} if key in table else row
                assert self._rows(project, name) == table, f"{name}, run {run}"

    @staticmethod
    def _rows(project: Any, name: str) -> dict[Key, Row]:
        found = project.run_sql(
            f"select id, region, name, amount, place is not null, place.x, to_json(place.y) from {{schema}}.{name}",
            "all",
        )
        rows = {
            (id, region): {
                "name": name,
                "amount": amount,
                "place": (x, None if y is None else ["a", "b"]) if is_there else None,
            }
            for id, region, name, amount, is_there, x, y in found
        }
        assert len(rows) == len(found)
        return rows


def _text(value: Any) -> str:
    return "null" if value is None else '"' + value + '"'


def _place(value: Any) -> str:
    if value is None:
        return "null"
    x, y = value
    return f"named_struct('x', {_sql(x)}, 'y', {'null' if y is None else 'array(' + str(y)[1:-1] + ')'})"


class TestPredicatesThatLeaveOutRows:
    """A predicate that hides a row of the target makes no second one of its key: the new one takes its place."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        config = (
            "materialized='incremental', file_format='delta', incremental_strategy='merge', unique_key='id', "
            "incremental_predicates=['DBT_INTERNAL_DEST.id > 1']"
        )
        version = "{% if is_incremental() %} 2 {% else %} 1 {% endif %}"
        return {"hidden.sql": f"{{{{ config({config}) }}}} select id, {version} as v from range(3)"}

    def test_each_key_has_one_row(self, project: Any) -> None:
        run_dbt(["run"])
        run_dbt(["run"])
        assert sorted(project.run_sql("select * from {schema}.hidden", "all")) == [(0, 2), (1, 2), (2, 2)]


CONTRACT = """
models:
  - name: contracted
    config: {contract: {enforced: true}}
    columns:
      - {name: id, data_type: bigint, constraints: [{type: not_null}]}
      - {name: v, data_type: bigint, constraints: [{type: not_null}, {type: check, name: small, expression: "v < %s"}]}
"""


class TestContractOnAMergedKey:
    """A key's column holds `not_null` by itself; and what a run didn't add to the table the next one adds, or fails."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        config = (
            "materialized='incremental', file_format='delta', incremental_strategy='merge', unique_key='id', "
            "on_schema_change='append_new_columns'"
        )
        query = "select id, id + {{ var('v') }} as v from range({{ var('first') }}, {{ var('first') }} + 2)"
        return {"contracted.sql": f"{{{{ config({config}) }}}} {query}", "schema.yml": CONTRACT % 10}

    def test_the_contract_is_held(self, project: Any) -> None:
        def run(v: int, first: int, *, passes: bool = True) -> str:
            (ended,) = run_dbt(["run", "--vars", f"{{v: {v}, first: {first}}}"], expect_pass=passes)
            return str(ended.message)

        def constraints() -> list[str]:
            made = project.run_sql("show create table {schema}.contracted", "one")[0]
            return sorted(line.split()[1] for line in made.splitlines() if " CHECK " in line)

        run(1, 0)
        assert constraints() == ["small", "v_not_null"]
        run(2, 1)
        assert constraints() == ["small", "v_not_null"]
        assert "small" in run(20, 2, passes=False)
        project.run_sql("alter table {schema}.contracted drop constraint small")
        run(3, 2)
        assert constraints() == ["small", "v_not_null"]
        project.run_sql("alter table {schema}.contracted drop constraint small")
        project.run_sql("insert into {schema}.contracted values (9, 30)")
        for _ in range(2):
            assert "small" in run(1, 5, passes=False)
        rows = sorted(project.run_sql("select * from {schema}.contracted", "all"))
        assert rows == [(0, 1), (1, 3), (2, 5), (3, 6), (9, 30)]


SCHEMA_CHANGE = """
{{{{ config(materialized='incremental', file_format='delta', incremental_strategy='merge', unique_key='id',
            on_schema_change='{mode}') }}}}
{{% if is_incremental() %}} {second} {{% else %}} select id, 1 as a, 1 as b from range(3) {{% endif %}}
"""
OTHERS = "select id, 2 as a, 2 as c from range(1, 4)"


@pytest.mark.sample
class TestSchemaChanges:
    """A model of which a column is gone, and that has a new one."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        seconds = {
            "ignore": ("ignore", "select id, 2 as a, 2 as b, 2 as c from range(1, 4)"),
            "append": ("append_new_columns", OTHERS),
            "sync": ("sync_all_columns", OTHERS),
            "wider": ("sync_all_columns", "select id, 5000000000 as a, 2 as b from range(1, 4)"),
            "fail": ("fail", OTHERS),
            "lost": ("ignore", OTHERS),
        }
        return {f"{name}.sql": SCHEMA_CHANGE.format(mode=mode, second=sql) for name, (mode, sql) in seconds.items()}

    def test_rows_and_columns(self, project: Any) -> None:
        run_dbt(["run"])
        results = {result.node.name: result for result in run_dbt(["run"], expect_pass=False)}
        assert {name for name, result in results.items() if result.status != "success"} == {"fail", "lost"}
        assert "out of sync" in results["fail"].message
        assert "b" in results["lost"].message
        first = [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
        expected = {
            "ignore": ("id, a, b", [(0, 1, 1), (1, 2, 2), (2, 2, 2), (3, 2, 2)]),
            "append": ("id, a, b, c", [(0, 1, 1, None), (1, 2, 1, 2), (2, 2, 1, 2), (3, 2, None, 2)]),
            "sync": ("id, a, c", [(0, 1, None), (1, 2, 2), (2, 2, 2), (3, 2, 2)]),
            "wider": ("id, a, b", [(0, 1, 1), (1, 5 * 10**9, 2), (2, 5 * 10**9, 2), (3, 5 * 10**9, 2)]),
            "fail": ("id, a, b", first),
            "lost": ("id, a, b", first),
        }
        for name, (columns, rows) in expected.items():
            described = [row[0] for row in project.run_sql(f"describe {{schema}}.{name}", "all")]
            assert ", ".join(described[: described.index("# Clustering Information")]) == columns, name
            assert project.run_sql(f"select * from {{schema}}.{name} order by id", "all") == rows, name


SOURCES = """
sources:
  - name: shop
    schema: "{{ target.schema }}"
    tables:
      - name: people
        loaded_at_field: seen_at
        config:
          freshness: {warn_after: {count: 1, period: day}}
models:
  - name: towns
    description: Where people live
    columns:
      - name: id
        description: The key
        data_tests: [unique, not_null, {relationships: {arguments: {to: ref('people'), field: id}}}]
"""
TOWNS = """
{{ config(materialized='incremental', file_format='delta', incremental_strategy='merge', unique_key='id',
          persist_docs={'columns': true, 'relation': true}) }}
select id, town from {{ ref('people') }}
"""
SEEDS = {"+tblproperties": {"primary-key": "id"}, "+column_types": {"id": "bigint", "seen_at": "timestamp"}}


class TestSeedsTestsAndDocs:
    """A seed with a key, merged into a model; tests, docs, and how fresh its rows are."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": SEEDS}

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        now = datetime.now()
        rows = [f"{id},town {id},{now - timedelta(hours=id + 1)}" for id in range(3)]
        return {"people.csv": "\n".join(["id,town,seen_at", *rows]) + "\n"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"towns.sql": TOWNS, "towns.yml": SOURCES}

    def test_all_of_them(self, project: Any) -> None:
        for full_refresh in ([], [], ["--full-refresh"]):
            results = run_dbt(["build", *full_refresh])
            assert {str(result.status) for result in results} == {"success", "pass"}
            towns = project.run_sql("select * from {schema}.towns order by id", "all")
            assert towns == [(id, f"town {id}") for id in range(3)]
        project.run_sql("update {schema}.people set town = 'moved' where id = 1")
        project.run_sql("delete from {schema}.people where id = 2")
        run_dbt(["run"])
        assert project.run_sql("select town from {schema}.towns where id in (1, 2) order by id", "all") == [
            ("moved",),
            ("town 2",),
        ]
        # A person is gone whose town is still there.
        results = run_dbt(["test"], expect_pass=False)
        assert sorted(str(result.status) for result in results) == ["fail", "pass", "pass"]
        catalog = run_dbt(["docs", "generate"])
        columns = catalog.nodes["model.test.towns"].columns
        assert {name: column.type for name, column in columns.items()} == {"id": "bigint", "town": "string"}
        assert "source.test.shop.people" in catalog.sources
        comments = {row[0]: row[2] for row in project.run_sql("describe {schema}.towns", "all")}
        assert comments["id"] == "The key"
        (fresh,) = run_dbt(["source", "freshness"])
        assert str(fresh.status) == "pass"
        assert 3600 <= fresh.age < 86_400
