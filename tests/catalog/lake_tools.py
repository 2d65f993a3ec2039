"""Tables with a lake, without Spark, and what a Python dict says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from catalog_tools import COLUMNS, insert, make, plan, write
from pyiceberg.catalog import load_catalog
from pyspark.sql.types import LongType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn, SetProperty, TableChange
from pyspark_pravega.catalog.plans.scans import ScanRequest, count_rows, plan_scan
from pyspark_pravega.catalog.process.pickles import pickle, unpickle
from pyspark_pravega.client import Stream
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.connector.lake import iceberg_name, pieces, tier
from pyspark_pravega.connector.log import Ledger, State, open_ledger
from pyspark_pravega.connector.log import ledger as ledgers
from pyspark_pravega.connector.option_names import AT_LEAST_ONCE
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import ChangesRange, Moment, moment_at, moment_of
from pyspark_pravega.connector.stream import SnapshotReader
from pyspark_pravega.connector.write import OverwritingJob, WriteJob, WritePlan
from pyspark_pravega.errors import PravegaError

Row = tuple[Any, ...]


def turns(patch: pytest.MonkeyPatch, size: int) -> None:
    """Let tiering read so few bytes of a segment before another one has its turn."""
    patch.setattr(pieces, "_MOST_BYTES", size)


def forgets(patch: pytest.MonkeyPatch, versions: int) -> None:
    """Let commit logs keep so many versions only."""
    patch.setattr(ledgers, "KEPT_VERSIONS", versions)
    patch.setattr(ledgers, "_SWEEP_EVERY", 1)


class Table:
    """A table with a lake, and what each of its versions holds, as Python knows it."""

    where: Mapping[str, str] = {}
    """A catalog's `lake.*`; without them the lake is in the folder."""

    def __init__(self, catalog: Catalog, scope: str, folder: Path, table: str = "t", **properties: str) -> None:
        """Make it, with two segments and columns `id` and `name`."""
        self.folder, self.properties = folder, {"lake": "iceberg", **properties}
        self.catalog = Catalog(catalog.settings, self.where or {"warehouse": str(folder)})
        given = self.properties if self.properties["lake"] else {}
        self.stream: Stream = make(self.catalog, scope, table, segments=2, **given)
        self.columns = COLUMNS.fieldNames()
        self.versions: dict[int, list[Row]] = {0: []}
        self.added: dict[int, list[Row]] = {}
        self.oldest = 1
        """The first version that can be read still: others have taken the place of those before."""
        self.loose: list[Row] = []
        """Rows that are no version's yet."""
        self._next = 0
        self.refusal = ""
        self.has_died = False
        """Whether the last call of `tier` has died, so that Iceberg may know of more than the log."""

    @property
    def name(self) -> str:
        """For procedures."""
        return str(self.stream)

    def alone(self) -> dict[str, str]:
        """How pyiceberg alone finds the lake."""
        return {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": self.folder.as_uri()}

    @property
    def files(self) -> set[str]:
        """The names of all files with rows."""
        return {path.name for path in self.folder.joinpath(*iceberg_name(self.stream), "data").iterdir()}

    @property
    def ledger(self) -> Ledger:
        """The commit log."""
        ledger = open_ledger(self.catalog.client, self.stream)
        assert ledger is not None
        return ledger

    def state(self) -> State:
        """The commit log's."""
        return self.ledger.state()

    def insert(self, rows: int = 3) -> None:
        """Commit some rows."""
        self._write(rows, replaces=False)

    def overwrite(self, rows: int = 2) -> None:
        """Commit some rows that take the place of all."""
        self._write(rows, replaces=True)

    def write_beside(self, rows: int = 3) -> None:
        """Write rows without a commit, as others do: they belong to the next version."""
        ids, more = self._rows(rows)
        options = WriteOptions(writer_mode=AT_LEAST_ONCE)
        write(WriteJob(WritePlan.of(self.catalog.definition(self.stream, age_s=0), options)), *ids, **more)
        self.loose += self._known(ids)

    def _rows(self, rows: int) -> tuple[list[int], dict[str, list[int]]]:
        ids = list(range(self._next, self._next + rows))
        self._next += rows
        return ids, {name: [10 * number for number in ids] for name in self.columns[2:]}

    def _known(self, ids: Sequence[int]) -> list[Row]:
        return [(number, f"n{number}", *(10 * number for _ in self.columns[2:])) for number in ids]

    def _write(self, rows: int, *, replaces: bool) -> None:
        ids, more = self._rows(rows)
        if replaces:
            definition = self.catalog.definition(self.stream, age_s=0)
            write(OverwritingJob(plan(definition)), *ids, **more)
        else:
            insert(self.catalog, self.stream, *ids, **more)
        last = max(self.versions)
        new = self._known(ids)
        self.added[last + 1] = [*self.loose, *new]
        self.versions[last + 1] = new if replaces else [*self.versions[last], *self.loose, *new]
        self.loose = []
        self.oldest = last + 1 if replaces else self.oldest

    def add_column(self) -> None:
        """Add one of numbers."""
        name = f"c{len(self.columns)}"
        self.alter(AddColumn(column=(name,), type=LongType()))
        self.columns.append(name)

    def alter(self, *changes: TableChange) -> None:
        """Change it."""
        self.catalog.altering.alter([self.stream.scope], self.stream.name, changes)

    def set(self, **properties: str) -> None:
        """Set properties."""
        changes = [SetProperty(property=name.replace("_", "-"), value=text) for name, text in properties.items()]
        self.alter(*changes)

    def scale(self, segments: int) -> None:
        """Give the stream another number of segments."""
        self.catalog.procedures.call("scale", [self.name, segments])

    def tier(self) -> list[Any]:
        """Tier in this process, where steps can be made to fail; gives what `CALL tier` tells."""
        self.has_died = True
        done = tier(self.catalog.settings, self.catalog.lake, self.stream)
        self.has_died = False
        return [done.version, done.rows, done.files, done.kept_from]

    def as_of(self, version: str) -> Moment:
        """A moment of it."""
        return moment_of(self.catalog.client, self.stream, version)

    def read(self, position: Moment | ChangesRange | None = None, *columns: str, **request: Any) -> list[Row]:
        """Rows, sorted, as a SELECT reads them."""
        return sorted(self.unsorted(position, *columns, **request))

    def unsorted(self, position: Moment | ChangesRange | None = None, *columns: str, **request: Any) -> list[Row]:
        """Rows as a SELECT reads them."""
        definition = self.catalog.definition(self.stream, age_s=0)
        wanted = columns or self.columns
        scan = plan_scan(definition, ScanRequest(columns=wanted, position=position, **request))
        # As tasks do it, in other processes.
        partitions = [unpickle(pickle(partition)) for partition in scan.reader.partitions()]
        reader = unpickle(pickle(scan.reader))
        batches = [batch for partition in partitions for batch in reader.read(partition)]
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    def without_catalog(self) -> list[Row]:
        """Rows, sorted, as `format("pravega")` reads them."""
        definition = self.catalog.definition(self.stream, age_s=0)
        reader = SnapshotReader([definition], self.columns, ReadOptions())
        partitions = [unpickle(pickle(partition)) for partition in reader.partitions()]
        tasks = unpickle(pickle(reader))
        return sorted(
            tuple(row.values())
            for partition in partitions
            for batch in tasks.read(partition)
            for row in batch.to_pylist()
        )

    def between(self, begin: Mapping[int, int], end: Mapping[int, int]) -> list[Row]:
        """Rows between two cuts, sorted."""
        cuts = [proper_cut(self.catalog.client, self.stream, cut).to_json() for cut in (begin, end)]
        return self.read(options=dict(zip(("startStreamCut", "endStreamCut"), cuts, strict=True)))

    def changes(self, first: int, last: int | None = None) -> list[Row] | None:
        """The rows that versions have added; None where that is refused."""
        try:
            return self.read(ChangesRange(from_version=str(first), to_version=str(last or first)))
        except PravegaError as error:
            self.refusal = str(error)
            return None

    def count(self, position: Moment | None = None) -> tuple[int, int | None]:
        """How many rows, by reading none of their columns, and by what is known without that."""
        definition = self.catalog.definition(self.stream, age_s=0)
        scan = plan_scan(definition, ScanRequest(columns=(), position=position))
        reader: Any = scan.reader
        rows: int = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
        known = count_rows(definition, {}, None, position)
        return rows, None if known is None else known[0]

    def wide(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with all columns that there are by now, sorted."""
        return sorted((*row, *[None] * (len(self.columns) - len(row))) for row in rows)

    def iceberg(self) -> tuple[int, list[Row]]:
        """What pyiceberg alone reads: up to which version that is by its own word, and the rows, sorted."""
        table = load_catalog("pravega", type="sql", **self.alone()).load_table(iceberg_name(self.stream))
        names = [name for name in self.columns if name in table.schema().column_names]
        rows = table.scan(selected_fields=tuple(names)).to_arrow().select(names).to_pylist()
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        version = snapshot.summary.additional_properties["pravega.version"]
        return int(version), self.wide([tuple(row.values()) for row in rows])

    def check(self) -> None:
        """Hold every read that is promised against what Python knows."""
        state, last = self.state(), max(self.versions)
        assert state.version == last
        now = self.wide([*self.versions[last], *self.loose])
        assert self.read() == now
        assert self.read(None, "name", "id") == sorted((name, id) for id, name, *_ in now)
        rows, known = self.count()
        assert rows == len(now)
        assert known in (None, rows)
        oldest_commit = self.ledger.first_commit()
        oldest = max(self.oldest, 1 if oldest_commit is None else oldest_commit.version)
        for version in range(oldest, last + 1):
            moment = self.as_of(str(version))
            assert self.read(moment) == self.wide(self.versions[version]), version
            (commit,) = self.ledger.commits([version])
            at = moment_at(self.catalog.client, self.stream, commit.committed_at * 1000)
            assert at == moment or not at.name.startswith("version")
            rows, known = self.count(moment)
            assert rows == len(self.versions[version])
            assert known in (None, rows)
        lake = state.lake
        if lake is not None and lake.version:
            version, there = self.iceberg()
            assert there == self.wide(self.versions[version])
            assert version == lake.version or self.has_died
        assert self.without_catalog() == now
        for version in range(oldest, last + 1):
            told = self.changes(version)
            added = self.wide(self.added[version])
            # What others had written before the version that replaced all rows is nowhere any more; and where the
            # first version that is known has begun, only the one before would tell.
            assert told == added or (told is None and version == oldest > 1), self.refusal
        first = oldest + (oldest > 1)
        if first <= last:
            added = self.wide([row for version in range(first, last + 1) for row in self.added[version]])
            assert self.changes(first, last) == added, self.refusal
            cuts = {commit.version: commit.cut for commit in self.ledger.commits(range(first, last + 1))}
            for begin, end in ((first, last), (first, (first + last) // 2), ((first + last) // 2, last)):
                some = [row for version in range(begin + 1, end + 1) for row in self.added[version]]
                assert self.between(cuts[begin], cuts[end]) == self.wide(some), (begin, end)
