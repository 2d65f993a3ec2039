"""The command line and the settings of a Pravega that keeps its data.

One JVM has ZooKeeper, a bookie, a segment store and a controller (`jvm/sandbox`). What is appended lies in the bookie's
journal, on the disk, before it is acknowledged. Later the segment store moves it to files of the segments.

All paths within the data are relative to the sandbox's folder, in which the JVM runs: BookKeeper notes them, and a
folder that was moved would be strange to it otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import state
from pyspark_pravega.sandbox.data import CONTAINERS, DATA, RESERVE_BYTES, usage_limit
from pyspark_pravega.sandbox.java import changed, idle, jvm
from pyspark_pravega.sandbox.java.jvm import LOOPBACK, Launch, Ports
from pyspark_pravega.sandbox.security import Authentication, Encryption, Secured

MAIN = "pyspark.pravega.sandbox.Durable"
_JAR = Path(__file__).parents[2] / "jars" / "pyspark-pravega-sandbox.jar"
_LEDGERS = "/pravega/pravega-cluster/bookkeeper/ledgers"
_SESSION_MS = 20_000
_MEBIBYTE = 1 << 20
_BUFFERS_BYTES = 256 * _MEBIBYTE
"""What is taken outside of the heap beside the cache: buffers of connections, and of the bookie."""


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
    """How to start it; writes its settings files.

    Args:
        jars: the folder of its jars.
        folder: the sandbox's, where settings, temporary files and data go.
        ports: where it shall listen.
        heap: the heap's size, as in `-Xmx`. The cache has half of it, outside.
        log_level: WARN, INFO, DEBUG ...
        secured: what authentication and TLS need.
        preallocate: whether the whole heap is taken from the operating system before the server answers.

    Returns:
        The launch. Everything listens on loopback.

    Raises:
        SandboxError: the package was installed without its Java part.
    """
    if not _JAR.exists():
        raise SandboxError(f"{_JAR} is missing, without which no sandbox keeps its data: install the package again")
    cache = jvm.size_of(heap) // 2
    zookeeper = jvm.write_settings(folder / state.DURABLE_SETTINGS[0], _zookeeper(ports))
    bookie = jvm.write_settings(folder / state.DURABLE_SETTINGS[1], _bookie(folder, ports))
    store = jvm.write_settings(folder / state.DURABLE_SETTINGS[2], _segment_store(ports, cache, secured))
    controller = jvm.write_settings(folder / state.DURABLE_SETTINGS[3], _controller(ports, secured))
    properties = {
        "pravega.configurationFile": str(store),
        "conf.file": str(controller),
        "java.util.concurrent.ForkJoinPool.common.parallelism": str(jvm.FORK_JOIN_WORKERS),
    }
    direct = f"-XX:MaxDirectMemorySize={cache + _BUFFERS_BYTES}"
    memory = [*jvm.heap_options(heap, preallocate=preallocate), direct]
    # The last two have classes, too: those that BookKeeper's jars need of them.
    more = [*sorted(jars.glob("circe-checksum-*.nar")), *sorted(jars.glob("cpu-affinity-*.nar"))]
    return jvm.launch(
        [_JAR, changed.class_jar(jars, jvm.temporary(folder)), *more, jars],
        folder,
        [MAIN, str(ports.zookeeper), str(zookeeper), str(bookie), _LEDGERS],
        properties,
        memory,
        log_level,
    )


# ZooKeeper tells by the dot that a path is meant to be relative.
def _zookeeper(ports: Ports) -> Mapping[str, object]:
    return {
        "dataDir": f"./{DATA}/zookeeper",
        "clientPort": ports.zookeeper,
        "clientPortAddress": LOOPBACK,
        "admin.enableServer": "false",
        "maxClientCnxns": 0,
        "autopurge.purgeInterval": 1,
        "autopurge.snapRetainCount": 3,
    }


def _bookie(folder: Path, ports: Ports) -> Mapping[str, object]:
    limit = usage_limit(folder)
    return {
        # A name of its own, by which ledgers are found also when it listens on another port.
        "bookieId": "sandbox",
        "bookiePort": ports.bookie,
        "advertisedAddress": LOOPBACK,
        "listeningInterface": "lo" if sys.platform == "linux" else "lo0",
        "allowLoopback": "true",
        "httpServerEnabled": "false",
        "metadataServiceUri": f"zk://{LOOPBACK}:{ports.zookeeper}{_LEDGERS}",
        "zkTimeout": _SESSION_MS,
        "journalDirectory": f"{DATA}/bookkeeper/journal",
        "ledgerDirectories": f"{DATA}/bookkeeper/ledgers",
        "indexDirectories": f"{DATA}/bookkeeper/ledgers",
        "journalMaxSizeMB": 64,
        "journalMaxBackups": 0,
        "journalPreAllocSizeMB": 4,
        # Journals are removed after a checkpoint, which comes with each new entry log.
        "logSizeLimit": 64 * _MEBIBYTE,
        "flushEntrylogBytes": 16 * _MEBIBYTE,
        "skipListSizeLimit": 16 * _MEBIBYTE,
        "numAddWorkerThreads": 1,
        "numReadWorkerThreads": 2,
        "diskUsageThreshold": limit,
        "diskUsageWarnThreshold": limit,
        "diskUsageLwmThreshold": limit,
        "diskCheckInterval": 2_000,
        "minUsableSizeForIndexFileCreation": RESERVE_BYTES // 2,
        "minUsableSizeForEntryLogCreation": RESERVE_BYTES // 2,
        **idle.BOOKIE,
    }


def _segment_store(ports: Ports, cache: int, secured: Secured | None) -> Mapping[str, object]:
    asking, encrypted = _parts(secured)
    address = f"{LOOPBACK}:{ports.zookeeper}"
    settings: dict[str, object] = {
        "pravegaservice.container.count": CONTAINERS,
        "pravegaservice.container.parallelStarts": CONTAINERS,
        "pravegaservice.zk.connect.uri": address,
        "pravegaservice.zk.connect.sessionTimeout.milliseconds": _SESSION_MS,
        "pravegaservice.service.listener.host.nameOrIp": LOOPBACK,
        "pravegaservice.service.listener.port": ports.segment_store,
        "pravegaservice.service.published.host.nameOrIp": LOOPBACK,
        "pravegaservice.service.published.port": ports.segment_store,
        "pravegaservice.admin.gateway.enable": "false",
        "pravegaservice.rest.listener.enable": "false",
        "pravegaservice.cache.size.max": cache,
        "pravegaservice.dataLog.impl.name": "BOOKKEEPER",
        "pravegaservice.storage.impl.name": "FILESYSTEM",
        # The other layout isn't to be had for files.
        "pravegaservice.storage.layout": "CHUNKED_STORAGE",
        "filesystem.root": f"{DATA}/segments",
        "bookkeeper.zk.connect.uri": address,
        "bookkeeper.ensemble.size": 1,
        "bookkeeper.write.quorum.size": 1,
        "bookkeeper.ack.quorum.size": 1,
        # A ledger leaves the disk when it is full, and all that it has was moved to files.
        "bookkeeper.ledger.size.max": 128 * _MEBIBYTE,
        "autoScale.controller.connect.uri": f"{'tls' if encrypted else 'tcp'}://{LOOPBACK}:{ports.controller}",
        **idle.SEGMENT_STORE,
    }
    if asking:
        settings |= {
            "autoScale.controller.connect.security.auth.enable": "true",
            "autoScale.security.auth.token.signingKey.basis": asking.signing_key.read_text(),
        }
    if encrypted:
        settings |= {
            "pravegaservice.security.tls.enable": "true",
            "pravegaservice.security.tls.server.certificate.location": encrypted.certificate,
            "pravegaservice.security.tls.server.privateKey.location": encrypted.key,
            "pravegaservice.security.tls.server.keyStore.location": encrypted.key_store,
            "pravegaservice.security.tls.server.keyStore.pwd.location": encrypted.store_password,
            "autoScale.controller.connect.security.tls.enable": "true",
            "autoScale.controller.connect.security.tls.truststore.location": encrypted.ca,
            "autoScale.controller.connect.security.tls.validateHostName.enable": "true",
        }
    return settings


def _controller(ports: Ports, secured: Secured | None) -> Mapping[str, object]:
    asking, encrypted = _parts(secured)
    settings: dict[str, object] = {
        "controller.container.count": CONTAINERS,
        "controller.zk.connect.uri": f"{LOOPBACK}:{ports.zookeeper}",
        "controller.zk.connect.session.timeout.milliseconds": _SESSION_MS,
        "controller.service.rpc.listener.port": ports.controller,
        "controller.service.rpc.published.host.nameOrIp": LOOPBACK,
        "controller.service.rpc.published.port": ports.controller,
        "controller.service.rest.listener.host.ip": LOOPBACK,
        "controller.service.rest.listener.port": ports.controller_rest,
        "controller.rebalance.interval.seconds.min": 1,
        **idle.CONTROLLER,
    }
    if asking:
        settings |= {
            "controller.security.auth.enable": "true",
            "controller.security.pwdAuthHandler.accountsDb.location": asking.accounts_file,
            "controller.security.auth.delegationToken.signingKey.basis": asking.signing_key.read_text(),
            "controller.security.auth.delegationToken.ttl.seconds": asking.token_ttl_s,
        }
    if encrypted:
        settings |= {
            "controller.security.tls.enable": "true",
            "controller.security.tls.server.certificate.location": encrypted.certificate,
            "controller.security.tls.server.privateKey.location": encrypted.key,
            "controller.security.tls.trustStore.location": encrypted.ca,
            "controller.security.tls.server.keyStore.location": encrypted.key_store,
            "controller.security.tls.server.keyStore.pwd.location": encrypted.store_password,
            "controller.segmentstore.connect.channel.tls": "true",
        }
    return settings


def _parts(secured: Secured | None) -> tuple[Authentication | None, Encryption | None]:
    return (secured.authentication, secured.encryption) if secured else (None, None)
