"""The product's controller above calls that a cluster in memory answers."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from pyspark_pravega.client import Stream, StreamCut, StreamSegments, Transaction
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.transactions import ControllerTransactions
from pyspark_pravega.client.names import Access, Successor
from pyspark_pravega.deadlines import ATTEMPT_S, Limit
from pyspark_pravega.errors import InvalidStreamCutError, NotFoundError, UnclearAnswerError

if TYPE_CHECKING:
    from cluster_model import ClusterModel

_FAILURE = 1


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
            return cluster.world.call(method, lambda: cluster.ping(transaction, request.lease))  # type: ignore[attr-defined]
        world = cluster.world
        # As each call of the real one: nothing is sent behind the caller's deadline.
        Limit(self._rpc.timeout).cap(ATTEMPT_S)
        asked = cluster.asked(transaction)
        action = {"commitTransaction": asked.commit, "abortTransaction": cluster.abort}[method]
        if not world.calm and world.rng.random() < world.profile.failure:
            # It says that it failed, and has done it all the same, or hasn't.
            if world.rng.random() < 0.5:
                world.call(f"{method} fails, done", lambda: action(transaction))
            else:
                world.call(f"{method} fails", int)
            if world.answers.random() < 0.5:
                # As it does when it can't tell its own event stream of a commit that it has noted.
                raise UnclearAnswerError(f"failed in {method}: UNKNOWN")
            return _FAILURE
        return world.call(method, lambda: action(transaction))

    def begin_transaction(self, stream: Stream, *, lease_ms: int) -> Transaction:
        cluster = self._cluster
        begun: list[Transaction] = []

        def begin() -> None:
            begun.append(cluster.begin())

        cluster.world.call("createTransaction", begin, once=True)
        return begun[0]

    def truncate_stream(self, stream: Stream, cut: Mapping[int, int]) -> None:
        if self._cluster.truncate(dict(cut)) != 0:
            raise InvalidStreamCutError("it wasn't truncated")

    def stream_exists(self, stream: Stream) -> bool:
        return True

    def current_segments(self, stream: Stream, access: Access = Access.NONE) -> StreamSegments:
        return self._cluster.current

    def epoch_segments(self, stream: Stream, epoch: int) -> StreamSegments:
        epochs = self._cluster.epochs
        if epoch >= len(epochs):
            raise NotFoundError(f"there is no epoch {epoch}")
        return epochs[epoch].segments

    def segments_between(self, stream: Stream, start: Any = None, end: Any = None) -> tuple[int, ...]:
        cluster = self._cluster
        start = cluster.head if start is None else start
        found = cluster.behind(start) if end is None else cluster.behind(start) & cluster.before(end)
        if end is not None and cluster.is_before(end, start):
            raise InvalidStreamCutError("the end lies before the start")
        return tuple(sorted(found))

    def is_stream_cut_valid(self, stream: Stream, cut: Mapping[int, int]) -> bool:
        return True

    def head(self, stream: Stream) -> StreamCut:
        cluster = self._cluster
        return StreamCut(stream, cluster.world.call("getSegments", lambda: dict(cluster.head)))

    def successors(self, stream: Stream, segment_id: int) -> tuple[Successor, ...]:
        cluster = self._cluster
        return cluster.world.call("successors", lambda: cluster.successors(segment_id))

    def stream_configuration(self, stream: Stream, access: Access = Access.NONE) -> Any:
        return self._cluster.world.call("getStreamConfiguration", lambda: self._cluster.configuration)

    def update_stream(self, stream: Stream, change: Any) -> None:
        before, world = self.stream_configuration(stream), self._cluster.world
        # It is refused while the stream is scaled, and asked for again.
        world.sleep(world.rng.choice((0.01, 0.5, 4.0)))
        world.step("updateStream")
        self._cluster.configuration = change(before)

    def create_key_value_table(self, scope: str, name: str, **_: int) -> bool:
        return False
