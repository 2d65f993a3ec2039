"""A cluster in memory: one stream, its transactions, and the key-value table beside it. Each call of it is a step.

It does what docs/pravega-facts.md says of the servers: a commit's segments become visible one after another, an abort
takes a moment, a truncation moves the controller's head, then the segments of its cut, one after another, and deletes
those before it last. Segments are split and merged (`scaling_model`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from controller_model import ControllerModel
from scaling_model import Epoch, Rolling, Scale
from table_model import TableModel
from world import World

from pyspark_pravega.client import SegmentRange, Stream, StreamSegments, Transaction, TransactionState
from pyspark_pravega.client.names import Successor
from pyspark_pravega.client.positions import truncate_stream
from pyspark_pravega.client.segments import SegmentState
from pyspark_pravega.errors import SegmentNotFoundError, SegmentStoreUnavailableError, TransactionError

STREAM = Stream("shop", "orders")
EVENT_BYTES = 10
KEYS = (0.1, 0.4, 0.6, 0.9)
"""Where the routing keys of the events lie."""
ROWS = 2 * len(KEYS)
"""How many rows a statement may have: one of each key in each of two partitions."""
_FAILURE, _NOT_OPEN = 1, 6
"""Of a commit or an abort, and of a ping."""
AT_ONCE_S = 0.05
"""How long a call for a commit looks and acts."""
_MADE_MS = 1_700_000_000_000


class SegmentModel:
    """Events one behind the other: each is a statement's number times `ROWS`, and the number of its row."""

    def __init__(self, made_ms: int = 0) -> None:
        self.events: list[int] = []
        self.start, self.sealed, self.made_ms = 0, False, _MADE_MS + made_ms

    @property
    def end(self) -> int:
        return len(self.events) * EVENT_BYTES

    def between(self, start: int, end: int) -> list[int]:
        """The events between two offsets."""
        return self.events[start // EVENT_BYTES : end // EVENT_BYTES]


class TransactionModel:
    """A transaction and its shadows of the segments."""

    def __init__(self, segments: StreamSegments, reference: int) -> None:
        self.state, self.segments = TransactionState.OPEN, segments
        self.reference = reference
        """As `Epoch.reference`, of the epoch in which it was begun."""
        self.events: dict[int, list[int]] = {owner.segment_id: [] for owner in segments.ranges}
        self.unmerged: list[int] = []
        self.copied: set[object] = set()
        """What was copied into it."""
        self.held_until = 0.0
        """Until when it was pinged."""
        self.committed_by: object = None
        """Who has asked for its commit first."""


class Asked:
    """A call for a transaction's commit, from its begin on."""

    def __init__(self, cluster: ClusterModel, transaction: uuid.UUID) -> None:
        self._cluster, self._caller, self._began = cluster, cluster.world.current, cluster.world.now
        self._was_open = cluster.state_of(transaction) == TransactionState.OPEN

    def commit(self, transaction: uuid.UUID) -> int:
        """Do it.

        Another one's that was under way at the same time is noted: beside a scale the two may end all commits of the
        stream (docs/internals/controller-facts.md).
        """
        cluster, one = self._cluster, self._cluster.transactions.get(transaction)
        if one is not None and one.state == TransactionState.OPEN:
            one.committed_by = self._caller
        elif one is not None and self._was_open and one.committed_by not in (None, self._caller):
            cluster.asked_at_once |= cluster.world.now - self._began < AT_ONCE_S
        return cluster.commit(transaction)


class ClusterModel:
    """One stream, of two segments at first."""

    def __init__(self, world: World, stream: Stream = STREAM) -> None:
        self.world, self.stream = world, stream
        ranges = tuple(SegmentRange(segment_id=n, min_key=n / 2, max_key=(n + 1) / 2) for n in (0, 1))
        self.ranges = {owner.segment_id: owner for owner in ranges}
        """Of all segments of which the controller knows."""
        self.segments: dict[int, SegmentModel] = {segment_id: SegmentModel() for segment_id in self.ranges}
        self.deleted: dict[int, SegmentModel] = {}
        self.epochs = [Epoch(StreamSegments(stream=stream, ranges=ranges), reference=0)]
        self.current = self.epochs[0].segments
        self.followed: dict[int, tuple[Successor, ...]] = {}
        """The successors of each segment that has some."""
        self.configuration: dict[str, str] = {}
        self.head = dict.fromkeys(self.segments, 0)
        self.numbers = len(ranges)
        self.scale: Scale | None = None
        self.rolling: Rolling | None = None
        self.transactions: dict[uuid.UUID, TransactionModel] = {}
        self.committing: list[TransactionModel] = []
        self.aborting: list[TransactionModel] = []
        self.table = TableModel(world)
        self.truncation: dict[int, int] | None = None
        self.was_truncated = False
        self.asked_at_once = False
        """Whether two have asked for a commit at the same time."""
        self._left: list[int] = []
        self.controller = ControllerModel(self)
        self.client: Any = SimpleNamespace(
            controller=self.controller,
            truncate=lambda cut: truncate_stream(self.client.pool, cut),
            settings=SimpleNamespace(controller_uri="tcp://model:1", timeout=10.0),
        )
        self.client.pool = SimpleNamespace(
            controller=self.controller,
            timeout=10.0,
            cluster=self,
            table_segments={},
            segment_lists={},
            known_endpoints=lambda *_: None,
        )
        world.server, world.accident, world.growth = self.work, self.end_a_lease, self.begin_scale

    def of(self, stream: Stream) -> ClusterModel:
        """The model that has a stream."""
        assert stream == self.stream
        return self

    def table_of(self, name: str) -> TableModel:
        """The key-value table of a name."""
        return self.table

    # What clients ask for

    def begin(self) -> Transaction:
        """A new transaction; its id begins with the epoch."""
        epoch = len(self.epochs) - 1
        id_ = uuid.UUID(int=(epoch << 96) + self.world.rng.getrandbits(96))
        self.transactions[id_] = TransactionModel(self.current, self.epochs[-1].reference)
        return Transaction(id=id_, segments=self.current)

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

    def asked(self, transaction: uuid.UUID) -> Asked:
        """A call for its commit that begins now."""
        return Asked(self, transaction)

    def ping(self, transaction: uuid.UUID, lease_ms: int) -> int:
        if self.state_of(transaction) != TransactionState.OPEN:
            return _NOT_OPEN
        self.transactions[transaction].held_until = self.world.now + lease_ms / 1000
        return 0

    def truncate(self, cut: dict[int, int]) -> int:
        world = self.world

        def begin() -> int:
            if self.truncation is not None or self.is_before(cut, self.head):
                return _FAILURE
            self.truncation, self.was_truncated = cut, True
            self._left = sorted((s for s in self.before(cut) if s in self.segments), key=lambda s: s in cut)
            return 0

        status = world.call("truncateStream", begin)
        while status == 0 and self.truncation is cut:
            world.sleep(0.01)
        return status

    def segment_states(self, segment_ids: Iterable[int]) -> dict[int, SegmentState | None]:
        ids = list(segment_ids)
        return self.world.call("segment states", lambda: self.states_now(ids), lost=SegmentStoreUnavailableError)

    def states_now(self, segment_ids: Iterable[int]) -> dict[int, SegmentState | None]:
        """As `segment_states`, without a step."""
        found: dict[int, SegmentState | None] = {}
        for segment_id in segment_ids:
            one = self.segments.get(segment_id)
            found[segment_id] = (
                None
                if one is None
                else SegmentState(
                    start_offset=one.start, write_offset=one.end, sealed=one.sealed, created_ms=one.made_ms
                )
            )
        return found

    def owner_of(self, segment_id: int) -> SegmentRange:
        """What a segment has of the key space."""
        return self.ranges[segment_id]

    def read(self, segment_id: int, start: int, end: int) -> list[int]:
        """The events between two offsets, as if a reader had read them before they were truncated."""
        return (self.segments.get(segment_id) or self.deleted[segment_id]).between(start, end)

    def write(self, transaction: Transaction, rows: Mapping[int, float]) -> dict[int, list[tuple[int, int]]]:
        """What a task sends.

        Args:
            transaction: where to.
            rows: the events, and where their routing keys lie.

        Returns:
            Where the events lie in each shadow.
        """
        # Blocks are numbered: they are sent again until each is there once.
        self.world.step("write")
        one = self.transactions.get(transaction.id)
        if one is None or one.state != TransactionState.OPEN:
            raise TransactionError("it is gone")
        ranges: dict[int, list[tuple[int, int]]] = {}
        for event, key in rows.items():
            segment_id = next(r.segment_id for r in one.segments.ranges if r.min_key <= key < r.max_key)
            shadow = one.events[segment_id]
            ranges.setdefault(segment_id, []).append((len(shadow) * EVENT_BYTES, (len(shadow) + 1) * EVENT_BYTES))
            shadow.append(event)
        return ranges

    def copy(
        self,
        target: tuple[uuid.UUID, int],
        source: tuple[uuid.UUID, int],
        ranges: Sequence[tuple[int, int]],
    ) -> None:
        """Append parts of a transaction's shadow to another one's; a second time nothing is done.

        Args:
            target: the transaction and the segment that take them.
            source: those that have them.
            ranges: where they lie.
        """
        self.world.step("copy")
        one, other = self.transactions.get(target[0]), self.transactions.get(source[0])
        copied = (*source, ranges[0][0])
        if one is None or other is None or not one.state == other.state == TransactionState.OPEN:
            raise SegmentNotFoundError("one of them is gone")
        if copied not in one.copied:
            one.copied.add(copied)
            shadow = other.events[source[1]]
            for start, end in ranges:
                one.events[target[1]] += shadow[start // EVENT_BYTES : end // EVENT_BYTES]

    @property
    def open_transactions(self) -> list[uuid.UUID]:
        """Those that were neither committed nor aborted."""
        return [id_ for id_, one in self.transactions.items() if one.state == TransactionState.OPEN]

    # What the controller knows of cuts

    def is_before(self, cut: Mapping[int, int], other: Mapping[int, int]) -> bool:
        """Whether a cut lies before another one anywhere."""
        ranges = self.ranges
        return any(
            (cut[s] < offset if s == t else s < t and ranges[s].overlaps(ranges[t]))
            for t, offset in other.items()
            for s in cut
            if s <= t
        )

    def behind(self, cut: Mapping[int, int]) -> set[int]:
        """The segments of a cut, and those that came in their place."""
        ranges = self.ranges
        return {s for s in ranges if s in cut or any(t < s and ranges[t].overlaps(ranges[s]) for t in cut)}

    def before(self, cut: Mapping[int, int]) -> set[int]:
        """The segments of a cut, and those in whose place they came."""
        ranges = self.ranges
        return {s for s in ranges if s in cut or any(s < t and ranges[t].overlaps(ranges[s]) for t in cut)}

    def successors(self, segment_id: int) -> tuple[Successor, ...]:
        """The segments that came in a segment's place."""
        return self.followed.get(segment_id, ())

    # What the servers do by themselves

    def work(self) -> bool:
        """Do one thing; False when there is none to do."""
        table, rng = self.table, self.world.rng
        if table.under_way:
            return table.index()
        kinds = [kind for kind in (self.committing or self.scale, self.aborting, self.truncation) if kind]
        if not kinds:
            return False
        kind = kinds[int(rng.random() * len(kinds))]
        if kind is self.aborting:
            self.aborting.pop(0).state = TransactionState.ABORTED
        elif kind is self.truncation:
            self._truncate_one()
        elif self.scale is not None and (self.scale.begun or not self.committing):
            self.scale.go_on(self)
        else:
            self._merge()
        return True

    def end_a_lease(self) -> None:
        """Let a transaction be aborted that nobody has pinged."""
        may_end = [one for one in self.open_transactions if self.transactions[one].held_until <= self.world.now]
        if may_end:
            self.world.note("a lease ends")
            self.abort(self.world.rng.choice(may_end))

    def begin_scale(self) -> None:
        """Let a segment be split, or two be merged, as soon as no commit is being made."""
        if self.scale is None and len(self.epochs) < 7:
            self.scale = Scale()

    def make(self, segment_ids: Iterable[int]) -> None:
        """Make segments in the store; the controller tells of them later."""
        now = round(self.world.now * 1000)
        for segment_id in segment_ids:
            self.segments[segment_id] = SegmentModel(now)

    def enter(self, *epochs: Epoch) -> None:
        """Let the stream go on in new epochs, of which the last one is current then."""
        for epoch in epochs:
            before = self.epochs[-1].segments.ranges
            self.epochs.append(epoch)
            self.current = epoch.segments
            new = [owner for owner in epoch.segments.ranges if owner not in before]
            self.ranges |= {owner.segment_id: owner for owner in new}
            replaced = [owner for owner in before if owner not in epoch.segments.ranges]
            after = {
                owner.segment_id: tuple(old.segment_id for old in replaced if old.overlaps(owner)) for owner in new
            }
            for old in replaced:
                self.followed[old.segment_id] = tuple(
                    Successor(segment=owner, predecessors=after[owner.segment_id])
                    for owner in new
                    if owner.overlaps(old)
                )
        self.world.note(f"- epoch {len(self.epochs) - 1} begins: {list(self.current.ids)}")

    def _merge(self) -> None:
        one = self.committing[0]
        if self.rolling is None and one.unmerged and one.reference != self.epochs[-1].reference:
            self.rolling = Rolling.of(self, one.segments)
        if self.rolling is not None:
            if not self.rolling.go_on(self, one):
                self.rolling = None
        elif one.unmerged:
            shadow = one.unmerged.pop(0 if self.world.rng.random() < 0.5 else -1)
            # Segments of epochs that were made again have new ids, and their old numbers.
            number = shadow & 0xFFFFFFFF
            segment_id = next(s for s in self.current.ids if s & 0xFFFFFFFF == number)
            self.segments[segment_id].events += one.events[shadow]
            self.world.note(f"- segment {segment_id} is merged")
        else:
            one.state = TransactionState.COMMITTED
            self.committing.pop(0)

    def _truncate_one(self) -> None:
        assert self.truncation is not None
        if self.head is not self.truncation:
            self.head = self.truncation
            self.world.note("- the stream's head is moved")
        elif self._left:
            segment_id = self._left.pop()
            if segment_id in self.truncation:
                one = self.segments[segment_id]
                one.start = max(one.start, self.truncation[segment_id])
                self.world.note(f"- segment {segment_id} is truncated")
            else:
                self.deleted[segment_id] = self.segments.pop(segment_id)
                self.world.note(f"- segment {segment_id} is deleted")
        else:
            self.truncation = None
