"""Tables with a key whose stream is truncated behind the lake: reads begin with the rows there, and give what Python
knows."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path
from typing import Any

import pytest
from lake_tools import Row
from session_tools import Session
from test_lake import STEPS, Died, tier_and_die
from test_lake_keyed import KEYS, Keyed, sizes_of

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import DeleteColumn
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.catalog.pushdown import narrowed_chains
from pyspark_pravega.connector.lake import releasing
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.read import ChangesRange
from pyspark_pravega.connector.stream.consumption import Subscription
from pyspark_pravega.connector.write import compaction
from pyspark_pravega.errors import PravegaError, SegmentTruncatedError, WriteConflictError
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.in_turn]

CHANGE = "_change_type"


class Truncated(Keyed):
    """One whose stream may be truncated behind the lake."""

    def __init__(self, catalog: Catalog, scope: str, folder: Path, dice: random.Random, **properties: str) -> None:
        super().__init__(catalog, scope, folder, dice, **{"lake-keep-in-stream": "0 ms", **properties})
        self.looks = random.Random(0)
        """Says at which versions checks look."""
        self.replaced: set[int] = set()
        """Versions that took the place of all rows, and are no compactions."""

    def committed(self, changes: dict[int, dict[str, Any] | None], *, replaces: bool = False) -> None:
        super().committed(changes, replaces=replaces)
        if replaces:
            self.replaced.add(self.last)

    def truncate(self) -> None:
        super().truncate()
        self.replaced.add(self.last)

    @property
    def first(self) -> int:
        """The first version that must be told."""
        state = self.state()
        base = state.base
        kept = 0 if base is None or state.lake is None else state.lake.kept
        return max(1, kept, state.replaced_rows)

    def changed(self, first: int, last: int) -> list[Row]:
        """What versions have changed, sorted, as CHANGES tells it: the change of each key by each version."""
        rows = []
        for version in range(first, last + 1):
            before, after = self.rows[version - 1], self.rows[version]
            compacts = self.is_compaction(version)
            for id in before.keys() | after.keys():
                old, new = before.get(id), after.get(id)
                is_same = old is not None and new is not None and old[1] == new[1]
                if is_same if compacts else new is not None and new[0] != version:
                    continue
                kinds = {"delete" if new is None else "update_preimage": old}
                kinds["insert" if old is None else "update_postimage"] = new
                rows += [
                    (version, kind, id, *(row[1].get(name) for name in self.columns[1:]))
                    for kind, row in kinds.items()
                    if row is not None
                ]
        return sorted(rows, key=str)

    def is_compaction(self, version: int) -> bool:
        (commit,) = self.ledger.commits([version])
        return commit.base is not None

    def told(self, first: int, last: int) -> list[Row] | None:
        """What CHANGES tells; None where that is refused."""
        try:
            wanted = ChangesRange(from_version=str(first), to_version=str(last))
            return sorted(self.unsorted(wanted, "_commit_version", CHANGE, *self.columns), key=str)
        except PravegaError as error:
            self.refusal = str(error)
            return None

    def check(self) -> None:
        state, last = self.state(), self.last
        assert state.version == last
        now = self.now()
        assert self.read() == now
        assert self.without_catalog() == now
        assert self.read(None, "name", "id") == sorted((row[1], row[0]) for row in now)
        rows, known = self.count()
        assert rows == len(now)
        assert known in (None, rows)
        first = self.first
        for version in {1, first - 1, first, first + 1, self.looks.randrange(first, last + 1), last} & {
            *range(1, last + 1)
        }:
            with contextlib.suppress(SegmentTruncatedError) if version < first else contextlib.nullcontext():
                assert self.read(self.as_of(str(version))) == self.flat(self.rows[version]), version
        for version in {first, first + 1, self.looks.randrange(1, last + 1)} & {*range(2, last + 1)}:
            told = self.told(version, version)
            if told is None:
                assert version <= first or version in self.replaced, self.refusal
            else:
                assert told == self.changed(version, version), version
        if first < last and not any(version in self.replaced for version in range(first + 1, last + 1)):
            assert self.told(first + 1, last) == self.changed(first + 1, last), self.refusal
        assert len(self.read(None, "_offset", "_segment")) == len(now)


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "6"))))
@pytest.mark.in_turn(8)
def test_random_histories_of_keys_are_told_behind_the_lake(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each step is followed by all reads, of a table whose stream is truncated at once, or two versions later."""
    dice, lags = random.Random(100 + seed), seed % 4 == 0
    sizes = sizes_of(seed, monkeypatch)
    table = Truncated(catalog, scope, tmp_path, dice, **{"lake-keep-in-stream": "1 hour"} if lags else {}, **sizes)
    table.insert(KEYS)

    def an_hour_behind() -> int:
        (commit,) = table.ledger.commits([max(1, table.state().version - 2)])
        return commit.committed_at + 3_600_000

    if lags:
        monkeypatch.setattr(releasing, "now_ms", an_hour_behind)
    columns, cuts = 0, 0
    steps = ["insert", "few", "few", "change", "beside", "tier", "tier", "tier", "tier", "dies", "compact", "overwrite"]
    for _ in range(12):
        step = dice.choice([*steps, "truncate", "scale", "add", "cut", "clean"])
        if step in ("insert", "change", "compact"):
            getattr(table, step)()
        elif step == "few":
            table.insert(3)
        elif step == "beside":
            table.write_beside(4)
        elif step == "tier":
            assert table.tier()[0] == table.last
            assert cuts or lags or table.state().base is not None
        elif step == "dies":
            with pytest.MonkeyPatch.context() as broken, contextlib.suppress(Died):
                broken.setattr(*STEPS[dice.choice(list(STEPS))]())
                table.tier()
        elif step in ("overwrite", "truncate") and dice.random() < 0.4:
            getattr(table, step)()
        elif step == "scale":
            table.scale(dice.randrange(1, 4))
        elif step == "add" and columns < 2:
            table.add_column()
            columns += 1
        elif step == "cut":
            call = table.catalog.procedures.call
            if cuts % 2:
                call("drop_cut", [table.name, f"c{cuts}"])
            else:
                call("create_cut", [table.name, f"c{cuts + 1}", str(table.last)])
            cuts += 1
        elif step == "clean":
            with contextlib.suppress(PravegaError):
                table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
        table.check()
    table.insert()
    assert table.tier()[0] == table.last
    table.check_iceberg()
    table.check()


@pytest.mark.in_turn(8)
def test_a_process_that_is_killed_loses_no_row_of_a_key(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """At each step of tiering; who comes next goes on."""
    table = Truncated(catalog, scope, tmp_path, random.Random(7))
    for step in STEPS:
        table.insert()
        table.change()
        tier_and_die(table, step)
        table.check()
    table.insert()
    assert table.tier()[0] == table.last
    assert table.first == table.last
    table.check()


def test_rows_that_were_waited_for_are_kept(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a table is tiered, versions are told from the first one that was waited for."""
    table = Truncated(catalog, scope, tmp_path, random.Random(3), **{"lake-keep-in-stream": "1 hour"})
    for _ in range(3):
        table.insert()
        assert table.tier()[3] == 1
        table.check()
    lake = table.state().lake
    assert lake is not None
    assert lake.next_base is not None
    assert (lake.next_base.version, table.state().base) == (1, None)
    (second,) = table.ledger.commits([2])
    monkeypatch.setattr(releasing, "now_ms", lambda: second.committed_at + 3_600_000)
    for wanted, waited in ((1, 4), (1, 4)):
        table.insert()
        assert table.tier()[3] == wanted + 1
        lake = table.state().lake
        assert lake is not None
        assert lake.next_base is not None
        assert (lake.kept, lake.next_base.version) == (wanted, waited)
        table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
        table.check()
    (fourth,) = table.ledger.commits([4])
    monkeypatch.setattr(releasing, "now_ms", lambda: fourth.committed_at + 3_600_000)
    table.catalog.procedures.call("create_cut", [table.name, "third", "3"])
    assert table.tier()[3] == 2
    table.catalog.procedures.call("drop_cut", [table.name, "third"])
    table.catalog.procedures.call("create_cut", [table.name, "fourth", "4"])
    assert table.tier()[3] == 5
    table.change()
    table.check()
    assert table.read(table.as_of("fourth")) == table.flat(table.rows[4])
    with pytest.raises(SegmentTruncatedError, match="read version 4, or a later one"):
        table.read(table.as_of("3"))
    with pytest.raises(SegmentTruncatedError, match="read version 4, or a later one"):
        table.catalog.procedures.call("create_cut", [table.name, "second", "2"])
    assert table.told(4, 5) is None
    assert "begin with 5" in table.refusal
    monkeypatch.undo()
    table.tier()
    assert table.first == 4, "the cut needs it"
    table.check()


def test_a_compaction_whose_events_were_removed_meanwhile(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    table = Truncated(catalog, scope, tmp_path, random.Random(3))
    table.insert()
    table.tier()
    table.change()
    replacement = compaction.CompactingJob.replacement

    def beside(job: Any, ledger: Any, state: Any) -> Any:
        patched.setattr(compaction.CompactingJob, "replacement", replacement)
        table.insert()
        table.tier()
        return replacement(job, ledger, table.state())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compaction.CompactingJob, "replacement", beside)
        with pytest.raises(WriteConflictError, match="events that were written meanwhile have been removed"):
            table.compact()
    table.check()
    released = releasing._released_by_key

    def compacts(*given: Any) -> Any:
        patched.setattr(releasing, "_released_by_key", released)
        table.compact()
        return released(*given)

    table.insert()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(releasing, "_released_by_key", compacts)
        table.tier()
    table.check()
    table.tier()
    table.check()


def test_only_what_is_wanted_is_read_of_the_lake(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Of a key the segments that may have it, and row groups by their figures."""
    table = Truncated(catalog, scope, tmp_path, random.Random(3), **{"lake-row-group-size": "1 KiB"})
    for _ in range(6):
        table.insert(KEYS)
    table.scale(4)
    for _ in range(6):
        table.insert(KEYS)
    table.tier()
    table.change()
    all_rows = table.now()
    for id, name, *_ in all_rows[::5]:
        by_key = Predicate(column="id", comparison="=", values=(id,))
        there = table.read(predicates=(by_key,))
        assert (id, name) in there
        assert len(there) < len(all_rows)
        # As a join tells it while the query runs.
        scan = plan_scan(table.catalog.definition(table.stream), ScanRequest(columns=["id", "name"]))
        reader: Any = scan.reader
        left = narrowed_chains(table.catalog.definition(table.stream), reader.partitions(), None, [by_key])
        assert left is not None
        batches = [batch for partition in left[0] for batch in reader.read(partition)]
        assert there == sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())
    names = sorted(name for _, name in all_rows)
    first = Predicate(column="name", comparison="<=", values=(names[0],))
    there = table.read(predicates=(first,))
    assert names[0] in {name for _, name in there}
    assert set(there) <= set(all_rows)


def test_what_a_table_behind_the_lake_refuses(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    table = Truncated(catalog, scope, tmp_path, random.Random(3))
    table.insert()
    table.tier()
    for call in (
        lambda: table.alter(DeleteColumn(column=("name",))),
        lambda: table.read(None, "_event_size"),
    ):
        with pytest.raises(PravegaError, match="lake"):
            call()
    table.check()
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(PravegaError, match="aren't in the lake any more"):
        table.read()


def test_a_transaction_reads_what_it_has_written_behind_the_lake(
    catalog: Catalog, scope: str, tmp_path: Path, settings: Settings
) -> None:
    """Also where it has taken the place of all rows."""
    table = Truncated(catalog, scope, tmp_path, random.Random(3))
    table.insert()
    table.tier()
    table.change()
    ids = [id for id, *_ in table.now()]
    session = Session(settings, scope)
    session.begin()
    session.insert("t", ids[0], 100)
    assert session.read("t") == [*ids, 100]
    assert session.read("t", key=100) == [100]
    session.insert("t", 5, overwrite=True)
    assert session.read("t") == [5]
    session.roll_back()
    assert session.read("t") == ids
    session.begin()
    session.insert("t", 100)
    session.commit()
    assert session.read("t") == [*ids, 100]
    session.end()


def test_what_a_subscriber_hasnt_read_is_told(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Of one who follows CHANGES it is known how far that is; for another one all stays."""
    table = Truncated(catalog, scope, tmp_path, random.Random(3))
    table.insert()
    client, holders = table.catalog.client, table.ledger.holders()
    subscriber = Subscription(client, "mail", (table.stream,)).of(table.stream)
    assert table.tier()[3] == 1
    for version, kept_from in ((1, 2), (1, 2), (3, 3), (4, 5), (5, 6)):
        holders.note_subscriber(subscriber, version)
        table.insert()
        assert table.tier()[3] == kept_from, version
        table.check()
        assert table.told(version + 1, table.last) == table.changed(version + 1, table.last), table.refusal
