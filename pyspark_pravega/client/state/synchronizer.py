"""State that several processes share: each has a copy, and all apply the same updates in the same order.

The updates are the entries of a stream of one segment, appended only by who has seen all others
(`revisions.RevisionedStream`). The entries are laid out as those of StateSynchronizer of Pravega's Java client
(UpdateOrInitSerializer): `int32 1 | state`, or `int32 2` and then `int32 length | update` for each update.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar

from pyspark_pravega.client.connections import Cluster
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.state.revisions import RevisionedStream
from pyspark_pravega.errors import PravegaError, SegmentTruncatedError

__all__ = ["RevisionedStream", "StateSynchronizer"]

S = TypeVar("S")
U = TypeVar("U")

_STATE, _UPDATES = 1, 2
_INT = struct.Struct(">i")
TRIES = 5
"""To read a state that others compact again and again."""


def _to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class StateSynchronizer(Generic[S, U]):
    """A state that is shared through a stream. Safe for use by several threads; a context manager."""

    def __init__(
        self,
        client: Cluster,
        stream: Stream,
        *,
        initial: S,
        apply: Callable[[S, U], S],
        encode: Callable[[S | U], bytes] = _to_json,
        decode: Callable[[bytes], Any] = json.loads,
    ) -> None:
        """Share a state. It is read when it is first asked for.

        Args:
            client: the cluster.
            stream: a stream of one segment, which must never be scaled, and holds nothing else.
            initial: the state to begin with where the stream is empty.
            apply: makes a state from the state before and an update; must leave the state before as it is, and must do
                the same in every process.
            encode: states and updates to bytes; JSON when not given.
            decode: bytes to states and updates.

        Raises:
            StreamNotFoundError: there is no such stream.
            ConfigurationError: it has several segments.
        """
        self.stream = RevisionedStream(client, stream)
        self._initial, self._apply, self._encode, self._decode = initial, apply, encode, decode
        self._latest: tuple[S, int] | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self.stream.close()

    def state(self) -> S:
        """The state as it was last seen; fetched when it is asked for the first time."""
        latest = self._latest
        return self.fetch() if latest is None else latest[0]

    def fetch(self) -> S:
        """The state with all updates that are there now.

        Raises:
            SegmentStoreUnavailableError: the segment store can't be reached.
            PravegaError: the stream holds something else than such a state.
        """
        with self._lock:
            for _ in range(TRIES):
                try:
                    return self._catch_up()
                except SegmentTruncatedError:
                    # Others have put the state itself further on, and let go of the updates before it.
                    self._latest = None
            return self._catch_up()

    def update(self, make: Callable[[S], Iterable[U]]) -> S:
        """Change the state; tried again on the newest state until nobody else has changed it meanwhile.

        Args:
            make: gives the updates that are wanted in a state, which are made together; none leaves it as it is. It
                may be called several times, and with a state that isn't the newest; then what it gives isn't used.

        Returns:
            The state with these updates.

        Raises:
            SegmentStoreUnavailableError: the segment store couldn't be reached; where the updates may have been made,
                the message says so.
            SegmentSealedError: the stream is sealed.
            EventEncodeError: the updates together have more than 8 MiB.
        """
        with self._lock:
            state = self.state()
            while updates := list(make(state)):
                # Before it is written: nobody could apply what this process can't.
                changed = state
                for update in updates:
                    changed = self._apply(changed, update)
                if self._append(_UPDATES, b"".join(_framed(self._encode(update)) for update in updates), changed):
                    return changed
                state = self.fetch()
            return state

    def compact(self, make: Callable[[S], S | None] = lambda state: state) -> None:
        """Put the state itself into the stream, so that who comes later needn't apply all updates before.

        The stream is truncated to the state that was put there the last time, so that processes a little behind still
        find what they need.

        Args:
            make: gives the state that is put there; it must mean the same as the one it is given. None: don't compact.

        Raises:
            PravegaError: as `update`.
        """
        with self._lock:
            state = self.state()
            while (compacted := make(state)) is not None:
                begin = self._revision()
                if self._append(_STATE, self._encode(compacted), compacted):
                    before = self.stream.advance_mark(begin)
                    if before is not None:
                        self.stream.truncate_to(min(before, begin))
                    return
                state = self.fetch()

    def bytes_since_compaction(self) -> int:
        """How many bytes of entries were added since the state itself was put into the stream."""
        return max(0, self.stream.tail() - (self.stream.mark() or self.stream.head()))

    def _revision(self) -> int:
        assert self._latest is not None
        return self._latest[1]

    def _append(self, kind: int, content: bytes, state: S) -> bool:
        """Append an entry behind what is known, and know the state that it leads to."""
        revision = self.stream.append_conditionally(self._revision(), _INT.pack(kind) + content)
        if revision is None:
            return False
        self._latest = state, revision
        return True

    def _catch_up(self) -> S:
        while True:
            latest = self._latest
            begin = latest[1] if latest else self._begin()
            revision = begin
            for revision, entry in self.stream.read_from(begin):
                latest = self._after(latest, revision, entry)
            if latest is not None:
                self._latest = latest
                return latest[0]
            if revision != begin:
                raise self._foreign(revision)
            first = _INT.pack(_STATE) + self._encode(self._initial)
            behind = self.stream.append_conditionally(begin, first)
            if behind is not None:
                self._latest = self._initial, behind

    def _begin(self) -> int:
        mark, head = self.stream.mark(), self.stream.head()
        return head if mark is None else max(mark, head)

    def _after(self, latest: tuple[S, int] | None, revision: int, entry: bytes) -> tuple[S, int] | None:
        """The state after an entry; updates before the first state are passed over, as they are part of it."""
        kind = _INT.unpack_from(entry)[0] if len(entry) >= _INT.size else None
        if kind == _STATE:
            return self._decode(entry[_INT.size :]), revision
        if kind != _UPDATES:
            raise self._foreign(revision)
        if latest is None:
            return None
        state = latest[0]
        for update in self._updates(entry, revision):
            state = self._apply(state, self._decode(update))
        return state, revision

    def _updates(self, entry: bytes, revision: int) -> Iterator[bytes]:
        at = _INT.size
        while at < len(entry):
            length = _INT.unpack_from(entry, at)[0] if len(entry) - at >= _INT.size else -1
            at += _INT.size
            if not 0 <= length <= len(entry) - at:
                raise self._foreign(revision)
            yield entry[at : at + length]
            at += length

    def _foreign(self, revision: int) -> PravegaError:
        return PravegaError(
            f'the entry before revision {revision} of stream "{self.stream.stream}" is no part of a synchronised '
            "state: has something else been written there?"
        )


def _framed(update: bytes) -> bytes:
    return _INT.pack(len(update)) + update
