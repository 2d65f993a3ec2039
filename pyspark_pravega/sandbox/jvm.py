"""The command lines of the two servers: classes, settings, memory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import places

LOOPBACK = "127.0.0.1"
_LOGBACK = Path(__file__).parent / "artifacts" / "logback.xml"
_HEAP = re.compile(r"[1-9][0-9]*[kmgKMG]")


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The ports that the servers listen on."""

    zookeeper: int
    segment_store: int
    controller: int
    registry: int


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a server is started."""

    command: list[str]
    """Program and arguments."""
    environment: Mapping[str, str]
    """All of its environment."""


def check_heap(argument: str, heap: str) -> None:
    """Refuse what Java wouldn't take as a heap size, before anything is started.

    Args:
        argument: what to call it in the message.
        heap: a size as in Java's `-Xmx`, say `2g` or `512m`.

    Raises:
        SandboxError: it isn't one.
    """
    if not _HEAP.fullmatch(heap):
        raise SandboxError(f'{argument} must be a size such as "2g" or "512m", not "{heap}"')


def pravega(jars: Path, folder: Path, ports: Ports, *, heap: str, log_level: str) -> Launch:
    """How to start the standalone Pravega; writes its configuration file.

    Args:
        jars: the folder of its jars.
        folder: where its configuration and temporary files go.
        ports: where it shall listen.
        heap: the heap's size, as in `-Xmx`.
        log_level: WARN, INFO, DEBUG ...

    Returns:
        The launch. ZooKeeper and segment store listen on loopback; the controller has no such setting, and listens on
        every address.
    """
    settings = {
        "singlenode.zk.port": ports.zookeeper,
        "singlenode.segmentStore.port": ports.segment_store,
        "singlenode.controller.rpc.port": ports.controller,
        "singlenode.controller.rest.enable": "false",
        "singlenode.admin.gateway.enable": "false",
        "pravegaservice.service.listener.host.nameOrIp": LOOPBACK,
        "pravegaservice.service.published.host.nameOrIp": LOOPBACK,
    }
    file = folder / "pravega.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    properties = {
        "singlenode.configurationFile": str(file),
        # The standalone's own choice of 128 MiB is full after a few bulk writes; it then throttles everybody by 25 s a
        # call. A system property overrides it, a line of the file doesn't. The cache lies outside the heap.
        "pravegaservice.cache.size.max": str(_bytes(heap) // 2),
    }
    return _launch(jars, folder, "io.pravega.local.LocalPravegaEmulator", properties, heap, log_level)


def registry(jars: Path, folder: Path, ports: Ports, *, heap: str, log_level: str) -> Launch:
    """How to start the schema registry, which keeps its data in that Pravega.

    Args:
        jars: the folder of its jars.
        folder: where its temporary files go.
        ports: where it shall listen, and where the controller does.
        heap: the heap's size, as in `-Xmx`.
        log_level: WARN, INFO, DEBUG ...

    Returns:
        The launch. It listens on loopback.
    """
    properties = {
        "schemaRegistry.store.type.name": "Pravega",
        "schemaRegistry.store.pravega.controller.connect.uri": f"tcp://{LOOPBACK}:{ports.controller}",
        "schemaRegistry.service.rest.published.host.nameOrIp": LOOPBACK,
        "schemaRegistry.service.rest.listener.port": str(ports.registry),
    }
    return _launch(jars, folder, "io.pravega.schemaregistry.service.Main", properties, heap, log_level)


def _bytes(heap: str) -> int:
    return int(heap[:-1]) << {"k": 10, "m": 20, "g": 30}[heap[-1].lower()]


def _launch(jars: Path, folder: Path, main: str, properties: Mapping[str, str], heap: str, log_level: str) -> Launch:
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    properties = {
        **properties,
        "java.io.tmpdir": str(temporary),
        "logback.configurationFile": str(_LOGBACK),
        "sandbox.log.level": log_level,
    }
    command = [
        str(places.java()),
        f"-Xmx{heap}",
        # A server that has run out of memory hangs otherwise, and every caller with it.
        "-XX:+ExitOnOutOfMemoryError",
        *(f"-D{key}={value}" for key, value in properties.items()),
        main,
    ]
    # Sorted, as the order of a `*` class path is the file system's; in the environment, to keep process lists legible.
    class_path = os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))
    return Launch(command=command, environment={**os.environ, "CLASSPATH": class_path})
