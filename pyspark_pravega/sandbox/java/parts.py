"""Settings of ZooKeeper, bookies, segment stores and controllers that keep their data: in one JVM, or each in its own.

All paths within the data are relative to the sandbox's folder, in which the JVMs run: BookKeeper notes them, and a
folder that was moved would be strange to it otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark_pravega.sandbox.data import CONTAINERS, DATA, RESERVE_BYTES, usage_limit
from pyspark_pravega.sandbox.java import idle, jvm
from pyspark_pravega.sandbox.java.jvm import LOOPBACK
from pyspark_pravega.sandbox.security import Authentication, Encryption, Secured

BOOKIE = "pyspark.pravega.sandbox.Bookie"
"""The program that runs one (`jvm/sandbox`)."""
LEDGERS = "/pravega/pravega-cluster/bookkeeper/ledgers"
"""The path in ZooKeeper where BookKeeper notes ledgers."""
_MEBIBYTE = 1 << 20


def zookeeper(port: int) -> Mapping[str, object]:
    """ZooKeeper's.

    Args:
        port: where it listens.
    """
    return {
        # It tells by the dot that a path is meant to be relative.
        "dataDir": f"./{DATA}/zookeeper",
        "clientPort": port,
        "clientPortAddress": LOOPBACK,
        "admin.enableServer": "false",
        "maxClientCnxns": 0,
        "autopurge.purgeInterval": 1,
        "autopurge.snapRetainCount": 3,
    }


def bookie(folder: Path, port: int, zookeeper: int, *, name: str, place: str, session_ms: int) -> Mapping[str, object]:
    """A bookie's.

    Args:
        folder: the sandbox's.
        port: where it listens.
        zookeeper: ZooKeeper's port.
        name: its own, by which ledgers are found also when it listens on another port.
        place: the folder of its data, within that of all data.
        session_ms: how long ZooKeeper waits for a sign of life, in milliseconds.
    """
    limit = usage_limit(folder)
    return {
        "bookieId": name,
        "bookiePort": port,
        "advertisedAddress": LOOPBACK,
        "listeningInterface": "lo" if sys.platform == "linux" else "lo0",
        "allowLoopback": "true",
        "httpServerEnabled": "false",
        "metadataServiceUri": f"zk://{LOOPBACK}:{zookeeper}{LEDGERS}",
        "zkTimeout": session_ms,
        "journalDirectory": f"{DATA}/{place}/journal",
        "ledgerDirectories": f"{DATA}/{place}/ledgers",
        "indexDirectories": f"{DATA}/{place}/ledgers",
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


def segment_store(
    port: int,
    zookeeper: int,
    controllers: Sequence[int],
    *,
    cache: int,
    copies: int,
    session_ms: int,
    secured: Secured | None,
) -> Mapping[str, object]:
    """A segment store's.

    Args:
        port: where it listens.
        zookeeper: ZooKeeper's port.
        controllers: those of the controllers.
        cache: the size of its cache, in bytes.
        copies: how many bookies have each entry.
        session_ms: how long ZooKeeper waits for a sign of life, in milliseconds.
        secured: what authentication and TLS need.
    """
    asking, encrypted = _parts(secured)
    address = f"{LOOPBACK}:{zookeeper}"
    settings: dict[str, object] = {
        "pravegaservice.container.count": CONTAINERS,
        "pravegaservice.container.parallelStarts": CONTAINERS,
        "pravegaservice.zk.connect.uri": address,
        "pravegaservice.zk.connect.sessionTimeout.milliseconds": session_ms,
        "pravegaservice.service.listener.host.nameOrIp": LOOPBACK,
        "pravegaservice.service.listener.port": port,
        "pravegaservice.service.published.host.nameOrIp": LOOPBACK,
        "pravegaservice.service.published.port": port,
        "pravegaservice.admin.gateway.enable": "false",
        "pravegaservice.rest.listener.enable": "false",
        "pravegaservice.cache.size.max": cache,
        "pravegaservice.dataLog.impl.name": "BOOKKEEPER",
        "pravegaservice.storage.impl.name": "FILESYSTEM",
        # The other layout isn't to be had for files.
        "pravegaservice.storage.layout": "CHUNKED_STORAGE",
        "filesystem.root": f"{DATA}/segments",
        "bookkeeper.zk.connect.uri": address,
        "bookkeeper.ensemble.size": copies,
        "bookkeeper.write.quorum.size": copies,
        "bookkeeper.ack.quorum.size": copies // 2 + 1,
        # A ledger leaves the disk when it is full, and all that it has was moved to files.
        "bookkeeper.ledger.size.max": 128 * _MEBIBYTE,
        "autoScale.controller.connect.uri": jvm.java_controller_uri(controllers, tls=encrypted is not None),
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


def controller(
    port: int, rest: int, zookeeper: int, *, rebalance_s: int, session_ms: int, secured: Secured | None
) -> Mapping[str, object]:
    """A controller's.

    Args:
        port: where it listens to clients.
        rest: where its REST server listens, which can't be switched off.
        zookeeper: ZooKeeper's port.
        rebalance_s: how long it waits at least until it spreads containers over segment stores anew, in seconds.
        session_ms: how long ZooKeeper waits for a sign of life, in milliseconds.
        secured: what authentication and TLS need.
    """
    asking, encrypted = _parts(secured)
    settings: dict[str, object] = {
        "controller.container.count": CONTAINERS,
        "controller.zk.connect.uri": f"{LOOPBACK}:{zookeeper}",
        "controller.zk.connect.session.timeout.milliseconds": session_ms,
        "controller.service.rpc.listener.port": port,
        "controller.service.rpc.published.host.nameOrIp": LOOPBACK,
        "controller.service.rpc.published.port": port,
        "controller.service.rest.listener.host.ip": LOOPBACK,
        "controller.service.rest.listener.port": rest,
        "controller.rebalance.interval.seconds.min": rebalance_s,
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
