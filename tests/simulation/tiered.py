"""Histories of a table with a lake: rows go there, and are truncated behind that, beside all that happens to a table.

Files, and Iceberg's tables, are a model; steps of tiering are the product's. Iceberg's commit is one step, conditional,
and its answer may be lost. Reads take the lake's rows from the snapshot that the commit log names.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import tables
from cluster_model import ROWS, STREAM
from history import UnexplainedError, content_of
from model_patches import simulation_client
from pyspark.sql.types import LongType, StructField, StructType
from simulation import History
from world import Profile, World

from pyspark_pravega.client import SegmentPart
from pyspark_pravega.connector.lake import behind_lake, releasing, tiering
from pyspark_pravega.connector.lake.versions import versioned
from pyspark_pravega.connector.log import Commit, Snapshot, State
from pyspark_pravega.connector.read import versions
from pyspark_pravega.errors import ConflictError, DataLossError, PravegaError
from pyspark_pravega.lake import LakeSnapshot

TIERED = 7_000_000
"""Histories of seeds from this one on are of a table with a lake."""
_SCHEMA = StructType([StructField("event", LongType())])
_COLUMNS = pa.schema([("event", pa.int64())])


@dataclass(kw_only=True)
class FilesModel:
    """In place of a `FileWriter`."""

    paths: list[FilesModel] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    lanes: tuple[int, ...] = ()
    partitions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.events)

    def write(self, batch: pa.RecordBatch, _: int) -> None:
        self.paths = [self]
        self.events += batch.column(0).to_pylist()

    def close(self) -> None: ...

    def settle(self) -> None: ...

    def discard(self) -> None: ...


class IcebergModel:
    """In place of `pyspark_pravega.lake.iceberg`: one table, whose snapshots stay."""

    retries = False
    """Whether a commit that another one has come before is made all the same, as pyiceberg does it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.properties: Mapping[str, str] | None = None
        self.snapshots: dict[int, LakeSnapshot] = {}
        self.events: dict[int, list[int]] = {}
        self.current: int | None = None

    def find_table(self, *_: Any) -> TableView | None:
        """The table as it is now."""
        return self.world.call("Iceberg's table", lambda: None if self.properties is None else TableView(self))

    def make_table(self, configuration: Any, name: Any, columns: Any, properties: Mapping[str, str]) -> TableView:
        """Make it, if it isn't there."""

        def make() -> TableView:
            self.properties = self.properties or properties
            return TableView(self)

        return self.world.call("Iceberg's new table", make)

    def snapshot_at(self, _: Any, metadata: str, snapshot: int) -> LakeSnapshot:
        """What a snapshot says."""
        return self.snapshots[snapshot]

    def commit(
        self, base: int | None, files: Sequence[FilesModel], properties: Mapping[str, str], *, replaces: bool
    ) -> LakeSnapshot:
        """Make a snapshot, if the table's last one is still that."""

        def commit() -> LakeSnapshot | None:
            if self.current != base and not self.retries:
                return None
            before = [] if replaces or self.current is None else self.events[self.current]
            id = len(self.snapshots) + 1
            self.events[id] = [*before, *(event for one in files for event in one.events)]
            self.snapshots[id] = LakeSnapshot(
                id=id, parent=self.current, properties=properties, metadata="", rows=len(self.events[id])
            )
            self.current = id
            return self.snapshots[id]

        made = self.world.call("Iceberg's commit", commit, once=True)
        if made is None:
            raise ConflictError("another one was made")
        return made


class TableView:
    """In place of an `IcebergTable` and of a `Change`: the table as it was when it was looked at."""

    store, folder, location, name, schema = None, "", "", "orders", _COLUMNS
    _replaces = False

    def __init__(self, model: IcebergModel) -> None:
        assert model.properties is not None
        self._model, self.properties = model, model.properties
        self.snapshot = None if model.current is None else model.snapshots[model.current]

    def columns(self) -> list[str]:
        return []

    def change(self, _: Any, __: Any, *, replaces: bool, gone: Any = None, exact: Sequence[str] = ()) -> TableView:
        # Tables here have no key.
        assert gone is None
        assert not exact
        self._replaces = replaces
        return self

    def commit(self, files: Sequence[FilesModel], properties: Mapping[str, str], _: Any) -> LakeSnapshot:
        base = None if self.snapshot is None else self.snapshot.id
        return self._model.commit(base, files, properties, replaces=self._replaces)


class TieredHistory(History):
    """One seed's. A streaming query would read files, which are a model."""

    is_streamed = False

    def __init__(self, seed: int, profile: Profile | None = None) -> None:
        super().__init__(seed, profile)
        self.iceberg = IcebergModel(self.world)
        self.is_tiered = False
        controller: Any = self.cluster.controller
        controller.subscribers = lambda *_: []

    def run(self) -> None:
        """See `History.run`."""
        with _tiered(self):
            super().run()

    def _take_part(self) -> None:
        super()._take_part()
        rng = self.world.rng
        for number in range(rng.choice((1, 2, 2))):
            self.world.add(f"tiering {number}", partial(self._tier, rng.choice((1, 2, 3))))

    def _tier(self, times: int) -> None:
        for _ in range(times):
            with contextlib.suppress(PravegaError):
                nothing: Any = None
                tiering.tier(nothing, nothing, STREAM)

    def _read(self, name: str, looks: int) -> None:
        if name == "the end":
            self._tier(2)
        super()._read(name, looks)
        if name == "the end":
            self.is_tiered = tables.open_log(self.cluster).state().tiered is not None

    def _whole(self, taken: Snapshot) -> tuple[Snapshot, list[int]]:
        whole = behind_lake(taken)
        if whole.lake is None:
            return whole, []
        assert whole.lake.tiered.snapshot is not None
        return whole, self.iceberg.events[whole.lake.tiered.snapshot]

    def _judge(self) -> None:
        super()._judge()
        if self.is_tiered:
            assert self.iceberg.current is not None
            events = [divmod(event, ROWS) for event in self.iceberg.events[self.iceberg.current]]
            if content_of(events, self.operations) != self.operations[-1].seen:
                raise UnexplainedError("Iceberg's table has other rows than the table")


def _batches(history: TieredHistory, parts: list[SegmentPart], commits: list[Commit]) -> Iterator[tuple[int, Any]]:
    for one in versioned(parts, commits):
        part, cluster = one.part, history.cluster
        states = cluster.segment_states([part.segment_id])
        state = states[part.segment_id]
        if state is None or state.start_offset > part.start:
            raise DataLossError("it was truncated")
        events = cluster.read(part.segment_id, part.start, part.end)
        yield part.segment_id, pa.record_batch([pa.array(events, pa.int64())], names=["event"])


@contextlib.contextmanager
def _tiered(history: TieredHistory) -> Iterator[None]:
    """What tiering takes from outside is the history's meanwhile."""

    def looked_up(*_: Any) -> Any:
        properties = SimpleNamespace(
            lake="iceberg",
            lake_after_ms=None,
            keep_in_stream_ms=0,
            lake_file_size=None,
            lake_row_group_size=None,
            lake_partitioned_by=(),
            lake_sorted_by=(),
        )
        state = tables.open_log(history.cluster).state()
        return SimpleNamespace(properties=properties, replaced_table=state.replaced_table, schema=_SCHEMA, key=None)

    uuids = SimpleNamespace(uuid4=lambda: uuid.UUID(int=history.world.rng.getrandbits(128)))
    patches: list[tuple[Any, str, Any]] = [
        (tiering, "load_definition", looked_up),
        (tiering, "shared_client", lambda _: simulation_client()),
        (tiering, "load_iceberg", lambda: history.iceberg),
        (tiering, "create_ledger", lambda *_: tables.open_log(history.cluster)),
        (tiering, "check_kept", lambda _: _COLUMNS),
        (tiering, "check_fits", lambda *_: None),
        (tiering, "FileWriter", lambda *_: FilesModel()),
        (tiering, "_batches", lambda _, parts, commits, *__: _batches(history, parts, commits)),
        (tiering, "uuid", uuids),
        (releasing, "_log", SimpleNamespace(warning=lambda *_: None)),
        (versions, "segment_states", lambda pool, stream, ids: history.cluster.segment_states(ids)),
    ]
    with contextlib.ExitStack() as stack:
        for place, name, new in patches:
            stack.enter_context(patch.object(place, name, new))
        yield


# Faults


@contextlib.contextmanager
def commits_repeated() -> Iterator[None]:
    """Iceberg puts files on top of what another one has committed."""
    with patch.object(IcebergModel, "retries", True):
        yield


@contextlib.contextmanager
def replaced_rows_kept() -> Iterator[None]:
    """Rows in the lake are read that others have taken the place of."""
    tiered = property(lambda self: self.lake if self.lake is not None and self.lake.version else None)
    with patch.object(State, "tiered", tiered):
        yield


@contextlib.contextmanager
def snapshots_not_adopted() -> Iterator[None]:
    """Who finds a snapshot that the log doesn't know goes on as if it weren't there."""

    def settled(self: Any) -> Any:
        state = tables.open_log(simulation_client().pool.cluster).state()
        if state.lake is None:
            return found(self)
        table = self._iceberg.find_table()
        return (state, table) if table is not None and table.snapshot is not None else found(self)

    found = tiering._Tiering._settled
    with patch.object(tiering._Tiering, "_settled", settled):
        yield


FAULTS: tuple[Callable[[], contextlib.AbstractContextManager[Any]], ...] = (
    commits_repeated,
    replaced_rows_kept,
    snapshots_not_adopted,
)
