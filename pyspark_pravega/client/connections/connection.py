"""One blocking connection to a segment store: the wire protocol's core on a socket, with deadlines."""

from __future__ import annotations

import errno
import itertools
import socket
import ssl
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self, TypeVar

from pyspark_pravega.client.connections.absent import PING_AFTER_S, Presence
from pyspark_pravega.client.wire import Buffer, FrameDecoder, UnknownCommand, encode_frame
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.deadlines import Limit
from pyspark_pravega.errors import (
    AuthenticationError,
    CertificateError,
    ConflictError,
    NoAnswerError,
    OpenFilesError,
    OperationFailedError,
    PravegaError,
    SegmentNotFoundError,
    SegmentSealedError,
    SegmentStoreUnavailableError,
    SegmentTruncatedError,
    TokenExpiredError,
    TransactionError,
    WireError,
    WrongHostError,
)
from pyspark_pravega.security import Tls

RECEIVE_BUFFER_BYTES = 4 << 20
WAKE_BYTES = 512 << 10
"""A large answer wakes this process when so much of it has come, not for each packet: of what receiving a megabyte
costs that saves a quarter (9 wake-ups and 0.20 ms of CPU before; 2.6 and about 0.15 ms)."""
_LARGE_BYTES = 128 << 10
"""What is missing of a large answer, at least."""
_SMALL_REPLIES_BYTES = 64 << 10
"""What is taken at once of small answers: less than `_LARGE_BYTES`, so nobody waits for more to come."""
TOKEN_EXPIRED = 1
"""`AuthTokenCheckFailed.code` of a token that is too old."""


Expected = TypeVar("Expected", bound=wire.Command)


class Connection:
    """A connection to one segment store. Used by one thread at a time; a context manager."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout: float,
        tls: Tls | None = None,
        connect_s: float | None = None,
        presence: Presence | None = None,
    ) -> None:
        """Connect and exchange greetings.

        Args:
            host: the segment store's host.
            port: its port.
            timeout: for each reply, in seconds.
            tls: which servers to believe; None for a connection without TLS.
            connect_s: for connecting and the greeting, in seconds; `timeout` when None.
            presence: what others know of the segment store: who waits for an answer asks it whether the segment store
                is there. None for a connection of its own, which waits until the time-out.

        Raises:
            SegmentStoreUnavailableError: nothing answers there.
            OpenFilesError: this process has as many files open as it may.
            CertificateError: the segment store's certificate isn't trusted.
        """
        self.endpoint = (host, port)
        self.timeout = timeout
        self.healthy = True
        self.used_at = time.monotonic()
        """When the last reply came, by `time.monotonic`."""
        self._ids = itertools.count(1)
        self._decoder = FrameDecoder()
        self._wakes_at = 1
        self._presence = presence
        connect_s = timeout if connect_s is None else min(connect_s, timeout)
        self._socket = self._connect(tls, Limit(connect_s).cap(connect_s))
        # Pools of clients that nobody closes end with the process, or when the last one who knew them forgets them.
        self._end = weakref.finalize(self, self._socket.close)
        try:
            self.send(wire.Hello())
            greeting = self.receive(timeout=connect_s)
            if not isinstance(greeting, wire.Hello) or greeting.low_version > wire.WIRE_VERSION:
                raise WireError(f"{host}:{port} doesn't speak a segment store's protocol that this client knows")
            self.opened_at = time.monotonic()
            """When the segment store had answered, by `time.monotonic`."""
            self.greeting = greeting
            """The segment store's: it tells which release it is of."""
        except PravegaError:
            self.close()
            raise

    def _connect(self, tls: Tls | None, timeout: float) -> socket.socket:
        host, port = self.endpoint
        try:
            plain = socket.create_connection((host, port), timeout)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise _no_files(error, f"{host}:{port}") from None
            raise self._unavailable(
                f"no Pravega segment store answers at {host}:{port} ({error.strerror or error}): "
                "check that this machine can reach the address that the controller names",
                error,
            ) from None
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        if tls is None:
            return plain
        try:
            return tls.ssl_context().wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise CertificateError(
                f"the certificate of segment store {host}:{port} isn't trusted ({error.verify_message}): set tls-ca "
                "(or PRAVEGA_TLS_CA) to the PEM file of the authority that signed it, and use a name that it is for"
            ) from None
        except OSError as error:
            plain.close()
            raise self._unavailable(
                f"segment store {host}:{port} doesn't speak TLS, or none that is safe ({error.strerror or error})",
                error,
            ) from None
        except PravegaError:
            plain.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.healthy = False
        self._end()

    def next_id(self) -> int:
        """A request id that this connection hasn't used."""
        return next(self._ids)

    def is_sound(self) -> bool:
        """Whether the other side still answers, found out by a keep-alive."""
        try:
            self.send(wire.KeepAlive())
            return isinstance(self._next(self._deadline(None)), wire.KeepAlive)
        except PravegaError:
            return False

    def send(self, *commands: wire.Command) -> None:
        """Send commands, small ones together.

        Args:
            commands: one or more.

        Raises:
            SegmentStoreUnavailableError: the connection is lost.
        """
        pieces = [piece for command in commands for piece in encode_frame(command)]
        deadline = self._deadline(None)
        try:
            for piece in pieces if len(commands) == 1 else [b"".join(pieces)]:
                self._send(piece, deadline)
        except OSError as error:
            self._lost(error)

    def receive(self, *, timeout: float | None = None) -> wire.Command:
        """The next reply; keep-alives are passed over.

        Args:
            timeout: seconds to wait; the connection's own when None.

        Raises:
            SegmentStoreUnavailableError: nothing came in time, or the connection is lost.
            WireError: what came isn't the protocol.
        """
        deadline = self._deadline(timeout)
        while isinstance(reply := self._next(deadline), wire.KeepAlive):
            pass
        return reply

    def poll(self, timeout: float) -> wire.Command | None:
        """The next reply, keep-alives among them, if one comes soon; the connection stays usable if none does.

        Args:
            timeout: seconds to wait.

        Raises:
            SegmentStoreUnavailableError: the connection is lost.
            WireError: what came isn't the protocol.
        """
        try:
            return self._next(time.monotonic() + timeout)
        except NoAnswerError:
            self.healthy = True
            return None

    def call(self, command: wire.Command, expected: type[Expected]) -> Expected:
        """Send a command and wait for its reply.

        Args:
            command: what to send.
            expected: the class of the reply that means success.

        Raises:
            PravegaError: what a failure reply stands for; see `failure`.
        """
        self.send(command)
        return self.expect(self.receive(), expected)

    def expect(self, reply: wire.Command, expected: type[Expected]) -> Expected:
        """Narrow a reply to what was expected, or raise what a failure stands for."""
        if isinstance(reply, expected):
            return reply
        if isinstance(reply, wire.Failure):
            raise failure(reply)
        self.healthy = False
        raise WireError(f"{self._name} answered {type(reply).__name__} where {expected.__name__} was expected")

    def _deadline(self, timeout: float | None) -> float:
        seconds = self.timeout if timeout is None else timeout
        return time.monotonic() + Limit(seconds).cap(seconds)

    @property
    def _name(self) -> str:
        return f"segment store {self.endpoint[0]}:{self.endpoint[1]}"

    def replies(self, count: int, *, timeout: float | None = None) -> Iterator[wire.Command]:
        """The next replies where all are small: as many as have come are taken at once, not one after another.

        Args:
            count: how many, keep-alives aside; nothing else is under way.
            timeout: seconds to wait for the next one; the connection's own when None.

        Yields:
            The replies in the order in which they come.

        Raises:
            SegmentStoreUnavailableError: nothing came in time, or the connection is lost.
            WireError: what came isn't the protocol.
        """
        memory = memoryview(bytearray(_SMALL_REPLIES_BYTES))
        while count > 0:
            received = self._receive_into(memory, self._deadline(timeout))
            try:
                commands = [self._known(command) for command in self._decoder.feed(memory[:received])]
            except WireError:
                self.healthy = False
                raise
            for command in commands:
                if not isinstance(command, wire.KeepAlive):
                    count -= 1
                    yield command
        if count < 0:
            self.healthy = False
            raise WireError(f"{self._name} sent more answers than it was asked for")

    def _next(self, deadline: float) -> wire.Command:
        try:
            while True:
                reply = self._decoder.filled(self._receive_into(self._decoder.next_buffer(), deadline))
                if reply is not None:
                    return self._known(reply)
        except WireError:
            self.healthy = False
            raise

    def _receive_into(self, target: memoryview, deadline: float) -> int:
        """Some bytes, as soon as there are any."""
        try:
            while True:
                self._settle_timeout(deadline)
                self._wake_at(min(len(target), WAKE_BYTES) if len(target) >= _LARGE_BYTES else 1)
                try:
                    count = self._socket.recv_into(target)
                except TimeoutError:
                    self._still_waits(deadline)
                    continue
                if count == 0:
                    self._lost(ConnectionResetError("closed by the server"))
                return count
        except OSError as error:
            self._lost(error)

    def _known(self, reply: wire.Command | UnknownCommand) -> wire.Command:
        if isinstance(reply, UnknownCommand):
            raise WireError(f"{self._name} sent a command of type {reply.type}, which this client doesn't know")
        self.used_at = time.monotonic()
        if self._presence is not None:
            self._presence.heard()
        return reply

    def _send(self, piece: Buffer, deadline: float) -> None:
        left = memoryview(piece)
        self._settle_timeout(deadline)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except TimeoutError:
                self._still_waits(deadline)

    def _settle_timeout(self, deadline: float) -> None:
        """How long the next call of the socket may take: no longer than until somebody asks whether it is there."""
        left = max(0.001, deadline - time.monotonic())
        self._socket.settimeout(left if self._presence is None else min(left, PING_AFTER_S))

    def _still_waits(self, deadline: float) -> None:
        """Nothing has come, or could be sent, for a while.

        Raises:
            TimeoutError: the time is over.
            SegmentStoreUnavailableError: the segment store isn't there.
        """
        if self._presence is None or time.monotonic() >= deadline:
            raise TimeoutError
        try:
            self._presence.check()
        except PravegaError:
            self.healthy = False
            raise
        self._settle_timeout(deadline)

    def _wake_at(self, count: int) -> None:
        """Have the system wait until so many bytes have come, of which it is known that they will."""
        if count != self._wakes_at and sys.platform.startswith("linux") and not isinstance(self._socket, ssl.SSLSocket):
            self._wakes_at = count
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def check_presence(self, silent_s: float) -> None:
        """Find out whether the segment store is there, where it has been silent on all connections.

        Args:
            silent_s: for how long, in seconds.

        Raises:
            SegmentStoreUnavailableError: it isn't.
        """
        if self._presence is not None:
            self._presence.check(silent_s)

    def _lost(self, error: OSError) -> NoReturn:
        self.healthy = False
        if isinstance(error, TimeoutError):
            waits = NoAnswerError(
                f"the connection to {self._name} was lost: no answer in time; it can be reached, so it is overloaded, "
                "or throttles while it moves data to long-term storage: write less at a time, or set a longer timeout"
            )
            waits.gone, waits.reason = self._name, "no answer in time"
            raise waits from None
        reason = error.strerror or error
        raise self._unavailable(f"the connection to {self._name} was lost: {reason}", error) from None

    def _unavailable(self, message: str, error: OSError) -> SegmentStoreUnavailableError:
        unavailable = SegmentStoreUnavailableError(message)
        unavailable.gone, unavailable.reason = self._name, str(error.strerror or error)
        return unavailable


def _no_files(error: OSError, endpoint: str) -> OpenFilesError:
    if error.errno == errno.ENFILE:
        return OpenFilesError(
            f"no connection to segment store {endpoint} can be opened: this machine has as many files open as it may "
            "(ENFILE): end what holds them, or raise fs.file-max"
        )
    # Not everywhere is this module.
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OpenFilesError(
        f"no connection to segment store {endpoint} can be opened: this process may open {most} files (EMFILE), and "
        "has them all: raise the limit, as by `ulimit -n`, where the program is started, or do less at once"
    )


def failure(reply: wire.Failure) -> PravegaError:
    """The error that a failure reply stands for.

    Args:
        reply: what the segment store answered.
    """
    make = _FAILURES.get(type(reply))
    return make(reply) if make else WireError(f"unexpected {type(reply).__name__}")


_FAILURES: dict[type[wire.Command], Callable[[Any], PravegaError]] = {
    wire.WrongHost: lambda r: WrongHostError(
        f'segment "{r.segment}" has moved to another segment store ({r.correct_host})'
        if r.correct_host
        else f'segment "{r.segment}" is with no segment store just now: one has died or is being started, and Pravega '
        "moves its segments, which takes up to a minute",
        r.correct_host,
    ),
    wire.SegmentIsSealed: lambda r: SegmentSealedError(f'segment "{r.segment}" is sealed'),
    wire.SegmentAlreadyExists: lambda r: OperationFailedError(f'segment "{r.segment}" exists already'),
    wire.NoSuchSegment: lambda r: SegmentNotFoundError(f'segment "{r.segment}" does not exist'),
    wire.SegmentIsTruncated: lambda r: SegmentTruncatedError(
        f'segment "{r.segment}" begins at offset {r.start_offset}: offset {r.offset} has been truncated'
    ),
    wire.InvalidEventNumber: lambda r: TransactionError(f"another writer took over from writer {r.writer_id}"),
    wire.OperationUnsupported: lambda r: OperationFailedError(
        f"the segment store doesn't know {r.operation}: Pravega 0.11 or newer is needed"
    ),
    wire.AuthTokenCheckFailed: lambda r: (
        TokenExpiredError("the segment store refused the delegation token: it has expired")
        if r.code == TOKEN_EXPIRED
        else AuthenticationError("the segment store refused the delegation token: may this user do that?")
    ),
    wire.ErrorMessage: lambda r: OperationFailedError(
        f'the segment store failed on segment "{r.segment}": {r.message} (code {r.code})'
    ),
    wire.TableSegmentNotEmpty: lambda r: OperationFailedError(f'table segment "{r.segment}" still holds entries'),
    wire.TableKeyDoesNotExist: lambda r: ConflictError(f'a key of table segment "{r.segment}" is gone'),
    wire.TableKeyBadVersion: lambda r: ConflictError(f'an entry of table segment "{r.segment}" has been changed'),
}
