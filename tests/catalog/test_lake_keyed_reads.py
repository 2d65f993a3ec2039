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
from test_lake import STEPS, Died, tier_and_die
from test_lake_keyed import Keyed

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.connector.read import ChangesRange
from pyspark_pravega.errors import PravegaError, SegmentTruncatedError

pytestmark = pytest.mark.server

CHANGE = "_change_type"


class Truncated(Keyed):
    """One whose stream may be truncated behind the lake."""

    def __init__(self, *given: Any, **properties: str) -> None:
        super().__init__(*given, **{"lake-keep-in-stream": "0 ms", **properties})
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
        for version in range(1, last + 1):
            with contextlib.suppress(SegmentTruncatedError) if version < first else contextlib.nullcontext():
                assert self.read(self.as_of(str(version))) == self.flat(self.rows[version]), version
        for version in range(2, last + 1):
            told = self.told(version, version)
            if told is None:
                assert version <= first or version in self.replaced, self.refusal
            else:
                assert told == self.changed(version, version), version
        if first < last and not any(version in self.replaced for version in range(first + 1, last + 1)):
            assert self.told(first + 1, last) == self.changed(first + 1, last), self.refusal
        for name in ("id", "_offset", "_segment"):
            assert len(self.read(None, name)) == len(now)


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "6"))))
@pytest.mark.in_turn
def test_random_histories_of_keys_are_told_behind_the_lake(
    catalog: Catalog, scope: str, tmp_path: Path, seed: int
) -> None:
    """Each step is followed by all reads, of a table whose stream is truncated at once."""
    dice = random.Random(100 + seed)
    sizes = {"lake-row-group-size": "1 KiB", "lake-file-size": "4 KiB"} if seed % 2 else {}
    table = Truncated(catalog, scope, tmp_path, dice, **sizes)
    table.insert()
    columns, cuts = 0, 0
    steps = ["insert", "change", "change", "beside", "tier", "tier", "tier", "dies", "compact", "overwrite", "truncate"]
    for _ in range(12):
        step = dice.choice([*steps, "scale", "add", "cut", "clean"])
        if step in ("insert", "change", "compact"):
            getattr(table, step)()
        elif step == "beside":
            table.write_beside()
        elif step == "tier":
            assert table.tier()[0] == table.last
            assert cuts or table.state().base is not None
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


@pytest.mark.in_turn
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
