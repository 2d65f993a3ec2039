"""Where the servers of a sandbox listen, and what is asked there until they answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from pyspark_pravega.sandbox import readiness
from pyspark_pravega.sandbox.java import Ports
from pyspark_pravega.sandbox.ports import free_ports, is_free
from pyspark_pravega.sandbox.readiness import Access, Check
from pyspark_pravega.sandbox.security import Secured
from pyspark_pravega.sandbox.state import State
from pyspark_pravega.security import PasswordCredentials, Tls

NAMES = ("zookeeper", "segment_store", "controller", "registry")
_LINGER_S, _POLL_S = 2.0, 0.05
DURABLE_NAMES = (*NAMES, "bookie", "controller_rest")


def choose(names: Iterable[str], given: Mapping[str, int | None], former: Mapping[str, int]) -> dict[str, int]:
    """Choose ports: those that are given, else those of the last start where they are free, else any free ones.

    Args:
        names: what shall listen.
        given: ports that are settled; not those that are None.
        former: what listened there to port; empty where there was no start before.

    Returns:
        Name to port, each another one; another process may take one before they are used.

    Raises:
        SandboxError: hardly any port is free.
    """
    names = list(names)
    chosen = {name: port for name, port in given.items() if port is not None}
    for name in names:
        port = former.get(name)
        if name not in chosen and port is not None and port not in chosen.values() and _becomes_free(port):
            chosen[name] = port
    missing = [name for name in names if name not in chosen]
    chosen |= zip(missing, free_ports(len(missing), besides=chosen.values()), strict=True)
    return chosen


def _becomes_free(port: int) -> bool:
    """Whether a port is free, or is so soon: a process that was killed may keep it until the last thread is gone."""
    deadline = time.monotonic() + _LINGER_S
    while not (free := is_free(port)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return free


def access_to(secured: Secured) -> Access:
    """How to get in.

    Args:
        secured: what is switched on.
    """
    return Access(
        credentials=secured.authentication.servers if secured.authentication else None,
        tls=Tls(ca=str(secured.encryption.ca)) if secured.encryption else None,
    )


def access_of(running: State) -> Access:
    """How to get in.

    Args:
        running: a sandbox that runs.
    """
    named = running.username is not None and running.password is not None
    return Access(
        credentials=PasswordCredentials(username=running.username or "", password=running.password or "")
        if named
        else None,
        tls=Tls(ca=running.tls_ca) if running.tls_ca else None,
    )


def pravega_checks(ports: Ports, access: Access) -> dict[int, Check | None]:
    """What to ask at each of Pravega's ports.

    Args:
        ports: where it listens.
        access: how to get in.

    Returns:
        Port to question; None: it's enough that nobody else listens there.
    """
    return {
        **{port: None for port in (ports.zookeeper, ports.bookie, ports.controller_rest) if port is not None},
        ports.segment_store: lambda: readiness.segment_store_answers(ports.segment_store, access),
        ports.controller: lambda: readiness.controller_answers(ports.controller, access),
    }


def registry_checks(ports: Ports, access: Access) -> dict[int, Check | None]:
    """The same, of the schema registry."""
    return {ports.registry: lambda: readiness.registry_answers(ports.registry, access)}
