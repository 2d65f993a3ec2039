"""Histories of transactions beside all else: one table has a key and is compacted, others are tiered, dropped and made
again, logs forget versions and records, and a transaction has two statements on one table.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
from cluster_model import EVENT_BYTES, KEYS, ROWS, ClusterModel
from dropping_model import DroppableModel
from ending import rows_of
from history import content_of
from keyed import COMPACTED, Definition, KeyedHistory, UpdateJob, keyed_plan, played_with_a_key, written
from model_patches import AtOnce
from several_order import KEYED_TABLE, NOBODY, STREAMS, Change
from several_tables import Clusters, Dispatching, TransactionHistory, log_of, plan_of
from table_model import TableModel
from world import Profile, World
from writing import some_keys, write_partition

from pyspark_pravega.catalog.statements import tables as statements
from pyspark_pravega.client import SegmentPart, Stream, Transaction, TransactionState
from pyspark_pravega.client.segments import SegmentState
from pyspark_pravega.connector.lake import behind_lake, tiering
from pyspark_pravega.connector.lake.releasing import release_tiered
from pyspark_pravega.connector.log import Snapshot, Tiered, ledger, opening, settle, snapshot
from pyspark_pravega.connector.log.decided import decisions
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.connector.read import commit_of, versions
from pyspark_pravega.connector.write import compaction, read_set
from pyspark_pravega.connector.write.commit.several import Several
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.overwrite import OverwritingJob
from pyspark_pravega.connector.write.read_set import ReadSet
from pyspark_pravega.connector.write.together import transaction as product
from pyspark_pravega.errors import ConflictError, PravegaError, TransactionError, UnavailableError
from pyspark_pravega.lake import LakeSnapshot

WIDE = 6_000_000
"""The first seed of these histories."""
LATE_DROPS = 8_000_000
"""The first seed of those in which tables are dropped beside decisions."""
_DROPPED = STREAMS[1:]


class WideClusters(Clusters):
    """Tables of which two may be dropped, and one has a key."""

    def make_models(self) -> dict[Stream, ClusterModel]:
        models = {stream: DroppableModel(self.world, stream) for stream in STREAMS}
        return dict(models)

    def controller(self) -> WideDispatching:
        return WideDispatching(self)

    def log_of(self, stream: Stream) -> TableModel:
        return self.droppable(stream).open_log()

    def droppable(self, stream: Stream) -> DroppableModel:
        """The model that has a stream."""
        return cast(DroppableModel, self.models[stream])

    def log_name(self, scope: str, name: str) -> DroppableModel:
        """The model whose log has a name."""
        return next(self.droppable(stream) for stream in STREAMS if ledger_name(stream) == name)


class WideDispatching(Dispatching):
    """As `Dispatching`, with the key-value tables of the logs."""

    def create_key_value_table(self, scope: str, name: str, **_: int) -> bool:
        model = cast(WideClusters, self.clusters).log_name(scope, name)
        return self.clusters.world.call("createKeyValueTable", model.make_log)

    def delete_key_value_table(self, scope: str, name: str, still: Callable[[], bool] | None = None) -> bool:
        model = cast(WideClusters, self.clusters).log_name(scope, name)
        if still is not None and not still():
            return False
        return self.clusters.world.call("deleteKeyValueTable", model.delete_log)


class KeyedTable(KeyedHistory):
    """The table that has a key, among others."""

    def __init__(self, world: World, cluster: ClusterModel) -> None:
        self.world, self.cluster, self.wide = world, cluster, False
        self._early: Definition | None = None


class Lake:
    """Iceberg tables in memory: each snapshot's rows."""

    def __init__(self, clusters: WideClusters) -> None:
        self._clusters, self._world = clusters, clusters.world
        self._snapshots: dict[str, list[LakeSnapshot]] = {}
        self._events: dict[int, list[int]] = {}

    def rows(self, tiered: Tiered) -> list[tuple[int, int]]:
        """The statement and the row of each event that a log says to lie here."""
        return [] if tiered.snapshot is None else [divmod(event, ROWS) for event in self._events[tiered.snapshot]]

    def tier(self, stream: Stream) -> None:
        """Put a table's rows into the lake, and truncate the stream, with the steps of `tiering`."""
        client, world = self._clusters.client, self._world
        one = object.__new__(tiering._Tiering)
        one._client, one._stream, one._ledger = client, stream, log_of(self._clusters, stream)
        state = settle(client, one._ledger)
        if state.lake is None:
            state = one._ledger.holders().note_lake(state, Tiered(id=f"{world.rng.getrandbits(64):x}"))
        lake = state.lake
        assert lake is not None
        snapshots = self._snapshots.setdefault(lake.id, [])
        last = snapshots[-1] if snapshots else None
        if last is not None and last.id != lake.snapshot:
            one._note(lake, last)
            return
        if not state.version:
            return
        target = commit_of(one._ledger, stream, state.version)
        if target.version <= lake.version or target.version < state.replaced_rows:
            return
        replaces = lake.version < state.replaced_rows or lake.snapshot is None
        parts, _ = one._wanted(lake, target, replaces=replaces)
        model = self._clusters.of(stream)
        events = [event for part in parts for event in model.read(part.segment_id, part.start, part.end)]
        if not replaces and lake.snapshot is not None:
            events = [*self._events[lake.snapshot], *events]
        made = LakeSnapshot(
            id=1 + len(self._events),
            parent=lake.snapshot,
            properties={
                tiering.UP_TO: str(target.version),
                tiering.CUT: json.dumps(target.cut),
                tiering.REPLACES: "true" if replaces else "false",
            },
            metadata="",
            rows=len(events),
        )

        def commit() -> None:
            if (snapshots[-1].id if snapshots else None) != lake.snapshot:
                raise ConflictError("another one was faster")
            self._events[made.id] = events
            snapshots.append(made)

        world.call("Iceberg", commit, once=True)
        one._note(lake, made)
        release_tiered(client, one._ledger, 0)


class WideHistory(TransactionHistory):
    """One seed's."""

    clusters: WideClusters

    def __init__(self, seed: int, profile: Profile | None = None) -> None:
        super().__init__(seed, profile)
        rng = self.world.rng
        model = self.clusters.of(KEYED_TABLE)
        self.clusters.client.pool.cluster = model
        self.clusters.client.create_key_value_table = self.clusters.client.controller.create_key_value_table
        self._keyed = KeyedTable(self.world, model)
        self._lake, self._was_dropped = Lake(self.clusters), False
        self._checkpoint = -1
        """The last micro-batch that the query's drivers know to be there."""
        self._kept = rng.choice((2, 20, 10_000))
        """How many versions logs keep."""
        self._kept_ms = rng.choice((300, 20_000, decisions._KEPT_MS))
        """How long records stay of transactions of the dead."""

    def make_clusters(self) -> Clusters:
        return WideClusters(self.world)

    def run(self) -> None:
        """As `TransactionHistory.run`."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(played_with_a_key(self._keyed))
            for place, name, new in (
                (ledger, "KEPT_VERSIONS", self._kept),
                (ledger, "_SWEEP_EVERY", 1 if self._kept < 20 else 5),
                (decisions, "_KEPT_MS", self._kept_ms),
                (decisions, "_SWEEP_EVERY", 1),
                (versions, "segment_states", self._segment_states),
                (read_set, "KeyedReader", _reader_of(self._keyed)),
                (read_set, "routing_hashes", lambda _, keys: np.array([KEYS[event % ROWS] for event in keys.events])),
                (product, "staged_sizes", self._staged_sizes),
                (statements, "Begun", AtOnce),
            ):
                stack.enter_context(patch.object(place, name, new))
            super().run()

    # Actors

    def _take_part(self) -> None:
        rng, add = self.world.rng, self.world.add
        self.kinds = ("several",) * 5 + ("insert", "overwrite", "truncate", "update", "update")
        super()._take_part()
        if rng.random() < 0.4:
            add("compactor", partial(self._compact, rng.choice((1, 2)), rng.random() < 0.3))
        if rng.random() < 0.3:
            add("tierer", partial(self._tier_often, rng.choice((1, 2, 3))))
        if rng.random() < 0.3:
            add("dropper", partial(self._drop_often, rng.choice((1, 2))))
        if rng.random() < 0.3:
            for number in range(rng.choice((1, 2))):
                add(f"query {number}", partial(self._stream, f"query {number}"))

    def _compact(self, times: int, one_more: bool) -> None:
        for _ in range(times):
            self.world.sleep(self.world.rng.choice((0.0, 0.05, 0.5)))
            with contextlib.suppress(PravegaError):
                compaction.compact(cast(Any, None), KEYED_TABLE, one_more=one_more, threads=1)

    def _tier_often(self, times: int) -> None:
        for _ in range(times):
            self.world.sleep(self.world.rng.choice((0.0, 0.05, 0.5)))
            with contextlib.suppress(PravegaError):
                self._lake.tier(self.world.rng.choice(_DROPPED))

    def _drop_often(self, times: int) -> None:
        for _ in range(times):
            self.world.sleep(self.world.rng.choice((0.0, 0.03, 0.3)))
            with contextlib.suppress(PravegaError):
                self._statement("dropper", "drop")

    def _stream(self, name: str) -> None:
        """A driver of a streaming query: goes on behind the last micro-batch of the checkpoint."""
        for number in range(self._checkpoint + 1, self._checkpoint + 4):
            for _ in range(3):
                with contextlib.suppress(PravegaError):
                    self._statement(name, "several", number)
                    break
            else:
                return
            self._checkpoint = max(self._checkpoint, number)

    def _has_failed(self, change: Change, error: PravegaError) -> bool:
        # Only who isn't told how it ended doesn't know it; a DROP goes on with what one before has left. Of one table's
        # statement nothing is left where the table was dropped behind it, whatever its client is told.
        if change.kind in ("drop", "truncate") or isinstance(error, UnavailableError):
            return False
        return change.kind == "several" or not self._was_dropped

    def _other(self, change: Change) -> None:
        if change.kind == "update":
            self._update(change)
        else:
            self._drop(change)

    def _update(self, change: Change) -> None:
        taken = self._taken(KEYED_TABLE)
        read = self._noted(change, KEYED_TABLE, taken)
        job = UpdateJob(keyed_plan())
        messages: list[TaskMessage | None] = [None]
        try:
            messages[:] = self._written(change, job, KEYED_TABLE)
            job.commit_job(messages, seen=read.seen)
        except PravegaError:
            with contextlib.suppress(PravegaError):
                job.abort_job(messages)
            raise

    def _drop(self, change: Change) -> None:
        client, stream = self.clusters.client, self.world.rng.choice(_DROPPED)
        change.emptied, self._was_dropped = stream, True
        tables = object.__new__(statements.Tables)
        tables._base = cast(Any, SimpleNamespace(client=client, forget=lambda _: None, registry=None))
        tables.drop_stream(stream)
        self._end(change)
        if self.world.rng.random() < 0.2:
            return
        self.world.sleep(self.world.rng.choice((0.0, 0.03)))
        log = opening.claim_ledger(client, stream)
        if log is not None:
            log.set_properties({})
            client.controller.create_stream(stream)

    # What a transaction does

    def _is_epoch(self, change: Change) -> bool:
        return change.epoch is not None

    def _job(self, stream: Stream, *, merges: bool) -> WriteJob:
        if stream != KEYED_TABLE:
            return super()._job(stream, merges=merges)
        return UpdateJob(keyed_plan()) if merges else WriteJob(keyed_plan())

    def _written(self, change: Change, job: WriteJob, stream: Stream) -> list[TaskMessage]:
        if stream != KEYED_TABLE:
            return super()._written(change, job, stream)
        keys = some_keys(self.world)
        change.keys_written |= frozenset(keys)
        return [written(job, [change.number * ROWS + key for key in keys])]

    def _goes_on(self, change: Change, prepared: list[product.Prepared]) -> None:
        client, rng = self.clusters.client, self.world.rng
        stream = prepared[-1].job.plan.stream
        own = self.rows[stream].get(change.number)
        if rng.random() >= 0.3 or (own is not None and max(own.rows) >= len(KEYS)):
            return
        earlier = prepared[-1].measured(client)
        replaces = rng.random() < 0.3 and change.emptied is None
        job = OverwritingJob(plan_of(stream)) if replaces else self._job(stream, merges=False)
        messages: list[TaskMessage | None] = [None]
        keys = some_keys(self.world)
        if own is None:
            change.keys_written = frozenset(keys) | (frozenset() if replaces else change.keys_written)
        else:
            own.rows = frozenset(len(KEYS) + key for key in keys) | (frozenset() if replaces else own.rows)
        if replaces:
            change.emptied = stream
        try:
            if own is None:
                messages[:] = [written(job, [change.number * ROWS + key for key in keys])]
            else:
                messages[:] = [write_partition(self.clusters.of(stream), job, own, 1, keys)]
            together = earlier.together
            later = product.prepare(job, messages, uuid.UUID(together.id), together.scope, earlier.epoch)
            assert later is not None
            prepared[-1] = product.joined(client, earlier, later.measured(client))
        except PravegaError:
            with contextlib.suppress(PravegaError):
                job.abort_job(messages)
            raise

    def _staged_sizes(self, client: Any, transaction: Transaction) -> dict[int, int]:
        model = self.clusters.of(transaction.segments.stream)
        self.world.step("staged sizes")
        one = model.transactions.get(transaction.id)
        if one is None or one.state != TransactionState.OPEN:
            raise TransactionError("it is lost")
        return {segment_id: len(events) * EVENT_BYTES for segment_id, events in one.events.items() if events}

    def _segment_states(self, pool: Any, stream: Stream, ids: Iterable[int]) -> dict[int, SegmentState | None]:
        return self.clusters.of(stream).segment_states(ids)

    # What was seen

    def _content(self, stream: Stream, taken: Snapshot) -> frozenset[int]:
        whole = behind_lake(taken)
        events = rows_of(self.clusters.of(stream), whole)
        if whole.lake is not None:
            events += self._lake.rows(whole.lake.tiered)
        return content_of(events, cast(Any, self.rows[stream]))

    def _taken(self, stream: Stream) -> Snapshot:
        return snapshot.take_snapshots(self.clusters.client, [stream])[stream]

    def _noted(self, change: Change, stream: Stream, taken: Snapshot) -> product.TableRead:
        if stream != KEYED_TABLE:
            return super()._noted(change, stream, taken)
        rng, wanted = self.world.rng, tuple(range(len(KEYS)))
        rows = self._keyed._rows(taken)
        keys: Any = None
        if change.kind != "read" and rng.random() < 0.7:
            wanted = some_keys(self.world)
            keys = np.array([KEYS[key] for key in wanted])
        change.keys_read = {key: rows[key][0] if key in rows else NOBODY for key in wanted}
        return product.TableRead(
            stream=stream, seen=[ReadSet.of(taken, keys)], definition=cast(Any, self._keyed.definition)
        )

    def _there(self) -> Sequence[Stream]:
        models = [self.clusters.droppable(stream) for stream in STREAMS]
        return [model.stream for model in models if model.log is not None and not model.is_gone]


class LateDropHistory(WideHistory):
    """One seed's, in which a table is dropped, and others are read, when a transaction is just going to be decided."""

    def run(self) -> None:
        """As `WideHistory.run`."""
        decide, rng = Several._decide, self.world.rng

        def decides(one: Several, *given: Any, **named: Any) -> Any:
            if not self.world.calm and rng.random() < 0.7:
                self.world.add("late dropper", self._drop_and_look)
                self.world.sleep(rng.choice((0.02, 0.1, 0.3)))
            return decide(one, *given, **named)

        with patch.object(Several, "_decide", decides):
            super().run()

    def _drop_and_look(self) -> None:
        with contextlib.suppress(PravegaError):
            self._statement("late dropper", "drop")
        for streams in (STREAMS, STREAMS[:1], STREAMS[1:2], STREAMS[2:]):
            with contextlib.suppress(PravegaError):
                self._read("late dropper", streams)


def _reader_of(table: KeyedTable) -> Any:
    def written_keys(parts: Sequence[SegmentPart]) -> Iterator[Any]:
        for part in parts:
            events = table.cluster.read(part.segment_id, part.start, part.end)
            own = [event for event in events if not event & COMPACTED]
            yield SimpleNamespace(num_rows=len(own), events=own)

    return lambda *_: SimpleNamespace(written_keys=written_keys)
