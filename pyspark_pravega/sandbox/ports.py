"""TCP ports of this machine: free ones, taken ones, and who listens."""

from __future__ import annotations

import os
import random
import socket
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path

from pyspark_pravega.errors import SandboxError

# Below the range from which systems give out ports to outgoing connections, so that none of these takes ours between
# choosing it and listening on it.
_FIRST, _LAST = 20000, 32000
_TRIES = 500
_LISTEN = "0A"


class Listener(Enum):
    """Who listens on a port."""

    NOBODY = "nobody"
    OURS = "the process that was asked about"
    ANOTHER = "another process"
    UNKNOWN = "this system doesn't tell"


def free_ports(count: int, *, besides: Iterable[int | None] = ()) -> list[int]:
    """Choose ports that nobody uses now.

    Args:
        count: how many.
        besides: ports that aren't to be chosen.

    Returns:
        Different ports; another process may take one before you do.

    Raises:
        SandboxError: hardly any port is free.
    """
    chosen: list[int] = []
    excluded = set(besides)
    generator = random.SystemRandom()
    for _ in range(_TRIES):
        if len(chosen) == count:
            return chosen
        port = generator.randint(_FIRST, _LAST)
        if port not in chosen and port not in excluded and is_free(port):
            chosen.append(port)
    raise SandboxError(f"found no {count} free ports between {_FIRST} and {_LAST}")


def is_free(port: int) -> bool:
    """Whether a server could listen on a port, on loopback and on every address.

    Args:
        port: 1 to 65535.

    Returns:
        False when it's taken, or may not be used by this user.
    """
    for host in ("127.0.0.1", ""):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As Java's server sockets do: ports of connections that have just ended are free to them.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                probe.listen(1)
            except OSError:
                return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(("::", port))
                probe.listen(1)
            except OSError:
                return not _has_ipv6()
    except OSError:
        pass
    return True


def require_free(given: Mapping[str, int | None]) -> None:
    """Refuse ports that can't be had.

    Args:
        given: argument to port; None where it isn't given.

    Raises:
        SandboxError: two are the same, or one is taken, or is none.
    """
    ports = [port for port in given.values() if port is not None]
    if len(ports) != len(set(ports)):
        raise SandboxError(f"{' and '.join(given)} are both {ports[0]}: they must differ")
    for argument, port in given.items():
        if port is None:
            continue
        if not 0 < port < 65536:
            raise SandboxError(f"{argument} must be between 1 and 65535, not {port}")
        if not is_free(port):
            raise SandboxError(f"{argument} {port} is taken: end what listens there, or choose another port")


def listeners(ports: Iterable[int], pid: int) -> dict[int, Listener]:
    """Tell for some ports whether a process listens there, or somebody else.

    A server that lost its port to another one can hang without a word in its log (Pravega's segment store does), and
    then the other one would answer in its place. To look takes some 10 ms of CPU, for however many ports: Linux goes
    through all connections.

    Args:
        ports: the ports.
        pid: a process of this user.

    Returns:
        Who listens on each.
    """
    ports = list(ports)
    if sys.platform != "linux":
        return dict.fromkeys(ports, Listener.UNKNOWN)
    sockets = _listening_sockets()
    others = Listener.ANOTHER
    own = set[str]()
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    own.add(os.readlink(entry.path))
    except FileNotFoundError:
        pass
    except PermissionError:
        others = Listener.UNKNOWN
    return {
        port: Listener.OURS if own & sockets.get(port, set()) else others if port in sockets else Listener.NOBODY
        for port in ports
    }


def _listening_sockets() -> dict[int, set[str]]:
    """Port to the sockets that listen on it, as links to open files name them."""
    sockets = defaultdict[int, set[str]](set)
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN:
                sockets[int(fields[1].rpartition(":")[2], 16)].add(f"socket:[{fields[9]}]")
    return sockets


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True
