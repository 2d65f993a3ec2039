"""The lake: rows of older versions in Iceberg's files, read with the stream as one table; held against a dict."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from catalog_tools import plan
from lake_tools import Table, turns
from pyspark.sql.types import LongType, VariantType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn, DeleteColumn
from pyspark_pravega.catalog.plans.moments import QueryMoment
from pyspark_pravega.catalog.plans.scans import count_rows
from pyspark_pravega.connector.lake import check_kept, iceberg_name, releasing, tiering
from pyspark_pravega.connector.log import open_ledger, take_snapshot, truncate_at
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.stream import StreamSource
from pyspark_pravega.connector.write import OverwritingJob, ReadSet
from pyspark_pravega.errors import PravegaError, SegmentTruncatedError, UnsupportedOperationError, WriteConflictError
from pyspark_pravega.lake import iceberg

pytestmark = pytest.mark.server


class Died(BaseException):
    """The process that tiers has died."""


def die(*_: object, **__: object) -> NoReturn:
    raise Died


def die_behind(call: Any) -> Any:
    def called(*arguments: Any, **named: Any) -> NoReturn:
        call(*arguments, **named)
        raise Died

    return called


STEPS: dict[str, Callable[[], tuple[Any, str, Any]]] = {
    "an id is noted": lambda: (iceberg, "find_table", die),
    "there is an Iceberg table": lambda: (iceberg, "make_table", die_behind(iceberg.make_table)),
    "files are written": lambda: (iceberg.Change, "commit", die),
    "there is a snapshot": lambda: (iceberg.Change, "commit", die_behind(iceberg.Change.commit)),
    "the log knows": lambda: (tiering, "release_tiered", die),
    "events are released": lambda: (releasing, "truncate_at", die),
    "events are removed": lambda: (releasing, "truncate_at", die_behind(truncate_at)),
}
"""Steps of tiering, and what dies then."""


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "6"))))
@pytest.mark.in_turn
def test_random_histories_give_what_a_dict_gives(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each step is followed by all reads that are promised, by SELECT and by pyiceberg alone."""
    dice = random.Random(seed)
    turns(monkeypatch, 50 << seed % 5)
    sizes = {"lake-row-group-size": "1 KiB", "lake-file-size": "4 KiB"} if seed % 3 else {}
    table = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"} if seed % 2 else {}, **sizes)
    table.insert()
    columns = 0
    for _ in range(10):
        step = dice.choice(["insert", "insert", "beside", "tier", "tier", "dies", "overwrite", "scale", "column"])
        if step == "insert":
            table.insert(dice.randrange(1, 40))
        elif step == "tier":
            assert table.tier()[0] == table.state().version
        elif step == "dies":
            with pytest.MonkeyPatch.context() as broken, contextlib.suppress(Died):
                broken.setattr(*STEPS[dice.choice(list(STEPS))]())
                table.tier()
        elif step == "beside":
            table.write_beside()
        elif step == "overwrite" and dice.random() < 0.6:
            table.overwrite(dice.randrange(1, 5))
        elif step == "scale":
            table.scale(dice.randrange(1, 4))
        elif step == "column" and columns < 2:
            table.add_column()
            columns += 1
        table.check()
    table.insert()
    table.tier()
    table.check()


def test_rows_that_take_the_place_of_all_take_that_of_those_in_the_lake(
    catalog: Catalog, scope: str, tmp_path: Path
) -> None:
    table = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    table.insert()
    table.insert()
    table.tier()
    table.overwrite()
    table.check()
    with pytest.raises(SegmentTruncatedError, match="version 3 took the place of all its rows"):
        table.read(table.as_of("2"))
    table.insert()
    table.check()
    assert table.tier()[:2] == [4, 5]
    table.check()
    table.catalog.relations.truncate([scope], "t")
    table.versions[5], table.added[5], table.oldest = [], [], 5
    assert table.read() == []
    assert table.tier()[:2] == [5, 0]
    assert table.iceberg() == (5, table.read()) == (5, [])


PROGRAM = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[1].split(os.pathsep)
import test_lake
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.lake import tier
from pyspark_pravega.lake import LakeConfiguration
from pyspark_pravega.settings import Settings
test_lake.die = lambda *_, **__: os._exit(9)
def die_behind(call):
    def called(*arguments, **named):
        call(*arguments, **named)
        os._exit(9)
    return called
test_lake.die_behind = die_behind
if sys.argv[2] in test_lake.STEPS:
    setattr(*test_lake.STEPS[sys.argv[2]]())
settings = Settings.resolve({"controller-uri": sys.argv[3], "schema-registry-uri": sys.argv[4]}, environ={})
tier(settings, LakeConfiguration.of({"warehouse": sys.argv[6]}), Stream.parse(sys.argv[5]))
"""


def tier_and_die(table: Table, step: str) -> None:
    """In a process of its own, which ends there as if it were killed."""
    settings = table.catalog.settings
    assert settings.schema_registry_uri
    path = ":".join(folder for folder in sys.path if folder)
    places = [settings.controller_uri, settings.schema_registry_uri, table.name, str(table.folder)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, path, step, *places], capture_output=True, text=True)
    assert done.returncode == 9, done.stderr


@pytest.mark.in_turn
def test_a_process_that_is_killed_loses_and_doubles_nothing(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """At each step of tiering; who comes next goes on."""
    table = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    for step in STEPS:
        table.insert(5)
        tier_and_die(table, step)
        table.check()
    table.insert(5)
    report = table.tier()
    table.check()
    assert report == [table.state().version, 5, 1, table.state().version + 1]
    files = table.files
    lake = table.state().lake
    assert lake is not None
    assert lake.snapshot is not None
    known = {Path(file.path).name for file in iceberg.files_of(iceberg.store_of(()), lake.metadata, lake.snapshot)}
    assert known < files, "the one that died with its files written has left some"
    for left in (1, 0):
        assert table.catalog.procedures.call("clean_lake", [table.name, "1 day"]) == [[0, 0]]
        ((cleaned, _),) = table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
        assert (cleaned > 0) == bool(left)
    assert table.files == known
    table.insert()
    table.tier()
    table.check()


def test_of_two_who_tier_at_once_one_does_it(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """The other one has written files, too: it finds the first one's snapshot, and removes them."""
    table = Table(catalog, scope, tmp_path)
    table.insert(5)
    commit, seen = iceberg.Change.commit, []

    with pytest.MonkeyPatch.context() as patched:

        def overtaken(change: Any, *arguments: Any, **named: Any) -> Any:
            patched.setattr(iceberg.Change, "commit", commit)
            seen.append(table.tier())
            return commit(change, *arguments, **named)

        patched.setattr(iceberg.Change, "commit", overtaken)
        assert table.tier() == [1, 0, 0, 1]
    assert seen == [[1, 5, 1, 1]]
    assert len(table.files) == 1
    table.check()


def test_what_cuts_and_subscribers_need_stays_in_the_stream(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    table = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    client, procedures = table.catalog.client, table.catalog.procedures
    for _ in range(4):
        table.insert()
    procedures.call("create_cut", [table.name, "second", "2"])
    assert table.tier() == [4, 12, 1, 3]
    table.check()
    assert table.read(table.as_of("second")) == table.wide(table.versions[2])
    begin = StreamSource(client, [table.stream], ReadOptions()).initial_offset()[table.stream]
    assert begin.lake is not None
    assert (begin.lake.version, begin.lake.last) == (0, 4)
    with pytest.raises(SegmentTruncatedError, match="lies before version 2, where the stream begins"):
        procedures.call("create_cut", [table.name, "first", "1"])
    table.insert()
    procedures.call("create_cut", [table.name, "now", None])
    procedures.call("drop_cut", [table.name, "second"])
    assert table.tier() == [5, 3, 1, 6]
    assert table.read(table.as_of("now")) == table.wide(table.versions[5])
    table.insert()
    table.check()


def test_what_a_table_with_a_lake_refuses(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    table = Table(catalog, scope, tmp_path)
    table.insert()
    table.tier()
    procedures = table.catalog.procedures
    for call in (
        lambda: procedures.call("truncate", [table.name, "1"]),
        lambda: table.set(primary_key="id"),
        lambda: table.alter(AddColumn(column=("_version",), type=LongType())),
        lambda: table.alter(AddColumn(column=("v",), type=VariantType())),
        lambda: table.alter(AddColumn(column=("a.b",), type=LongType())),
        lambda: table.alter(DeleteColumn(column=("name",))),
        lambda: table.read(None, "_encoding_id"),
    ):
        with pytest.raises(PravegaError, match="lake"):
            call()
    assert table.read(None, "id", "_segment", "_offset") != []
    ledger = open_ledger(catalog.client, table.stream)
    assert ledger is not None
    foreign = iceberg.find_table(table.catalog.lake, iceberg_name(table.stream))
    assert foreign is not None
    schema = foreign.change(check_kept(table.catalog.definition(table.stream, age_s=0)))
    schema.commit([], {})
    table.insert()
    with pytest.raises(UnsupportedOperationError, match="was changed by another program"):
        table.tier()
    assert table.read() == table.wide(table.versions[2])


def test_conditions_pass_files_over(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    table = Table(catalog, scope, tmp_path)
    for _ in range(3):
        table.insert(10)
        table.tier()
    equal = Predicate(column="id", comparison="=", values=(15,))
    assert [row[0] for row in table.read(predicates=(equal,))] == list(range(10, 20))
    below = Predicate(column="id", comparison="<=", values=(9,))
    assert [row[0] for row in table.read(predicates=(below,))] == list(range(10))
    assert table.count()[1] == 30


def test_a_cut_that_comes_while_events_are_released_is_kept(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    table = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    for _ in range(3):
        table.insert()
    look = releasing._last_needless
    with pytest.MonkeyPatch.context() as patched:

        def beside(*arguments: Any) -> Any:
            wanted = look(*arguments)
            patched.setattr(releasing, "_last_needless", look)
            table.catalog.procedures.call("create_cut", [table.name, "late", "1"])
            return wanted

        patched.setattr(releasing, "_last_needless", beside)
        assert table.tier() == [3, 9, 1, 2]
    assert table.read(table.as_of("late")) == table.wide(table.versions[1])
    table.check()


def test_rows_that_came_beside_an_overwrite_and_are_in_the_lake_are_a_conflict(
    catalog: Catalog, scope: str, tmp_path: Path
) -> None:
    """Without a lake an overwrite of isolation level snapshot would keep them."""
    table = Table(catalog, scope, tmp_path, **{"isolation-level": "snapshot", "lake-keep-in-stream": "0 ms"})
    table.insert()
    seen = ReadSet.of(take_snapshot(catalog.client, table.stream))
    table.insert()
    table.tier()
    job = OverwritingJob(plan(table.catalog.definition(table.stream, age_s=0)))
    batch = pa.record_batch({"id": pa.array([7], pa.int64()), "name": pa.array(["n7"])})
    with pytest.raises(WriteConflictError):
        job.commit_job([job.write_task(iter([batch]))], seen=[seen])
    job.abort_job([])
    table.check()


def test_a_table_that_is_made_again_leaves_the_iceberg_table_of_the_one_before_alone(
    catalog: Catalog, scope: str, tmp_path: Path
) -> None:
    table = Table(catalog, scope, tmp_path)
    table.insert()
    table.tier()
    before = table.iceberg()
    table.catalog.tables.drop([scope], "t")
    again = Table(catalog, scope, tmp_path)
    again.insert()
    with pytest.raises(UnsupportedOperationError, match="is there already, and isn't that of stream"):
        again.tier()
    again.check()
    assert table.iceberg() == before


def test_a_query_stays_at_its_moment_whatever_is_tiered_meanwhile(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Its later reads, and its counts, are told by what the first one has found."""
    table = Table(catalog, scope, tmp_path)
    table.insert()
    for _ in range(2):
        first = QueryMoment()
        before = table.read(moment=first)
        assert first.news is not None
        table.insert()
        table.tier()
        moment = QueryMoment([first.news])
        assert table.read(moment=moment) == before
        definition = table.catalog.definition(table.stream, age_s=0)
        counted = count_rows(definition, {}, moment)
        assert counted is None or counted[0] == len(before)
        of_versions = QueryMoment()
        last = of_versions.last_version(catalog.client, table.ledger)
        table.insert()
        table.tier()
        assert of_versions.news is not None
        assert table.read(moment=QueryMoment([of_versions.news])) == table.wide(table.versions[last])
    table.check()
