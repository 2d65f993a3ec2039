"""A cluster in memory: one stream, its transactions, and the key-value table beside it. Each call of it is a step.

It does what docs/pravega-facts.md says of the servers: a commit's segments become visible one after another, an abort
takes a moment, a truncation moves one segment after another and the controller's head last, a conditional change is in
the way of others before it can be read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from google.protobuf.message import Message
from world import World

from pyspark_pravega.client import SegmentRange, Stream, StreamCut, StreamSegments, Transaction, TransactionState
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.transactions import ControllerTransactions
from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS, Entry
from pyspark_pravega.client.names import Access
from pyspark_pravega.client.positions import truncate_stream
from pyspark_pravega.client.segments import SegmentState
from pyspark_pravega.errors import (
    ConflictError,
    InvalidStreamCutError,
    NotFoundError,
    SegmentStoreUnavailableError,
    TransactionError,
)

STREAM = Stream("shop", "orders")
EVENT_BYTES = 10
_FAILURE = 1


class SegmentModel:
    """Events one behind the other: each is the number of the statement that has written it."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.start = 0

    @property
    def end(self) -> int:
        return len(self.events) * EVENT_BYTES

    def between(self, start: int, end: int) -> list[int]:
        """The events between two offsets."""
        return self.events[start // EVENT_BYTES : end // EVENT_BYTES]


class TransactionModel:
    """A transaction and its shadows of the segments."""

    def __init__(self, segment_ids: Iterable[int]) -> None:
        self.state = TransactionState.OPEN
        self.events: dict[int, list[int]] = {segment_id: [] for segment_id in segment_ids}
        self.unmerged: list[int] = []


class TableModel:
    """A key-value table of one partition: what can be read, and what is in the way of others already."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.readable: dict[bytes, Entry] = {}
        self.newest: dict[bytes, Entry] = {}
        self.under_way: list[dict[bytes, Entry | None]] = []
        self._version = 0

    def get(self, keys: Sequence[bytes]) -> list[Entry | None]:
        readable = self.readable
        return self.world.call("get", lambda: [readable.get(key) for key in keys], lost=SegmentStoreUnavailableError)

    def put(self, entries: Sequence[tuple[bytes, int, bytes]]) -> list[int]:
        return self._change(list(entries))

    def remove(self, keys: Sequence[tuple[bytes, int]]) -> None:
        self._change([(key, version, None) for key, version in keys])

    def iterate_entries(self, *, prefix: bytes = b"", start: bytes | None = None) -> Iterator[tuple[bytes, Entry]]:
        for key in sorted(self.readable):
            if key.startswith(prefix) and (start is None or key >= start):
                yield key, self.readable[key]

    def index(self) -> bool:
        """Make the oldest change readable that isn't; False where there is none."""
        if not self.under_way:
            return False
        for key, entry in self.under_way.pop(0).items():
            if entry is None:
                self.readable.pop(key, None)
            else:
                self.readable[key] = entry
        return True

    def _change(self, changes: Sequence[tuple[bytes, int, bytes | None]]) -> list[int]:
        world, mine = self.world, {}

        def accept() -> list[int]:
            for key, version, _ in changes:
                entry = self.newest.get(key)
                if version == ANY_VERSION:
                    continue
                if (NOT_EXISTS if entry is None else entry.version) != version:
                    raise ConflictError(f"key {key.hex()} has been changed")
            for key, _, value in changes:
                self._version += 1
                mine[key] = None if value is None else Entry(value=value, version=self._version)
                if value is None:
                    self.newest.pop(key, None)
                else:
                    self.newest[key] = mine[key]  # type: ignore[assignment]
            self.under_way.append(mine)
            if not world.profile.lag:
                self.index()
            return [0 if entry is None else entry.version for entry in mine.values()]

        versions = world.call("put", accept, once=True, lost=SegmentStoreUnavailableError)
        if self.under_way and world.rng.random() < world.profile.lag:
            world.step("put: stored")
        while any(change is mine for change in self.under_way):
            self.index()
        return versions


class ControllerModel(ControllerTransactions):
    """The product's controller above calls that a cluster in memory answers."""

    def __init__(self, cluster: ClusterModel) -> None:
        self._cluster = cluster
        self._rpc = SimpleNamespace(timeout=10.0)  # type: ignore[assignment]

    def _status(self, method: str, request: Message, *, missing: NotFoundError | None = None) -> int:
        cluster = self._cluster
        if method == "truncateStream":
            return cluster.truncate(dict(request.cut.items()))  # type: ignore[attr-defined]
        transaction = messages.transaction_id(request.txn_id)  # type: ignore[attr-defined]
        if method == "checkTransactionState":
            return cluster.world.call(method, lambda: cluster.state_of(transaction))
        if method == "pingTransaction":
            return cluster.world.call(method, lambda: 0 if cluster.state_of(transaction) == 1 else 6)
        action = {"commitTransaction": cluster.commit, "abortTransaction": cluster.abort}[method]
        world = cluster.world
        if not world.calm and world.rng.random() < world.profile.failure:
            # It says that it failed, and has done it all the same, or hasn't.
            if world.rng.random() < 0.5:
                world.call(f"{method} fails, done", lambda: action(transaction))
            else:
                world.call(f"{method} fails", int)
            return _FAILURE
        return world.call(method, lambda: action(transaction))

    def begin_transaction(self, stream: Stream, *, lease_ms: int) -> Transaction:
        cluster = self._cluster
        id_ = cluster.new_id()

        def begin() -> None:
            cluster.transactions[id_] = TransactionModel(cluster.segments)

        cluster.world.call("createTransaction", begin, once=True)
        return Transaction(id=id_, segments=cluster.current)

    def truncate_stream(self, stream: Stream, cut: Mapping[int, int]) -> None:
        if self._cluster.truncate(dict(cut)) != 0:
            raise InvalidStreamCutError("it wasn't truncated")

    def stream_exists(self, stream: Stream) -> bool:
        return True

    def current_segments(self, stream: Stream, access: Access = Access.NONE) -> StreamSegments:
        return self._cluster.current

    def segment_ranges(self, stream: Stream, segment_ids: Iterable[int]) -> dict[int, SegmentRange]:
        return {r.segment_id: r for r in self._cluster.current.ranges}

    def segments_between(self, stream: Stream, start: Any = None, end: Any = None) -> tuple[int, ...]:
        if start and end and any(end[segment_id] < start[segment_id] for segment_id in end):
            raise InvalidStreamCutError("the end lies before the start")
        return tuple(self._cluster.segments)

    def is_stream_cut_valid(self, stream: Stream, cut: Mapping[int, int]) -> bool:
        return True

    def head(self, stream: Stream) -> StreamCut:
        cluster = self._cluster
        return StreamCut(STREAM, cluster.world.call("getSegments", lambda: dict(cluster.head)))

    def successors(self, stream: Stream, segment_id: int) -> tuple[Any, ...]:
        return ()

    def predecessors(self, stream: Stream, segment_id: int) -> tuple[int, ...]:
        return ()

    def create_key_value_table(self, scope: str, name: str, **_: int) -> bool:
        return False


class ClusterModel:
    """One stream of two segments."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.segments = {segment_id: SegmentModel() for segment_id in (0, 1)}
        self.head = dict.fromkeys(self.segments, 0)
        self.current = StreamSegments(
            stream=STREAM,
            ranges=tuple(SegmentRange(segment_id=n, min_key=n / 2, max_key=(n + 1) / 2) for n in self.segments),
        )
        self.transactions: dict[uuid.UUID, TransactionModel] = {}
        self.committing: list[TransactionModel] = []
        self.aborting: list[TransactionModel] = []
        self.table = TableModel(world)
        self.truncation: dict[int, int] | None = None
        self._left: list[int] = []
        self.controller = ControllerModel(self)
        self.client: Any = SimpleNamespace(
            controller=self.controller,
            truncate=lambda cut: truncate_stream(self.client.pool, cut),
            settings=SimpleNamespace(controller_uri="tcp://model:1"),
        )
        self.client.pool = SimpleNamespace(controller=self.controller, timeout=10.0, cluster=self)
        world.server, world.accident = self.work, self.end_a_lease

    def new_id(self) -> uuid.UUID:
        """An id of a transaction of the first epoch."""
        return uuid.UUID(int=self.world.rng.getrandbits(96))

    # What clients ask for

    def state_of(self, transaction: uuid.UUID) -> int:
        found = self.transactions.get(transaction)
        return 0 if found is None else int(found.state)

    def commit(self, transaction: uuid.UUID) -> int:
        one = self.transactions.get(transaction)
        if one is None:
            return 3
        if one.state == TransactionState.OPEN:
            one.state, one.unmerged = TransactionState.COMMITTING, [s for s in one.events if one.events[s]]
            self.committing.append(one)
        return 0 if one.state in (TransactionState.COMMITTING, TransactionState.COMMITTED) else _FAILURE

    def abort(self, transaction: uuid.UUID) -> int:
        one = self.transactions.get(transaction)
        if one is None:
            return 3
        if one.state == TransactionState.OPEN:
            one.state = TransactionState.ABORTING
            self.aborting.append(one)
        return 0 if one.state in (TransactionState.ABORTING, TransactionState.ABORTED) else _FAILURE

    def truncate(self, cut: dict[int, int]) -> int:
        world = self.world

        def begin() -> int:
            if self.truncation is not None or any(cut[s] < self.head[s] for s in self.head):
                return _FAILURE
            self.truncation, self._left = cut, list(cut)
            return 0

        status = world.call("truncateStream", begin)
        while status == 0 and self.truncation is cut:
            world.sleep(0.01)
        return status

    def segment_states(self, segment_ids: Iterable[int]) -> dict[int, SegmentState | None]:
        def ask() -> dict[int, SegmentState | None]:
            return {
                segment_id: SegmentState(start_offset=one.start, write_offset=one.end, sealed=False, created_ms=1)
                for segment_id, one in ((s, self.segments[s]) for s in segment_ids)
            }

        return self.world.call("segment states", ask, lost=SegmentStoreUnavailableError)

    def write(self, transaction: uuid.UUID, statement: int, segment_ids: Sequence[int]) -> None:
        """What a task sends: an event to each of some segments."""

        def append() -> None:
            one = self.transactions[transaction]
            if one.state != TransactionState.OPEN:
                raise TransactionError("it is gone")
            for segment_id in segment_ids:
                one.events[segment_id].append(statement)

        # Blocks are numbered: they are sent again until each is there once.
        self.world.step("write")
        append()

    # What the servers do by themselves

    def work(self) -> bool:
        """Do one thing; False when there is none to do."""
        table, rng = self.table, self.world.rng
        if table.under_way:
            return table.index()
        kinds = [kind for kind in (self.committing, self.aborting, self.truncation) if kind]
        if not kinds:
            return False
        kind = kinds[int(rng.random() * len(kinds))]
        if kind is self.committing:
            self._merge()
        elif kind is self.aborting:
            self.aborting.pop(0).state = TransactionState.ABORTED
        else:
            self._truncate_one()
        return True

    def end_a_lease(self) -> None:
        """Let a transaction be aborted that nobody has pinged."""
        still_open = [id_ for id_, one in self.transactions.items() if one.state == TransactionState.OPEN]
        if still_open:
            self.world.note("a lease ends")
            self.abort(self.world.rng.choice(still_open))

    def _merge(self) -> None:
        one = self.committing[0]
        if one.unmerged:
            segment_id = one.unmerged.pop(0 if self.world.rng.random() < 0.5 else -1)
            self.segments[segment_id].events += one.events[segment_id]
            self.world.note(f"- segment {segment_id} is merged")
        else:
            one.state = TransactionState.COMMITTED
            self.committing.pop(0)

    def _truncate_one(self) -> None:
        assert self.truncation is not None
        if self._left:
            segment_id = self._left.pop()
            self.segments[segment_id].start = max(self.segments[segment_id].start, self.truncation[segment_id])
            self.world.note(f"- segment {segment_id} is truncated")
        else:
            self.head, self.truncation = self.truncation, None
