"""Two requests of ZooKeeper's own protocol: whether it serves, and nodes to be made."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

HOST = "127.0.0.1"
_THERE = -110
"""The node is there already."""
_CREATE, _CLOSE = 1, -11


def serves(port: int) -> bool:
    """Whether ZooKeeper answers."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(b"srvr")
            return b"Mode:" in connection.recv(65536)
    except OSError:
        return False


def make_nodes(port: int, paths: Sequence[str]) -> None:
    """Make nodes that anybody may change; those that are there stay.

    Args:
        port: ZooKeeper's.
        paths: the nodes, parents before their children.
    """
    with socket.create_connection((HOST, port), timeout=5) as connection, connection.makefile("rb") as answers:

        def ask(request: bytes) -> bytes:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", answers.read(4))
            return answers.read(size)

        ask(struct.pack(">iqiq", 0, 0, 10_000, 0) + _text(b"\0" * 16) + b"\0")
        anybody = struct.pack(">ii", 1, 31) + _text(b"world") + _text(b"anyone")
        for number, path in enumerate(paths, 1):
            request = struct.pack(">ii", number, _CREATE) + _text(path.encode()) + _text(b"") + anybody
            _, _, error = struct.unpack(">iqi", ask(request + struct.pack(">i", 0))[:16])
            assert error in (0, _THERE), f"ZooKeeper answers {error} to the making of {path}"
        connection.sendall(struct.pack(">iii", 8, len(paths) + 1, _CLOSE))


def _text(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content
