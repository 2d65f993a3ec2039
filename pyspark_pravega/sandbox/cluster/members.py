"""The processes of a cluster: their names, their ports, how each is started, and what is asked until it answers."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import readiness
from pyspark_pravega.sandbox.cluster import zookeeper
from pyspark_pravega.sandbox.java import LOOPBACK, Launch, jvm, parts
from pyspark_pravega.sandbox.readiness import Access, Check
from pyspark_pravega.sandbox.security import Secured, write_private
from pyspark_pravega.sandbox.state import CLUSTER_SETTINGS, role

ZOOKEEPER = "zookeeper"
BOOKIE, CONTROLLER, SEGMENT_STORE = "bookie", "controller", "segmentstore"
REGISTRY = "schema-registry"
SEGMENTS = "segments"
"""The folder, within that of all data, of long-term storage, which all segment stores share."""
_REST = "-rest"
_SESSION_MS = 10_000
_MEBIBYTE = 1 << 20
_BUFFERS_BYTES = 128 * _MEBIBYTE
_SMALLEST_HEAP = 192 * _MEBIBYTE
_ZOOKEEPER_HEAP, _REGISTRY_HEAP = "128m", "192m"
_LAUNCHES = "launches.json"
# Of many small JVMs each needs few threads, and code that is compiled once.
_FRUGAL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How many processes a cluster has."""

    stores: int
    controllers: int
    bookies: int = 3

    @property
    def copies(self) -> int:
        """How many bookies have each entry: three, and one bookie more is there than copies, where there are several.

        BookKeeper closes a ledger when a bookie is gone and no other one can take its place, and a new one needs as
        many bookies: nothing would be written.
        """
        return max(1, min(self.bookies - 1, 3))

    def names(self) -> list[str]:
        """The processes' names, in the order in which they are started."""
        return [
            ZOOKEEPER,
            *_numbered(BOOKIE, self.bookies),
            *_numbered(CONTROLLER, self.controllers),
            *_numbered(SEGMENT_STORE, self.stores),
            REGISTRY,
        ]

    def listeners(self) -> list[str]:
        """What has a port: each process, and each controller's REST server."""
        return [*self.names(), *(f"{name}{_REST}" for name in _numbered(CONTROLLER, self.controllers))]


def check_name(name: str, names: Sequence[str]) -> None:
    """Refuse what is no process of a cluster.

    Args:
        name: what a user has named.
        names: those that there are.

    Raises:
        SandboxError: it isn't one of them.
    """
    if name not in names:
        raise SandboxError(f'the cluster has no process "{name}"; it has {", ".join(names)}')


def controllers(ports: Mapping[str, int]) -> list[int]:
    """The ports of the controllers.

    Args:
        ports: of the whole cluster, by name.
    """
    return [port for name, port in ports.items() if role(name) == CONTROLLER]


def own_ports(name: str, ports: Mapping[str, int]) -> list[int]:
    """Where one process listens; to clients at the first one.

    Args:
        name: the process's.
        ports: of the whole cluster, by name.
    """
    return [ports[listener] for listener in (name, f"{name}{_REST}") if listener in ports]


def checks(name: str, ports: Mapping[str, int], access: Access) -> dict[int, Check | None]:
    """What to ask at each port of a process.

    Args:
        name: the process's.
        ports: of the whole cluster, by name.
        access: how to get in.

    Returns:
        Port to question; None: it's enough that nobody else listens there.
    """
    port, *others = own_ports(name, ports)
    questions: dict[str, Check] = {
        ZOOKEEPER: lambda: zookeeper.answers(port),
        BOOKIE: lambda: _connects(port),
        CONTROLLER: lambda: readiness.controller_answers(port, access),
        SEGMENT_STORE: lambda: readiness.segment_store_answers(port, access),
        REGISTRY: lambda: readiness.registry_answers(port, access),
    }
    return {port: questions[role(name)], **dict.fromkeys(others)}


def launches(
    shape: Shape,
    jars: tuple[Path, Path],
    folder: Path,
    ports: Mapping[str, int],
    *,
    heap: str,
    log_level: str,
    rebalance_s: int,
    secured: Secured,
) -> dict[str, Launch]:
    """How to start each process; writes their settings files.

    Args:
        shape: how many there are.
        jars: the folders of Pravega's jars and of the registry's.
        folder: the sandbox's.
        ports: where they shall listen, by name.
        heap: the heap of each segment store, as in `-Xmx`; its cache has half of it, outside. Controllers and bookies
            have half of it.
        log_level: WARN, INFO, DEBUG ...
        rebalance_s: how long controllers wait at least until they spread containers anew, in seconds.
        secured: what authentication and TLS need.

    Returns:
        Name to launch. All listen on loopback.
    """
    settings = folder / CLUSTER_SETTINGS
    settings.mkdir(mode=0o700, exist_ok=True)
    classes = jvm.pravega_classes(jars[0], folder)
    size, center = jvm.size_of(heap), ports[ZOOKEEPER]
    half = f"{max(size // 2, _SMALLEST_HEAP) // 1024}k"

    def launch(
        name: str, values: Mapping[str, object], main: str, *arguments: str,
        option: str | None = None, memory: str = half, direct: int = _BUFFERS_BYTES,
    ) -> Launch:  # fmt: skip
        file = jvm.write_settings(settings / f"{name}.properties", values)
        properties = {"java.util.concurrent.ForkJoinPool.common.parallelism": str(jvm.FORK_JOIN_WORKERS)}
        return jvm.launch(
            classes, folder,
            [main, *(arguments if option else (*arguments, str(file)))],
            {**properties, **({option: str(file)} if option else {})},
            [*jvm.heap_options(memory, preallocate=False), f"-XX:MaxDirectMemorySize={direct}", *_FRUGAL],
            log_level,
        )  # fmt: skip

    starts = {
        ZOOKEEPER: launch(
            ZOOKEEPER, parts.zookeeper(center), "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            memory=_ZOOKEEPER_HEAP,
        )
    }  # fmt: skip
    for name in _numbered(BOOKIE, shape.bookies):
        values = parts.bookie(folder, ports[name], center, name=name, place=name, session_ms=_SESSION_MS)
        starts[name] = launch(name, values, parts.BOOKIE, "--conf")
    for name in _numbered(CONTROLLER, shape.controllers):
        port, rest = own_ports(name, ports)
        values = parts.controller(port, rest, center, rebalance_s=rebalance_s, session_ms=_SESSION_MS, secured=secured)
        starts[name] = launch(name, values, "io.pravega.controller.server.Main", option="conf.file")
    for name in _numbered(SEGMENT_STORE, shape.stores):
        values = parts.segment_store(
            ports[name], center, controllers(ports),
            cache=size // 2, copies=shape.copies, session_ms=_SESSION_MS, secured=secured,
        )  # fmt: skip
        starts[name] = launch(
            name, values, "io.pravega.segmentstore.server.host.ServiceStarter",
            option="pravega.configurationFile", memory=heap, direct=size // 2 + _BUFFERS_BYTES,
        )  # fmt: skip
    starts[REGISTRY] = jvm.registry(
        jars[1], folder, ports[REGISTRY], controllers(ports),
        heap=_REGISTRY_HEAP, log_level=log_level, more=_FRUGAL, secured=secured,
    )  # fmt: skip
    kept = {name: {"command": one.command, "classes": one.environment["CLASSPATH"]} for name, one in starts.items()}
    write_private(settings / _LAUNCHES, json.dumps(kept))
    return starts


def kept_launch(folder: Path, name: str) -> Launch:
    """How a process of a running cluster was started, to start it again.

    Args:
        folder: the sandbox's.
        name: the process's.

    Raises:
        SandboxError: nobody knows any more.
    """
    try:
        kept = json.loads((folder / CLUSTER_SETTINGS / _LAUNCHES).read_text())[name]
        return Launch(command=kept["command"], environment=jvm.environment(kept["classes"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SandboxError(
            f"{folder / CLUSTER_SETTINGS} doesn't say any more how {name} is started: stop the cluster, and start it "
            "anew"
        ) from error


def _numbered(kind: str, count: int) -> list[str]:
    return [f"{kind}-{number}" for number in range(1, count + 1)]


def _connects(port: int) -> str | None:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError as error:
        return f"a bookie: {error}"
    return None


def log_of(folder: Path, name: str) -> Path:
    """What a process writes.

    Args:
        folder: the sandbox's.
        name: the process's.
    """
    return folder / f"{name}.log"
