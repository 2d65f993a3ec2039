"""What the parts of `Controller` share: its calls, its pages, and the errors of what isn't there."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller.rpc import ControllerRpc, Reply
from pyspark_pravega.client.names import Stream
from pyspark_pravega.deadlines import Limit, Retries
from pyspark_pravega.errors import (
    AuthenticationError,
    KeyValueTableNotFoundError,
    LostAnswerError,
    NotFoundError,
    OperationFailedError,
    ScopeNotFoundError,
    StreamNotFoundError,
    StreamSealedError,
    UnavailableError,
    UnclearAnswerError,
)

NO_TIMESTAMP = -(2**63)
FAILED, GONE = 1, 2
"""The statuses of most answers by which the controller says that it has failed, and that there is no such thing."""
_UNCLEAR_TRIES, _UNCLEAR_PAUSE_S = 3, 0.1


Identity = TypeVar("Identity", bound=Hashable)


class _ReplacedError(Exception):
    """What was to end is gone, and there is another one of its name."""


class Ending:
    """Calls a method that deletes or seals something, as often as it is called itself.

    An answer gets lost, and somebody makes another thing of that name before the call is made again. So the first call
    looks first what is there, and each further one whether it is still the same. What arrives at a controller and isn't
    done for some time can't be held back.
    """

    def __init__(
        self, call: Callable[..., int], identity: Callable[[], Hashable], still: Callable[[], bool] | None = None
    ) -> None:
        """Nothing is called yet.

        Args:
            call: makes the call and returns its status; it calls its `look` before it makes the call again.
            identity: asks for what tells things of one name from each other.
            still: is asked behind that, whether it is to end at all.
        """
        self._call, self._identity, self._still = call, identity, still
        self._seen: list[Hashable] = []

    def __call__(self) -> int:
        """Make the call; returns its status, `GONE` where there is another thing of that name by now."""
        try:
            self._look()
            return self._call(look=self._look)
        except _ReplacedError:
            return GONE

    @property
    def may_be_done(self) -> bool:
        """Whether there was something, and a call before the last one may have ended it."""
        return len(self._seen) > 1 and self._seen[0] is not None

    def _look(self) -> None:
        self._seen.append(known(self._identity))
        # What is half gone has none, and is still to be ended.
        if None not in (self._seen[0], self._seen[-1]) and self._seen[0] != self._seen[-1]:
            raise _ReplacedError
        if self._still is not None and not self._still():
            raise _ReplacedError


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

    def _reply_unless_failed(
        self, method: str, request: Message, reply: type[Reply], *, missing: NotFoundError | None = None
    ) -> tuple[Reply, bool]:
        """As `_call`, again for as long as the reply's status says that it failed; and whether it was called again."""
        replies: list[Reply] = []

        def ask() -> int:
            replies[:] = [self._call(method, request, reply, missing=missing)]
            # Scopes are listed without one.
            status: int = getattr(replies[0], "status", 0)
            return status

        _, repeated = self._unless_failed(method, ask)
        return replies[0], repeated

    def _ending(
        self,
        method: str,
        request: Message,
        identity: Callable[[], Hashable],
        *,
        missing: NotFoundError | None = None,
        still: Callable[[], bool] | None = None,
    ) -> Ending:
        """What calls a method that deletes or seals something; arguments as those of `Ending`."""
        return Ending(partial(self._rpc.status, method, request, missing=missing), identity, still)

    def _create(self, method: str, request: Message) -> tuple[int, bool]:
        """Call a method that makes something, again where the controller says that it failed, or doesn't tell.

        Returns:
            The last status, and whether a call before may have made it.
        """
        is_unclear = False

        def ask() -> int:
            nonlocal is_unclear
            status, unclear = self._answer_of_creation(method, request)
            is_unclear |= unclear
            return status

        status, repeated = self._unless_failed(method, ask)
        return status, is_unclear or repeated

    def _answer_of_creation(self, method: str, request: Message) -> tuple[int, bool]:
        """As `_create`, but an answer that tells is the last one, whatever it says."""
        limit, retries, unclear = Limit(self._rpc.timeout), Retries(self._rpc.timeout), 0
        while True:
            try:
                return self._status(method, request), unclear > 0
            except LostAnswerError:
                unclear = max(unclear, 1)
                if not retries.again():
                    raise
            except UnclearAnswerError as error:
                unclear += 1
                if error.passes:
                    # It says what it lacks: that is waited for.
                    if not retries.again():
                        raise
                elif unclear >= _UNCLEAR_TRIES or not limit.wait(_UNCLEAR_PAUSE_S):
                    raise

    def _unless_failed(self, method: str, ask: Callable[[], int], *, failed: int = FAILED) -> tuple[int, bool]:
        """Make a call again for as long as the controller says that it failed: it does so, and without a reason, while
        it can't reach what it needs itself.

        Args:
            method: the call, for the log.
            ask: makes it, and returns its status.
            failed: the status that says so.

        Returns:
            The last status, and whether it wasn't the first one: then a call before may have done it.
        """
        retries, begun, reason = Retries(self._rpc.timeout), time.monotonic(), f"says that {method} has failed"
        while (status := ask()) == failed and self._rpc.again(retries, begun, reason):
            pass
        return status, retries.failures > 0

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
            page, _ = self._reply_unless_failed(method, request(token), reply)
            yield page
            if not getattr(page, field):
                return
            token = page.continuation_token.token  # type: ignore[attr-defined]


def known(identity: Callable[[], Identity]) -> Identity | None:
    """What tells a thing from others of its name; None where it is gone, half gone, or can't be told.

    Args:
        identity: asks for it.
    """
    try:
        return identity()
    except UnavailableError as error:
        if isinstance(error, UnclearAnswerError) and not error.passes:
            return None
        raise
    except (AuthenticationError, NotFoundError, OperationFailedError):
        return None


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
