"""Tables with a key in the lake: the Iceberg table has their rows as of a version, and nothing else of them changes."""

from __future__ import annotations

import contextlib
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from catalog_tools import COLUMNS
from lake_tools import Row, Table
from pyiceberg.catalog import load_catalog
from pyspark.sql.types import VariantType
from test_lake import STEPS, Died, tier_and_die

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn, DeleteColumn, RemoveProperty, SetProperty
from pyspark_pravega.connector.lake import iceberg_name, rewriting, tiering
from pyspark_pravega.connector.option_names import AT_LEAST_ONCE
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table import DELETED, ChangeCodec
from pyspark_pravega.connector.write import ROW_OPERATION, DeltaJob, OverwritingJob, WriteJob, WritePlan, compact
from pyspark_pravega.errors import ConfigurationError, PravegaError, SegmentTruncatedError

pytestmark = [pytest.mark.server, pytest.mark.in_turn]

KEYS = 40
DELETES, UPDATES = 1, 3
"""What a row of `DeltaJob` is: Spark's own numbers."""
Rows = dict[int, tuple[int, dict[str, Any]]]
"""By key: the version that has written the row last, and its columns."""


class Keyed(Table):
    """A table with a key and a lake, and its rows at each version, as Python knows them."""

    def __init__(self, catalog: Catalog, scope: str, folder: Path, dice: random.Random, **properties: str) -> None:
        super().__init__(catalog, scope, folder, primary_key="id", **properties)
        self.dice = dice
        self.beside: dict[int, dict[str, Any]] = {}
        """Rows that are no version's yet."""
        self.rows: dict[int, Rows] = {0: {}}

    @classmethod
    def of(cls, table: Table, dice: random.Random) -> Keyed:
        """One that another one has just become."""
        keyed = cls.__new__(cls)
        vars(keyed).update(vars(table))
        keyed.dice, keyed.beside, keyed.rows = dice, {}, {table.state().version: {}}
        return keyed

    @property
    def last(self) -> int:
        """The last version."""
        return max(self.rows)

    def plan(self, *, tells: bool = True, **options: Any) -> WritePlan:
        """How to write."""
        plan = WritePlan.of(self.catalog.definition(self.stream, age_s=0), WriteOptions(**options))
        assert isinstance(plan.codec, ChangeCodec)
        return replace(plan, codec=plan.codec.telling()) if tells else plan

    def batch(self, rows: dict[int, dict[str, Any]], **more: list[Any]) -> pa.RecordBatch:
        """Rows as a task has them."""
        columns: dict[str, Any] = {"id": pa.array(list(rows), pa.int64())}
        for name in self.columns[1:]:
            kind = pa.string() if name == "name" else pa.int64()
            columns[name] = pa.array([row.get(name) for row in rows.values()], kind)
        return pa.record_batch({**columns, **{name: pa.array(values) for name, values in more.items()}})

    def some(self, most: int) -> dict[int, dict[str, Any]]:
        """New rows, of keys that may be there."""
        ids = self.dice.sample(range(KEYS), self.dice.randrange(1, most))
        self._next += 1
        return {id: {name: self._value(name, id) for name in self.columns[1:]} for id in ids}

    def _value(self, name: str, id: int) -> Any:
        return f"n{id}.{self._next}" if name == "name" else 1000 * self._next + id

    def committed(self, changes: dict[int, dict[str, Any] | None], *, replaces: bool = False) -> None:
        """Note what a version has changed: rows that are no more are None."""
        version, before = self.last + 1, {} if replaces else dict(self.rows[self.last])
        for id, row in {**({} if replaces else self.beside), **changes}.items():
            if row is None:
                before.pop(id, None)
            else:
                before[id] = version, row
        self.rows[version], self.beside = before, {}

    def insert(self, rows: int = 12) -> None:
        """Rows of some keys, and deletions of others."""
        changes: dict[int, Any] = self.some(rows)
        batch = self.batch(changes, **{DELETED: [self.dice.random() < 0.3 for _ in changes]})
        changes = {
            id: None if gone else row
            for (id, row), gone in zip(changes.items(), batch.column(DELETED).to_pylist(), strict=True)
        }
        job = WriteJob(self.plan())
        job.commit_job([job.write_partition(0, iter([batch]))])
        self.committed(changes)

    def change(self) -> None:
        """UPDATE, DELETE or MERGE: rows that are there are deleted, and some of them inserted again."""
        there = sorted(self.rows[self.last].keys() - self.beside.keys())
        if not there or self.beside:
            return
        ids = self.dice.sample(there, self.dice.randrange(1, len(there) + 1))
        self._next += 1
        lines, changes = [], {}
        for id in ids:
            new = {name: self._value(name, id) for name in self.columns[1:]} if self.dice.random() < 0.6 else None
            changes[id] = new
            lines.append((id, self.rows[self.last][id][1], DELETES))
            lines += [] if new is None else [(id, new, UPDATES)]
        batches = [self.batch({id: row}, **{ROW_OPERATION: [kind]}) for id, row, kind in lines]
        job = DeltaJob(self.plan(tells=False))
        job.commit_job([job.write_partition(0, iter([pa.concat_batches(batches)]))])
        self.committed(changes)

    def overwrite(self, rows: int = 12) -> None:
        """Rows that take the place of all."""
        changes = self.some(rows)
        job = OverwritingJob(self.plan(tells=False))
        job.commit_job([job.write_partition(0, iter([self.batch(changes)]))])
        self.committed(dict(changes), replaces=True)

    def write_beside(self, rows: int = 6) -> None:
        """Rows without a commit: they belong to the next version."""
        changes = self.some(rows)
        job = WriteJob(self.plan(tells=False, writer_mode=AT_LEAST_ONCE))
        job.commit_job([job.write_partition(0, iter([self.batch(changes)]))])
        self.beside |= changes

    def compact(self) -> None:
        """Write all rows once more."""
        compact(self.catalog.settings, self.stream, one_more=self.dice.random() < 0.7)
        now = {**self.rows[self.last], **{id: (0, row) for id, row in self.beside.items()}}
        self.beside = {}
        self.rows[self.last + 1] = {id: (self.last + 1, row) for id, (_, row) in now.items()}

    def truncate(self) -> None:
        """Remove all rows."""
        self.catalog.relations.truncate([self.stream.scope], self.stream.name)
        self.committed({}, replaces=True)

    def drop_column(self) -> None:
        """Drop the last one."""
        self.alter(DeleteColumn(column=(self.columns[-1],)))
        for rows in self.rows.values():
            for _, row in rows.values():
                row.pop(self.columns[-1], None)
        for row in self.beside.values():
            row.pop(self.columns[-1], None)
        self.columns.pop()

    def flat(self, rows: Rows) -> list[Row]:
        """Rows as a query gives them, sorted."""
        return sorted((id, *(row.get(name) for name in self.columns[1:])) for id, (_, row) in rows.items())

    def now(self) -> list[Row]:
        """Rows as a query gives them now."""
        return self.flat({**self.rows[self.last], **{id: (0, row) for id, row in self.beside.items()}})

    def iceberg_rows(self, *names: str) -> tuple[int, list[Row]]:
        """What pyiceberg alone reads: of which version, and the rows, sorted."""
        table = load_catalog("pravega", type="sql", **self.alone()).load_table(iceberg_name(self.stream))
        rows = table.scan(selected_fields=names).to_arrow().select(names).to_pylist()
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        version = snapshot.summary.additional_properties["pravega.version"]
        return int(version), sorted(tuple(row.values()) for row in rows)

    def check(self) -> None:
        """Hold every read that is promised against what Python knows."""
        state = self.state()
        assert state.version == self.last
        assert state.tiered is None
        assert self.read() == self.now()
        rows, known = self.count()
        assert rows == len(self.now())
        assert known in (None, rows)
        for version in range(max(1, min(self.rows)), self.last + 1):
            try:
                there = self.read(self.as_of(str(version)))
            except SegmentTruncatedError:
                assert version < state.replaced_rows
                continue
            assert there == self.flat(self.rows[version]), version
        for name in ("id", "_offset"):
            # Columns of the events.
            assert len(self.read(None, name)) == len(self.now())

    def check_iceberg(self) -> int:
        """Hold what other engines read against what Python knows; gives the version."""
        lake = self.state().lake
        assert lake is not None
        version, written = self.iceberg_rows("id", "_version")
        assert version == lake.version
        rows = self.rows[version]
        assert written == sorted((id, by) for id, (by, _) in rows.items())
        assert lake.rows == len(rows)
        return version


def sizes_of(seed: int, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Files of all rows, or of few: then most stay when some keys change, and those that become small are put
    together."""
    patch.setattr(rewriting, "_MOST_SMALL", 3)
    size = (None, "300 B", "1 KiB")[seed % 3]
    return {} if size is None else {"lake-row-group-size": "200 B", "lake-file-size": size}


def become(table: Table, **properties: str) -> None:
    """CREATE OR REPLACE TABLE."""
    given = {"lake": "iceberg", **{name.replace("_", "-"): text for name, text in properties.items()}}
    where = [table.stream.scope], table.stream.name
    _, staged = table.catalog.replacing.stage(*where, COLUMNS, [], given, create=True, replace=True)
    table.catalog.replacing.commit(staged, written=False)


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "6"))))
@pytest.mark.in_turn(8)
def test_random_histories_of_keys_give_what_a_dict_gives(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each step is followed by SELECT, AS OF each version, and by what pyiceberg alone reads."""
    dice = random.Random(seed)
    table = Keyed(catalog, scope, tmp_path, dice, **sizes_of(seed, monkeypatch))
    table.insert(KEYS)
    steps = [
        "insert",
        "few",
        "few",
        "change",
        "beside",
        "tier",
        "tier",
        "tier",
        "dies",
        "compact",
        "overwrite",
        "truncate",
    ]
    for _ in range(14):
        step = dice.choice([*steps, "scale", "add", "drop"])
        if step in ("insert", "change", "compact"):
            getattr(table, step)()
        elif step == "few":
            table.insert(3)
        elif step == "beside":
            table.write_beside(4)
        elif step == "tier":
            lake = table.state().lake
            if lake is not None and lake.version == table.last:
                table.insert(3)
            report = table.tier()
            assert report[0] == table.last
            version, rows = table.iceberg_rows(*table.columns)
            assert (version, rows) == (table.last, table.flat(table.rows[table.last]))
            assert report[3] == max(1, table.state().replaced_rows)
        elif step == "dies":
            with pytest.MonkeyPatch.context() as broken, contextlib.suppress(Died):
                broken.setattr(*STEPS[dice.choice(list(STEPS)[:-2])]())
                table.tier()
        elif step in ("overwrite", "truncate") and dice.random() < 0.4:
            getattr(table, step)()
        elif step == "scale":
            table.scale(dice.randrange(1, 4))
        elif step == "add" and len(table.columns) < 4:
            table.add_column()
        elif step == "drop" and len(table.columns) > 2:
            table.drop_column()
        table.check()
        lake = table.state().lake
        if lake is not None and lake.version and not table.has_died:
            table.check_iceberg()
    table.insert()
    assert table.tier()[0] == table.last
    assert table.check_iceberg() == table.last
    table.check()


@pytest.mark.in_turn(8)
def test_a_process_that_is_killed_leaves_a_table_of_one_version(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """At each step of tiering; who comes next goes on."""
    table = Keyed(catalog, scope, tmp_path, random.Random(7))
    for step in list(STEPS)[:-2]:
        table.insert()
        tier_and_die(table, step)
        table.check()
    table.insert()
    assert table.tier() == [table.last, len(table.rows[table.last]), 1, 1]
    assert table.check_iceberg() == table.last
    assert table.catalog.procedures.call("clean_lake", [table.name, "1 day"]) == [[0, 0]]
    table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
    assert len(table.files) == 1
    table.check_iceberg()


def test_older_snapshots_go(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Each holds all rows; but the last one stays, and so does one that a tag names."""
    table = Keyed(catalog, scope, tmp_path, random.Random(3))
    for _ in range(4):
        table.insert()
        table.tier()
    uri = f"sqlite:///{tmp_path}/catalog.db"
    there = load_catalog("pravega", type="sql", uri=uri, warehouse=tmp_path.as_uri()).load_table(
        iceberg_name(table.stream)
    )
    tagged = there.history()[1].snapshot_id
    there.manage_snapshots().create_tag(tagged, "kept").commit()
    assert len(table.files) == 4
    assert table.catalog.procedures.call("clean_lake", [table.name, "1 day"]) == [[0, 0]]
    with pytest.MonkeyPatch.context() as broken, contextlib.suppress(Died):
        broken.setattr(*STEPS["there is a snapshot"]())
        table.insert()
        table.tier()
    table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
    assert len(table.files) == 5, "what the log knows is the last but one"
    table.tier()
    ((files, size),) = table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
    assert files > 3
    assert size > 0
    assert len(table.files) == 2
    assert there.refresh().snapshots()[0].snapshot_id == tagged
    assert there.scan(snapshot_id=tagged).to_arrow().num_rows == len(table.rows[2])
    table.check_iceberg()
    table.insert()
    table.tier()
    table.check_iceberg()
    table.check()


def test_a_table_gets_a_key_and_loses_it(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """A table of another kind takes the place of one: what lies in the lake follows, and reads take what is theirs."""
    plain = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    plain.insert()
    plain.tier()
    with pytest.raises(PravegaError, match="lake"):
        plain.alter(RemoveProperty(property="lake-keep-in-stream"), SetProperty(property="primary-key", value="id"))
    for turn in range(2):
        become(plain, primary_key="id")
        keyed = Keyed.of(plain, random.Random(turn))
        keyed.insert()
        keyed.check()
        keyed.tier()
        keyed.check_iceberg()
        keyed.change()
        keyed.tier()
        keyed.check()
        keyed.check_iceberg()
        become(plain)
        last = plain.state().version
        plain.versions = {version: keyed.flat(rows) for version, rows in keyed.rows.items()} | {last: []}
        plain.added, plain.oldest = {last: []}, last
        plain.insert()
        plain.check()
        plain.tier()
        plain.insert()
        plain.tier()
        plain.check()


def test_what_a_table_with_a_key_and_a_lake_refuses(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match='"lake-after" goes with tables without a primary key'):
        Keyed(catalog, scope, tmp_path, random.Random(), **{"lake-after": "1 hour"})
    table = Keyed(catalog, scope, tmp_path, random.Random())
    table.insert()
    table.tier()
    with pytest.raises(ConfigurationError, match="goes with tables without a primary key"):
        table.set(lake_after="1 hour")
    table.alter(AddColumn(column=("v",), type=VariantType()))
    with pytest.raises(PravegaError, match='column "v"'):
        table.tier()
    table.alter(DeleteColumn(column=("v",)))
    table.insert()
    table.tier()
    table.check_iceberg()


def test_a_table_that_gets_a_key_while_it_is_tiered(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Who tiers it then begins again: events aren't rows any more."""
    plain = Table(catalog, scope, tmp_path)
    plain.insert()
    settled, keyed = tiering._Tiering._settled, []
    with pytest.MonkeyPatch.context() as patched:

        def beside(one: Any) -> Any:
            patched.setattr(tiering._Tiering, "_settled", settled)
            become(plain, primary_key="id")
            keyed.append(Keyed.of(plain, random.Random(5)))
            for _ in range(3):
                keyed[0].insert()
            return settled(one)

        patched.setattr(tiering._Tiering, "_settled", beside)
        plain.tier()
    keyed[0].check()
    assert keyed[0].check_iceberg() == keyed[0].last
