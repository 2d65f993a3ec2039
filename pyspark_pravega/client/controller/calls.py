"""What the parts of `Controller` share: its calls, its pages, and the errors of what isn't there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from google.protobuf.message import Message

from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller.rpc import ControllerRpc, Reply
from pyspark_pravega.client.names import Stream
from pyspark_pravega.deadlines import Limit, Retries
from pyspark_pravega.errors import (
    KeyValueTableNotFoundError,
    LostAnswerError,
    NotFoundError,
    ScopeNotFoundError,
    StreamNotFoundError,
    StreamSealedError,
    UnclearAnswerError,
)

NO_TIMESTAMP = -(2**63)
_UNCLEAR_TRIES, _UNCLEAR_PAUSE_S = 3, 0.1


class ControllerCalls:
    """The base of every part of `Controller`, which sets the attribute."""

    _rpc: ControllerRpc

    def scope_exists(self, scope: str) -> bool:
        """Whether there is such a scope."""
        return self._call("checkScopeExists", pb.ScopeInfo(scope=scope), pb.BoolReply).value

    def _call(
        self, method: str, request: Message, reply: type[Reply], *, missing: NotFoundError | None = None
    ) -> Reply:
        return self._rpc.call(method, request, reply, missing=missing)

    def _status(self, method: str, request: Message, *, missing: NotFoundError | None = None) -> int:
        return self._rpc.status(method, request, missing=missing)

    def _create(self, method: str, request: Message) -> tuple[int, bool]:
        """Call a method that makes something, again where an answer doesn't tell whether that was done.

        Returns:
            The last status, and whether a call before may have made it.
        """
        limit, retries, unclear = Limit(self._rpc.timeout), Retries(self._rpc.timeout), 0
        while True:
            try:
                return self._status(method, request), unclear > 0
            except LostAnswerError:
                unclear = max(unclear, 1)
                if not retries.again():
                    raise
            except UnclearAnswerError:
                unclear += 1
                if unclear >= _UNCLEAR_TRIES or not limit.wait(_UNCLEAR_PAUSE_S):
                    raise

    def _pages(self, method: str, request: Callable[[str], Message], reply: type[Reply], field: str) -> Iterator[Reply]:
        """A listing's pages, each asked for when the one before is used up.

        Args:
            method: the listing.
            request: the request that goes on behind a token.
            reply: the class of a page.
            field: where a page has its entries. The token never ends: an empty page does.
        """
        token = ""
        while True:
            page = self._call(method, request(token), reply)
            yield page
            if not getattr(page, field):
                return
            token = page.continuation_token.token  # type: ignore[attr-defined]


def no_scope(scope: str) -> ScopeNotFoundError:
    """The error of a scope that isn't there."""
    return ScopeNotFoundError(f'scope "{scope}" does not exist: create it first')


def no_stream(stream: Stream) -> StreamNotFoundError:
    """The error of a stream that isn't there."""
    return StreamNotFoundError(f'stream "{stream}" does not exist')


def no_table(scope: str, table: str) -> KeyValueTableNotFoundError:
    """The error of a key-value table that isn't there."""
    return KeyValueTableNotFoundError(f'key-value table "{scope}/{table}" does not exist')


def stream_sealed(stream: Stream, what: str) -> StreamSealedError:
    """The error of a stream that is sealed.

    Args:
        stream: the stream.
        what: what can't be done any more: "updated", "scaled".
    """
    return StreamSealedError(f'stream "{stream}" is sealed: it can\'t be {what} any more')
