"""The few requests of ZooKeeper's own protocol that a cluster's start needs."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox.java import LOOPBACK

_CALL_S = 5.0
_SESSION_MS = 10_000
_CREATE, _DELETE, _CHILDREN, _CLOSE = 1, 2, 12, -11
_NO_NODE, _THERE = -101, -110
_OWNER = struct.Struct(">q")
_OWNER_AT = -24
"""Where the session that holds a node stands, from the end of what is told of the node."""


def answers(port: int) -> str | None:
    """Ask whether it serves.

    Args:
        port: ZooKeeper's.

    Returns:
        None when it does, else what was wrong.
    """
    try:
        with socket.create_connection((LOOPBACK, port), timeout=_CALL_S) as connection:
            connection.sendall(b"srvr")
            said = connection.makefile("rb").read()
    except OSError as error:
        return f"ZooKeeper: {error}"
    return None if b"Mode:" in said else "ZooKeeper doesn't serve"


class Session:
    """A connection to ZooKeeper."""

    def __init__(self, connection: socket.socket) -> None:
        """Begin a session.

        Args:
            connection: open, and nobody else's.
        """
        self._connection = connection
        self._answers = connection.makefile("rb")
        self._number = 0
        self._call(struct.pack(">iqiq", 0, 0, _SESSION_MS, 0) + _text(b"\0" * 16) + b"\0")

    def make(self, path: str) -> None:
        """Make a node, and its parents, that anybody may change; those that are there stay.

        Args:
            path: the node's.
        """
        anybody = struct.pack(">ii", 1, 31) + _text(b"world") + _text(b"anyone")
        names = path.split("/")
        for depth in range(2, len(names) + 1):
            node = _text("/".join(names[:depth]).encode())
            self._ask(_CREATE, node + _text(b"") + anybody + struct.pack(">i", 0), besides=_THERE)

    def children(self, path: str) -> list[str]:
        """The names of a node's children; none where there is no such node."""
        return self._look(path)[0]

    def forget_the_dead(self, path: str = "/") -> None:
        """Remove what servers of an earlier start hold by their sessions, which nobody would believe dead for seconds.

        Args:
            path: a node; what it has is looked at, too.
        """
        children, owner = self._look(path)
        if owner:
            self._ask(_DELETE, _text(path.encode()) + struct.pack(">i", -1), besides=_NO_NODE)
        for child in children:
            self.forget_the_dead(f"{path.rstrip('/')}/{child}")

    def close(self) -> None:
        """End the session."""
        self._number += 1
        self._connection.sendall(struct.pack(">iii", 8, self._number, _CLOSE))
        self._answers.close()

    def _look(self, path: str) -> tuple[list[str], int]:
        """The names of a node's children, and the session that holds it; 0: none does."""
        answer = self._ask(_CHILDREN, _text(path.encode()) + b"\0", besides=_NO_NODE)
        if not answer:
            return [], 0
        (count,) = struct.unpack_from(">i", answer)
        names, at = list[str](), 4
        for _ in range(count):
            (size,) = struct.unpack_from(">i", answer, at)
            names.append(answer[at + 4 : at + 4 + size].decode())
            at += 4 + size
        (owner,) = _OWNER.unpack_from(answer, len(answer) + _OWNER_AT)
        return names, owner

    def _ask(self, kind: int, request: bytes, *, besides: int) -> bytes:
        self._number += 1
        answer = self._call(struct.pack(">ii", self._number, kind) + request)
        _, _, error = struct.unpack_from(">iqi", answer)
        if error not in (0, besides):
            raise SandboxError(f"ZooKeeper answers {error} to a request of kind {kind}")
        return answer[16:]

    def _call(self, request: bytes) -> bytes:
        self._connection.sendall(struct.pack(">i", len(request)) + request)
        size = self._answers.read(4)
        if len(size) < 4:
            raise SandboxError("ZooKeeper has closed the connection")
        return self._answers.read(struct.unpack(">i", size)[0])


@contextmanager
def session(port: int) -> Iterator[Session]:
    """Speak to ZooKeeper.

    Args:
        port: its port.

    Yields:
        A session, which ends with the block.

    Raises:
        SandboxError: it refuses something, or doesn't answer.
    """
    try:
        with socket.create_connection((LOOPBACK, port), timeout=_CALL_S) as connection:
            opened = Session(connection)
            try:
                yield opened
            finally:
                opened.close()
    except OSError as error:
        raise SandboxError(f"ZooKeeper at port {port} doesn't answer: {error}") from error


def _text(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content
