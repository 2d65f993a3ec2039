"""A Pravega of many processes on this machine: ZooKeeper, bookies, controllers, segment stores, a schema registry.

Each process can be killed, frozen and started again; what it has stored is on disk, in a folder that the test gives.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import zookeeper

from pyspark_pravega.sandbox import places, readiness
from pyspark_pravega.sandbox.files import bundles, releases
from pyspark_pravega.sandbox.files.bundles import Bundle
from pyspark_pravega.sandbox.java import changed
from pyspark_pravega.sandbox.ports import free_ports
from pyspark_pravega.sandbox.processes import Kept
from pyspark_pravega.sandbox.security import Account, Authentication, accounts, secured
from pyspark_pravega.settings import Settings

HOST = "127.0.0.1"
USER = "admin"
"""Who may do everything, where the servers ask."""
CONTAINERS = 8
LEDGERS = "/pravega/pravega-cluster/bookkeeper/ledgers"
START_S = 600.0
_HERE = Path(__file__).parent
_BINDINGS = Bundle("pravega-bindings", _HERE / "bindings.xml", _HERE / "bindings.sha256")
_LOGBACK = """<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level [%thread] %logger{20} - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"""


@dataclass
class Server:
    """One process of the cluster."""

    name: str
    port: int
    heap: str
    main: list[str]
    """The main class, with its arguments and with Java's options before it."""
    classes: list[Path]
    check: Callable[[int], str | None]
    """What is missing until it answers at its port; None when it does."""
    process: Kept | None = field(default=None, repr=False)

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.exit_code() is None


class ServerCluster:
    """The processes, by name: `zookeeper`, `bookie-1..3`, `controller-1..2`, `store-1..2`, `registry`."""

    def __init__(
        self,
        folder: Path,
        *,
        stores: int = 2,
        controllers: int = 2,
        bookies: int = 3,
        token_ttl_s: int | None = None,
    ) -> None:
        """Nothing is started yet.

        Args:
            folder: where data and logs go; empty, or of a cluster before.
            stores: how many segment stores.
            controllers: how many controllers.
            bookies: how many bookies; each entry is written to three, or to as many as there are.
            token_ttl_s: how long the tokens of segment stores are valid, in seconds; the servers then want to know who
                asks. None for servers that let everybody in.
        """
        self.folder = folder
        self._asking = None if token_ttl_s is None else _authentication(folder, token_ttl_s)
        servers = self._asking.servers if self._asking else None
        self._access = readiness.Access(credentials=servers)
        self._jars, self._registry_jars = bundles.fetch_all(releases.servers(releases.NEWEST))
        self._bindings = bundles.fetch(_BINDINGS)
        (folder / "conf").mkdir(parents=True, exist_ok=True)
        (folder / "storage").mkdir(exist_ok=True)
        (folder / "conf" / "logback.xml").write_text(_LOGBACK)
        self._copies = min(bookies, 3)
        self.servers: dict[str, Server] = {}
        self._zookeeper = self._add(self._zookeeper_server())
        self.bookies = [self._add(self._bookie(number)).name for number in range(1, bookies + 1)]
        ports = free_ports(controllers)
        self.controller_uri = "tcp://" + ",".join(f"{HOST}:{port}" for port in ports)
        self.controllers = [self._add(self._controller(n, port)).name for n, port in enumerate(ports, 1)]
        self.stores = [self._add(self._store(number)).name for number in range(1, stores + 1)]
        self.registry = self._add(self._registry())
        self.settings = Settings.resolve(
            {
                "controller-uri": self.controller_uri,
                "schema-registry-uri": f"http://{HOST}:{self.registry.port}",
                **({"username": USER, "password": self._asking.passwords[USER]} if self._asking else {}),
            },
            environ={},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self.servers)

    # What faults are made of

    def start(self, *names: str, wait: bool = True) -> None:
        """Start servers that don't run; all of them when none is named.

        Args:
            names: which ones.
            wait: whether to wait until they answer.
        """
        chosen = [self.servers[name] for name in names or self.servers]
        if self._zookeeper in chosen:
            self._launch(self._zookeeper)
            self._await([self._zookeeper])
            parents = LEDGERS.split("/")
            nodes = ["/".join(parents[: depth + 1]) for depth in range(1, len(parents))]
            available = f"{LEDGERS}/available"
            zookeeper.make_nodes(self._zookeeper.port, [*nodes, available, f"{available}/readonly"])
        for server in chosen:
            if server not in (self._zookeeper, self.registry):
                self._launch(server)
        if wait:
            self._await([server for server in chosen if server is not self.registry])
        if self.registry in chosen:
            self._launch(self.registry)
            if wait:
                self._await([self.registry])

    def kill(self, *names: str) -> None:
        """End servers as a failing machine does: SIGKILL."""
        for name in names:
            server = self.servers[name]
            if server.process is not None:
                server.process.stop(grace_s=0.0)
                server.process = None

    def freeze(self, *names: str) -> None:
        """Stop servers in their tracks: their connections stay open, and nobody answers."""
        self._signal(names, signal.SIGSTOP)

    def thaw(self, *names: str) -> None:
        """Let frozen servers go on."""
        self._signal(names, signal.SIGCONT)

    def fill_disk(self, name: str) -> None:
        """Let a server write no byte more, as on a full disk: its process may make no file longer."""
        self._limit_files(name, 0)

    def make_room(self, name: str) -> None:
        """Let a server write again that still runs."""
        if self.servers[name].runs:
            self._limit_files(name, resource.RLIM_INFINITY)

    def rest(self, seconds: float) -> None:
        """Let some time go by. What ends by itself, as servers do that have lost their session, is started again."""
        limit = time.monotonic() + seconds
        while (left := limit - time.monotonic()) > 0:
            time.sleep(min(1.0, left))
            for server in self.servers.values():
                if server.process is not None and not server.runs:
                    self._launch(server)

    def wipe(self) -> None:
        """End all, and remove what they have stored."""
        self.kill(*self.servers)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, name: str) -> Path:
        """Where a server's output is."""
        return self.folder / "logs" / f"{name}.log"

    # The processes

    def _signal(self, names: Iterable[str], number: signal.Signals) -> None:
        for name in names:
            process = self.servers[name].process
            assert process is not None
            assert process.identity is not None
            process.identity.send(number)

    def _limit_files(self, name: str, size: int) -> None:
        process = self.servers[name].process
        assert process is not None
        assert process.identity is not None
        resource.prlimit(process.identity.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def _add(self, server: Server) -> Server:
        self.servers[server.name] = server
        return server

    def _launch(self, server: Server) -> None:
        if server.runs:
            return
        home = self._home(server.name)
        options = [f"-Xmx{server.heap}", f"-Djava.io.tmpdir={home}", "-XX:+ExitOnOutOfMemoryError", "-XX:+UseSerialGC"]
        options.append(f"-Dlogback.configurationFile={self.folder}/conf/logback.xml")
        ours = ("pravega_client_", "PRAVEGA_")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        environment["CLASSPATH"] = ":".join(map(str, server.classes))
        self.log(server.name).parent.mkdir(exist_ok=True)
        with self.log(server.name).open("ab") as output:
            server.process = Kept(
                [str(places.java()), *options, *server.main], output=output, folder=home, environment=environment
            )

    def _await(self, servers: Iterable[Server]) -> None:
        limit = time.monotonic() + START_S
        for server in servers:
            while (missing := server.check(server.port)) is not None:
                log = readiness.last_lines(self.log(server.name))
                assert server.runs, f"{server.name} has ended: {log}"
                assert time.monotonic() < limit, f"{server.name} doesn't answer ({missing}): {log}"
                time.sleep(0.2)

    def _home(self, name: str) -> Path:
        home = self.folder / "data" / name
        home.mkdir(parents=True, exist_ok=True)
        return home

    def _properties(self, name: str, values: dict[str, object]) -> Path:
        file = self.folder / "conf" / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return file

    def _classes(self, *before: Path) -> list[Path]:
        # Two of Pravega's jars are called .nar, which Java takes where they are named.
        return [*before, *sorted(self._jars.glob("*.jar")), *sorted(self._jars.glob("*.nar"))]

    # Their settings

    def _zookeeper_server(self) -> Server:
        (port,) = free_ports(1)
        file = self._properties(
            "zookeeper",
            {
                "dataDir": self._home("zookeeper"),
                "clientPort": port,
                "clientPortAddress": HOST,
                "admin.enableServer": "false",
                "tickTime": 2000,
                "4lw.commands.whitelist": "*",
                "maxClientCnxns": 0,
            },
        )
        main = ["-Dzookeeper.jmx.log4j.disable=true", "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(file)]
        return Server(
            "zookeeper", port, "256m", main, self._classes(), lambda port: None if zookeeper.serves(port) else "silent"
        )

    def _bookie(self, number: int) -> Server:
        name, (port,) = f"bookie-{number}", free_ports(1)
        home = self._home(name)
        file = self._properties(
            name,
            {
                "bookiePort": port,
                "advertisedAddress": HOST,
                "listeningInterface": "lo",
                "allowLoopback": "true",
                "httpServerEnabled": "false",
                "journalDirectory": home / "journal",
                "ledgerDirectories": home / "ledgers",
                "indexDirectories": home / "ledgers",
                "metadataServiceUri": f"zk://{HOST}:{self._zookeeper.port}{LEDGERS}",
                "zkTimeout": 10000,
                "journalPreAllocSizeMB": 4,
                "entryLogSizeLimit": 256 << 20,
                "skipListSizeLimit": 32 << 20,
                "diskUsageThreshold": 0.97,
                "numAddWorkerThreads": 2,
                "numReadWorkerThreads": 2,
            },
        )
        main = ["-XX:MaxDirectMemorySize=256m", "org.apache.bookkeeper.server.Main", "--conf", str(file)]
        return Server(name, port, "512m", main, self._classes(), _connects)

    def _controller(self, number: int, port: int) -> Server:
        name, (rest,) = f"controller-{number}", free_ports(1)
        file = self._properties(
            name,
            {
                "controller.container.count": CONTAINERS,
                "controller.zk.connect.uri": f"{HOST}:{self._zookeeper.port}",
                "controller.service.rpc.listener.port": port,
                "controller.service.rpc.published.host.nameOrIp": HOST,
                "controller.service.rpc.published.port": port,
                "controller.service.rest.listener.host.ip": HOST,
                "controller.service.rest.listener.port": rest,
                "controller.service.asyncTaskPool.size": 20,
                "controller.metrics.statistics.enable": "false",
                **(_controllers_authentication(self._asking) if self._asking else {}),
            },
        )
        loopback = changed.class_jar(self._jars, self.folder)
        main = [f"-Dconf.file={file}", "io.pravega.controller.server.Main"]
        check = partial(readiness.controller_answers, access=self._access)
        return Server(name, port, "512m", main, self._classes(loopback), check)

    def _store(self, number: int) -> Server:
        name, (port,) = f"store-{number}", free_ports(1)
        file = self._properties(
            name,
            {
                "pravegaservice.container.count": CONTAINERS,
                "pravegaservice.zk.connect.uri": f"{HOST}:{self._zookeeper.port}",
                "pravegaservice.service.listener.host.nameOrIp": HOST,
                "pravegaservice.service.listener.port": port,
                "pravegaservice.service.published.host.nameOrIp": HOST,
                "pravegaservice.service.published.port": port,
                "pravegaservice.dataLog.impl.name": "BOOKKEEPER",
                "pravegaservice.storage.impl.name": "FILESYSTEM",
                "pravegaservice.storage.layout": "CHUNKED_STORAGE",
                "pravegaservice.cache.size.max": 256 << 20,
                "pravegaservice.rest.listener.enable": "false",
                "pravegaservice.admin.gateway.enable": "false",
                "pravegaservice.threadPool.core.size": 20,
                "pravegaservice.threadPool.storage.size": 20,
                "bookkeeper.zk.connect.uri": f"{HOST}:{self._zookeeper.port}",
                "bookkeeper.ensemble.size": self._copies,
                "bookkeeper.write.quorum.size": self._copies,
                "bookkeeper.ack.quorum.size": (self._copies + 2) // 2,
                "filesystem.root": self.folder / "storage",
                "autoScale.controller.connect.uri": self.controller_uri,
                "metrics.statistics.enable": "false",
                **(_stores_authentication(self._asking) if self._asking else {}),
            },
        )
        options = ["-XX:MaxDirectMemorySize=768m", f"-Dpravega.configurationFile={file}"]
        main = [*options, "io.pravega.segmentstore.server.host.ServiceStarter"]
        classes = self._classes(*self._bindings.glob("*.jar"))
        return Server(name, port, "1g", main, classes, readiness.segment_store_answers)

    def _registry(self) -> Server:
        (port,) = free_ports(1)
        file = self._properties(
            "registry",
            {
                "schemaRegistry.store.type.name": "Pravega",
                "schemaRegistry.store.pravega.controller.connect.uri": self.controller_uri,
                "schemaRegistry.service.rest.published.host.nameOrIp": HOST,
                "schemaRegistry.service.rest.listener.port": port,
                **(_registrys_authentication(self._asking) if self._asking else {}),
            },
        )
        main = [f"-Dconf.file={file}", "io.pravega.schemaregistry.service.Main"]
        classes = sorted(self._registry_jars.glob("*.jar"))
        check = partial(readiness.registry_answers, access=self._access)
        return Server("registry", port, "256m", main, classes, check)


def _authentication(folder: Path, token_ttl_s: int) -> Authentication:
    place = folder / "private"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    password = accounts.random_password()
    return secured.authentication(place, [Account(USER, password=password)], {USER: password}, token_ttl_s)


def _controllers_authentication(asking: Authentication) -> dict[str, object]:
    return {
        "controller.security.auth.enable": "true",
        "controller.security.pwdAuthHandler.accountsDb.location": asking.accounts_file,
        "controller.security.auth.delegationToken.signingKey.basis": asking.signing_key.read_text(),
        "controller.security.auth.delegationToken.ttl.seconds": asking.token_ttl_s,
    }


def _stores_authentication(asking: Authentication) -> dict[str, object]:
    return {
        "autoScale.controller.connect.security.auth.enable": "true",
        "autoScale.security.auth.token.signingKey.basis": asking.signing_key.read_text(),
    }


def _registrys_authentication(asking: Authentication) -> dict[str, object]:
    method, _, token = asking.servers.authorization().partition(" ")
    return {
        "schemaRegistry.store.pravega.controller.connect.auth.method": method,
        "schemaRegistry.store.pravega.controller.connect.auth.token": token,
        "schemaRegistry.security.auth.enable": "true",
        "schemaRegistry.security.pwdAuthHandler.accountsDb.location": asking.accounts_file,
    }


def _connects(port: int) -> str | None:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError as error:
        return str(error)
    return None
