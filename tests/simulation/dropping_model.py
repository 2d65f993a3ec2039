"""Tables in memory that can be dropped and made again: the stream, and the key-value table with its commit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from cluster_model import ClusterModel
from controller_model import ControllerModel
from google.protobuf.message import Message
from scaling_model import Epoch
from table_model import TableModel
from world import World

from pyspark_pravega.client import SegmentRange, Stream, StreamSegments, Transaction
from pyspark_pravega.client.key_value import Entry
from pyspark_pravega.client.names import Access
from pyspark_pravega.errors import (
    InvalidStreamCutError,
    KeyValueTableNotFoundError,
    NotFoundError,
    SegmentNotFoundError,
    StreamNotFoundError,
    StreamNotSealedError,
    StreamSealedError,
)

_BEGUN = 2
"""Segments that a stream has at first."""


class DroppableModel(ClusterModel):
    """A table that may be dropped, and made again."""

    def __init__(self, world: World, stream: Stream) -> None:
        super().__init__(world, stream)
        self.controller = DroppingController(self)
        self.is_sealing = self.is_sealed = self.is_gone = False
        self.log: TableModel | None = self.table
        self.all_ranges = dict(self.ranges)
        """Those of the streams that were dropped, too."""

    def check(self) -> None:
        """Refuse what needs the stream."""
        if self.is_gone:
            raise StreamNotFoundError(f'there is no stream "{self.stream}"')

    def begin(self) -> Transaction:
        self.check()
        if self.is_sealing:
            raise StreamSealedError(f'stream "{self.stream}" is sealed')
        return super().begin()

    def begin_scale(self) -> None:
        if not self.is_sealing and not self.is_gone:
            super().begin_scale()

    def enter(self, *epochs: Epoch) -> None:
        super().enter(*epochs)
        self.all_ranges |= self.ranges

    def owner_of(self, segment_id: int) -> SegmentRange:
        return self.all_ranges[segment_id]

    def make_log(self) -> bool:
        """False where it is there."""
        if self.log is not None:
            return False
        forbidden, self.log = self.table.forbidden, TableModel(self.world)
        self.table, self.log.forbidden = self.log, forbidden
        return True

    def delete_log(self) -> bool:
        """False where it isn't there."""
        log, self.log = self.log, None
        if log is None:
            return False
        log.under_way.clear()
        log.readable, log.newest = _Deleted(), _Deleted()
        return True

    def open_log(self) -> TableModel:
        if self.log is not None:
            return self.log
        if self.is_gone:
            raise KeyValueTableNotFoundError("there is no such log")
        # The controller still knows its name.
        raise SegmentNotFoundError("the log is deleted")

    def seal(self) -> None:
        """Abort what is open, and let what is being committed come to its end."""
        self.check()
        self.is_sealing = True
        for transaction in self.open_transactions:
            self.abort(transaction)

    def delete(self) -> bool:
        """False where there is no stream."""
        if self.is_gone:
            return False
        if not self.is_sealed:
            raise StreamNotSealedError(f'stream "{self.stream}" must be sealed before it is deleted')
        self.deleted |= self.segments
        self.segments, self.transactions = {}, {}
        self.truncation, self.scale = None, None
        self.is_gone = True
        return True

    def make_again(self) -> bool:
        """Make the stream anew: its segments are counted on; False where it is there."""
        if not self.is_gone:
            return False
        borders = [number / _BEGUN for number in range(_BEGUN + 1)]
        ranges = tuple(
            SegmentRange(segment_id=self.numbers + n, min_key=borders[n], max_key=borders[n + 1]) for n in range(_BEGUN)
        )
        self.numbers += _BEGUN
        self.ranges = {owner.segment_id: owner for owner in ranges}
        self.all_ranges |= self.ranges
        self.make(self.ranges)
        self.epochs = [Epoch(StreamSegments(stream=self.stream, ranges=ranges), reference=0)]
        self.current, self.followed = self.epochs[0].segments, {}
        self.head = dict.fromkeys(self.segments, 0)
        self.is_gone = self.is_sealing = self.is_sealed = False
        return True

    def truncate(self, cut: dict[int, int]) -> int:
        self.check()
        return super().truncate(cut)

    def is_before(self, cut: Mapping[int, int], other: Mapping[int, int]) -> bool:
        # One of a stream that was dropped before is refused, also before there is another one.
        return self.is_gone or not set(cut) <= set(self.ranges) or super().is_before(cut, other)


class DroppingController(ControllerModel):
    """What the controller says of a stream that may be gone."""

    _cluster: DroppableModel

    def _status(self, method: str, request: Message, *, missing: NotFoundError | None = None) -> int:
        if self._cluster.is_gone and missing is not None:
            self._cluster.world.step(method)
            raise missing
        return super()._status(method, request, missing=missing)

    def identity(self, stream: Stream) -> tuple[int, ...] | None:
        return None if self._cluster.is_gone else self._cluster.epochs[0].segments.ids

    def sealing(self, stream: Stream) -> Callable[[], tuple[int, ...] | None]:
        """Seals it, and waits for that."""
        cluster, seen = self._cluster, list[tuple[int, ...] | None]()

        def check() -> None:
            if self.identity(stream) != seen[0]:
                raise StreamNotFoundError(f'stream "{stream}" does not exist')

        def seal() -> tuple[int, ...] | None:
            cluster.check()
            seen.append(self.identity(stream))
            check()
            cluster.world.call("sealStream", cluster.seal)
            while not cluster.is_gone and (cluster.committing or cluster.aborting or cluster.scale):
                cluster.world.sleep(0.01)
            cluster.check()
            # A request that was under way may have met another stream.
            cluster.is_sealed = True
            check()
            return seen[0]

        return seal

    def delete_stream(self, stream: Stream) -> bool:
        return self._cluster.world.call("deleteStream", self._cluster.delete)

    def create_stream(self, stream: Stream, configuration: Any = None) -> bool:
        return self._cluster.world.call("createStream", self._cluster.make_again)

    def is_sealed(self, stream: Stream) -> bool:
        self._cluster.check()
        return self._cluster.is_sealed

    def subscribers(self, stream: Stream) -> list[str]:
        self._cluster.check()
        return []

    def stream_exists(self, stream: Stream) -> bool:
        return not self._cluster.is_gone

    def current_segments(self, stream: Stream, access: Access = Access.NONE) -> StreamSegments:
        self._cluster.check()
        if self._cluster.is_sealed:
            return StreamSegments(stream=stream, ranges=())
        return super().current_segments(stream, access)

    def epoch_segments(self, stream: Stream, epoch: int) -> StreamSegments:
        self._cluster.check()
        return super().epoch_segments(stream, epoch)

    def segments_between(self, stream: Stream, start: Any = None, end: Any = None) -> tuple[int, ...]:
        cluster = self._cluster
        cluster.check()
        if any(segment_id not in cluster.ranges for cut in (start or {}, end or {}) for segment_id in cut):
            raise InvalidStreamCutError("it is of another stream")
        return super().segments_between(stream, start, end)

    def is_stream_cut_valid(self, stream: Stream, cut: Mapping[int, int]) -> bool:
        return all(segment_id in self._cluster.ranges for segment_id in cut)


class _Deleted(dict[bytes, Entry]):
    """The entries of a table that isn't there any more."""

    def get(self, *_: object) -> NoReturn:
        raise SegmentNotFoundError("the key-value table is deleted")

    __iter__ = get
