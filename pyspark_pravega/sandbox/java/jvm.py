"""The command lines of the two servers: classes, settings, memory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import places, state
from pyspark_pravega.sandbox.java import changed, idle, tokens
from pyspark_pravega.sandbox.security import Authentication, Encryption, Secured, write_private

LOOPBACK = "127.0.0.1"
_LOGBACK = Path(__file__).parents[1] / "artifacts" / "logback.xml"
_CONTAINERS = 64
"""Segment containers. After each few changes Pravega looks at every segment of a container, so its work grows with the
number of segments in one; the standalone's own choice is 4 (measured: docs/internals/test-suite.md). The store and the
controller have to be told the same number."""
FORK_JOIN_WORKERS = max(4, (os.cpu_count() or 1) - 1)
"""As many as Java would have, but with two processors that is one, and then it starts a thread for each asynchronous
step of the controller."""
_HEAP = re.compile(r"[1-9][0-9]*[kmgKMG]")


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The ports that the servers listen on."""

    zookeeper: int
    segment_store: int
    controller: int
    registry: int
    bookie: int | None = None
    """Of a Pravega that keeps its data; the standalone server has none."""
    controller_rest: int | None = None
    """The same: there the controller's REST server can't be switched off."""

    def taken(self) -> dict[str, int]:
        """What listens there to port."""
        return {name: port for name, port in vars(self).items() if port is not None}


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


def heap_options(heap: str, *, preallocate: bool) -> list[str]:
    """Java's options for a heap.

    Args:
        heap: its size, as in `-Xmx`.
        preallocate: whether all of it is taken from the operating system at once.
    """
    return [f"-Xmx{heap}", *([f"-Xms{heap}", "-XX:+AlwaysPreTouch"] if preallocate else [])]


def pravega(
    jars: Path,
    folder: Path,
    ports: Ports,
    *,
    heap: str,
    log_level: str,
    secured: Secured | None = None,
    preallocate: bool = False,
) -> Launch:
    """How to start the standalone Pravega; writes its configuration file.

    Args:
        jars: the folder of its jars.
        folder: where its configuration and temporary files go.
        ports: where it shall listen.
        heap: the heap's size, as in `-Xmx`.
        log_level: WARN, INFO, DEBUG ...
        secured: what authentication and TLS need.
        preallocate: whether the whole heap is taken from the operating system before the server answers.

    Returns:
        The launch. Everything listens on loopback: ZooKeeper and segment store by their settings, the controller by a
        class written anew.
    """
    settings: dict[str, object] = {
        "singlenode.zk.port": ports.zookeeper,
        "singlenode.segmentStore.port": ports.segment_store,
        "singlenode.controller.rpc.port": ports.controller,
        "singlenode.controller.rest.enable": "false",
        "singlenode.admin.gateway.enable": "false",
    }
    asking = secured.authentication if secured else None
    if asking:
        settings |= _pravega_authentication(asking)
    if secured and secured.encryption:
        settings |= _pravega_encryption(secured.encryption)
    file = write_settings(folder / state.PRAVEGA_SETTINGS, settings)
    properties = {
        **{name: str(value) for name, value in (idle.SEGMENT_STORE | idle.CONTROLLER).items()},
        "singlenode.configurationFile": str(file),
        # Not in the file, which the segment store of 0.11 doesn't read.
        "pravegaservice.service.listener.host.nameOrIp": LOOPBACK,
        "pravegaservice.service.published.host.nameOrIp": LOOPBACK,
        # The standalone's own choice of 128 MiB is full after a few bulk writes; it then throttles everybody by 25 s a
        # call. A system property overrides it, a line of the file doesn't. The cache lies outside the heap.
        "pravegaservice.cache.size.max": str(size_of(heap) // 2),
        # The other layout, of chunks, notes them in tables of its own. Each note may be followed by an append of no
        # bytes, after which a server can be busy for ever (docs/pravega-facts.md). In memory chunks bring nothing.
        "pravegaservice.storage.layout": "ROLLING_STORAGE",
        "pravegaservice.container.count": str(_CONTAINERS),
        "controller.container.count": str(_CONTAINERS),
        "java.util.concurrent.ForkJoinPool.common.parallelism": str(FORK_JOIN_WORKERS),
        # Without authentication nothing signs tokens.
        tokens.KEY_FILE: str(asking.signing_key if asking else os.devnull),
        tokens.TTL: str(asking.token_ttl_s if asking else tokens.DEFAULT_TTL_S),
    }
    classes, memory = pravega_classes(jars, folder), heap_options(heap, preallocate=preallocate)
    return launch(classes, folder, ["io.pravega.local.LocalPravegaEmulator"], properties, memory, log_level)


def registry(
    jars: Path,
    folder: Path,
    port: int,
    controllers: Sequence[int],
    *,
    heap: str,
    log_level: str,
    more: Sequence[str] = (),
    secured: Secured | None = None,
) -> Launch:
    """How to start the schema registry, which keeps its data in that Pravega; writes its configuration file.

    Args:
        jars: the folder of its jars.
        folder: where its configuration and temporary files go.
        port: where it shall listen.
        controllers: where the controllers do.
        heap: the heap's size, as in `-Xmx`.
        log_level: WARN, INFO, DEBUG ...
        more: more of Java's options.
        secured: what authentication and TLS need.

    Returns:
        The launch. It listens on loopback.
    """
    encrypted = secured.encryption if secured else None
    asking = secured.authentication if secured else None
    settings: dict[str, object] = {
        "schemaRegistry.store.type.name": "Pravega",
        "schemaRegistry.store.pravega.controller.connect.uri": java_controller_uri(
            controllers, tls=encrypted is not None
        ),
        "schemaRegistry.service.rest.published.host.nameOrIp": LOOPBACK,
        "schemaRegistry.service.rest.listener.port": port,
    }
    if asking:
        method, _, token = asking.servers.authorization().partition(" ")
        settings |= {
            "schemaRegistry.store.pravega.controller.connect.auth.method": method,
            "schemaRegistry.store.pravega.controller.connect.auth.token": token,
            "schemaRegistry.security.auth.enable": "true",
            "schemaRegistry.security.pwdAuthHandler.accountsDb.location": asking.accounts_file,
        }
    if encrypted:
        settings |= {
            "schemaRegistry.store.pravega.controller.connect.security.tls.trustStore.location": encrypted.ca,
            "schemaRegistry.security.tls.enable": "true",
            "schemaRegistry.security.tls.server.certificate.location": encrypted.certificate,
            "schemaRegistry.security.tls.server.privateKey.location": encrypted.key_store,
            "schemaRegistry.security.tls.server.privateKey.pwd.location": encrypted.store_password,
        }
    file = write_settings(folder / state.REGISTRY_SETTINGS, settings)
    properties = {"conf.file": str(file)}
    main = "io.pravega.schemaregistry.service.Main"
    return launch([jars], folder, [main], properties, [f"-Xmx{heap}", *more], log_level)


def _pravega_authentication(asking: Authentication) -> dict[str, object]:
    return {
        "singlenode.security.auth.enable": "true",
        "singlenode.security.auth.credentials.username": asking.servers.username,
        "singlenode.security.auth.credentials.pwd": asking.servers.password,
        "singlenode.security.auth.pwdAuthHandler.accountsDb.location": asking.accounts_file,
    }


def _pravega_encryption(encrypted: Encryption) -> dict[str, object]:
    return {
        "singlenode.security.tls.enable": "true",
        "singlenode.security.tls.privateKey.location": encrypted.key,
        "singlenode.security.tls.certificate.location": encrypted.certificate,
        "singlenode.security.tls.keyStore.location": encrypted.key_store,
        "singlenode.security.tls.keyStore.pwd.location": encrypted.store_password,
        "singlenode.security.tls.trustStore.location": encrypted.trust_store,
    }


def write_settings(file: Path, settings: Mapping[str, object]) -> Path:
    """Write a file of Java's properties, which only this user may read.

    Args:
        file: where.
        settings: name to value.

    Returns:
        The file.
    """
    # A backslash begins an escape in Java's properties.
    lines = (f"{key}={value}\n".replace("\\", "\\\\") for key, value in settings.items())
    return write_private(file, "".join(lines))


def size_of(heap: str) -> int:
    """How many bytes a heap size is.

    Args:
        heap: as in `-Xmx`.
    """
    return int(heap[:-1]) << {"k": 10, "m": 20, "g": 30}[heap[-1].lower()]


def pravega_classes(jars: Path, folder: Path) -> list[Path]:
    """The class path of Pravega and of the servers that it needs, as `launch` takes it.

    It is the same for all sandboxes, so one archive of classes (Java's `-XX:SharedArchiveFile`) fits them.

    Args:
        jars: the folder of Pravega's jars.
        folder: the sandbox's.
    """
    # These two have classes, too: those that BookKeeper's jars need of them.
    more = [*sorted(jars.glob("circe-checksum-*.nar")), *sorted(jars.glob("cpu-affinity-*.nar"))]
    return [changed.class_jar(jars, temporary(folder)), jars, *more]


def controller_uri(ports: Sequence[int], *, tls: bool) -> str:
    """Where controllers are.

    Args:
        ports: where they listen.
        tls: whether they speak TLS.
    """
    return f"{'tls' if tls else 'tcp'}://" + ",".join(f"{LOOPBACK}:{port}" for port in ports)


def java_controller_uri(ports: Sequence[int], *, tls: bool) -> str:
    """Where controllers are, for Java's client.

    With TLS it takes all addresses together for the name of one host, which no certificate can have, and it can't ask
    the first one for the others either. So it gets one address.

    Args:
        ports: where they listen.
        tls: whether they speak TLS.
    """
    return controller_uri(ports[:1] if tls else ports, tls=tls)


def temporary(folder: Path) -> Path:
    """A folder for temporary files.

    Args:
        folder: the sandbox's.
    """
    place = folder / "tmp"
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def launch(
    entries: list[Path],
    folder: Path,
    program: list[str],
    properties: Mapping[str, str],
    memory: list[str],
    log_level: str,
) -> Launch:
    """How to start a server.

    Args:
        entries: the class path, of jars and of folders of them.
        folder: the sandbox's.
        program: the main class, and its arguments.
        properties: system properties.
        memory: Java's options for it.
        log_level: WARN, INFO, DEBUG ...
    """
    properties = {
        **properties,
        "java.io.tmpdir": str(temporary(folder)),
        "logback.configurationFile": str(_LOGBACK),
        "sandbox.log.level": log_level,
    }
    command = [
        str(places.java()),
        *memory,
        # A server that has run out of memory hangs otherwise, and every caller with it.
        "-XX:+ExitOnOutOfMemoryError",
        *(f"-D{key}={value}" for key, value in properties.items()),
        *program,
    ]
    # Sorted, as the order of a `*` class path is the file system's; in the environment, to keep process lists legible.
    files = [file for entry in entries for file in (sorted(entry.glob("*.jar")) if entry.is_dir() else [entry])]
    class_path = os.pathsep.join(map(str, files))
    return Launch(command=command, environment=environment(class_path))


def environment(class_path: str) -> dict[str, str]:
    """The environment of a server.

    Args:
        class_path: where Java finds classes.
    """
    # Pravega's client, which the servers hold, would take a user's credentials from there for its own.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("pravega_client_")}
    return {**inherited, "CLASSPATH": class_path}
