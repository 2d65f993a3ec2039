"""A Pravega of several processes on this machine, as long as a `with` block lasts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import data, folders, listening, readiness, state
from pyspark_pravega.sandbox.cluster import members, zookeeper
from pyspark_pravega.sandbox.cluster.members import BOOKIE, CONTROLLER, REGISTRY, SEGMENT_STORE, ZOOKEEPER, Shape
from pyspark_pravega.sandbox.files import bundles, releases
from pyspark_pravega.sandbox.folders import Claim
from pyspark_pravega.sandbox.java import DEFAULT_TTL_S, LOOPBACK, Launch, jvm, parts
from pyspark_pravega.sandbox.ports import require_free
from pyspark_pravega.sandbox.processes import STOP_GRACE_S, Kept, ProcessId, end
from pyspark_pravega.sandbox.readiness import Access, PortTakenError
from pyspark_pravega.sandbox.security import USERNAME, Account, Authority, passwords_of, secured
from pyspark_pravega.sandbox.started import Started
from pyspark_pravega.sandbox.state import State, role

_ATTEMPTS = 5
_POLL_S = 0.1
_MOST = data.CONTAINERS
"""Of segment stores: each has at least one segment container."""


@dataclass
class Member:
    """One process of a cluster."""

    name: str
    launch: Launch
    ports: list[int]
    """Where it listens; to clients at the first one."""
    log: Path
    process: Kept | None = field(default=None, repr=False)
    """None: it wasn't started yet, or was killed."""
    log_size: int = 0
    """How long its log was when it was started, in bytes."""

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.exit_code() is None


class Cluster(Started):
    """ZooKeeper, bookies, controllers, segment stores and a schema registry, each a process of its own.

    `with Cluster(data_dir="here") as cluster:` starts them, and ends them after the block, or when this process is
    gone, however it died. Their data lies in the folder, and the next start has it. The processes are called
    `zookeeper`, `bookie-1`, `controller-1`, `segmentstore-1`, ..., `schema-registry`.
    """

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str],
        stores: int = 2,
        controllers: int = 2,
        bookies: int = 3,
        pravega: str | None = None,
        controller_port: int | None = None,
        registry_port: int | None = None,
        heap: str | None = None,
        timeout_s: float = 480.0,
        log_level: str = "WARN",
        cache: Path | None = None,
        auth: bool = False,
        tls: bool = False,
        username: str = USERNAME,
        token_ttl_s: int | None = None,
        rebalance_s: int = 1,
    ) -> None:
        """Describe a cluster; nothing is started yet.

        Args:
            data_dir: where data, logs, configuration and state are kept.
            stores: how many segment stores, 1 to 4.
            controllers: how many controllers, 1 to 4.
            bookies: how many bookies; each entry is written to one less, and to three at most.
            pravega: Pravega's version, 0.12 or 0.13; `$PYSPARK_PRAVEGA_SANDBOX_PRAVEGA`, or 0.13, when None.
            controller_port: where the first controller shall listen; when None, where it did before, if that is free,
                else a free port.
            registry_port: the same for the schema registry.
            heap: the heap of each segment store, as in Java's `-Xmx`; `512m` when None. Its cache has half of it,
                outside. Each controller and bookie has a heap of half of it, and 192 MB at least.
            timeout_s: how long all may take until they answer, in seconds, fetching them not counted.
            log_level: what the servers write to their logs: ERROR, WARN, INFO, DEBUG.
            cache: where fetched jars are kept; `places.cache_folder()` when None.
            auth: whether the servers want to know who asks.
            tls: whether the servers speak TLS, with certificates of an authority of the cluster's own.
            username: who may do everything, with `auth`.
            token_ttl_s: how long the tokens for segment stores are valid, with `auth`, in seconds; 600 when None.
            rebalance_s: how long controllers wait at least until they spread containers over segment stores anew, in
                seconds. Pravega's own default is 10.

        Raises:
            SandboxError: a version or a number that can't be had, a heap size that isn't one; with `tls` also when the
                library for certificates isn't installed.
        """
        heap = heap or "512m"
        jvm.check_heap("heap", heap)
        for what, count in (("stores", stores), ("controllers", controllers)):
            if not 1 <= count <= _MOST:
                raise SandboxError(f"a cluster has 1 to {_MOST} {what}, not {count}")
        self._pravega = releases.chosen(pravega)
        if self._pravega not in data.ABLE:
            raise SandboxError(f"a cluster runs Pravega {' or '.join(data.ABLE)}, not {self._pravega}")
        self._shape = Shape(stores=stores, controllers=controllers, bookies=bookies)
        self._folder = Path(data_dir).expanduser().absolute()
        self._given_ports = {"controller_port": controller_port, "registry_port": registry_port}
        self._heap, self._log_level, self._rebalance_s = heap, log_level, rebalance_s
        self.timeout_s, self._cache = timeout_s, cache
        self._token_ttl_s = DEFAULT_TTL_S if token_ttl_s is None else token_ttl_s
        self._accounts = [Account(username)] if auth else []
        self._passwords = passwords_of(self._accounts)
        self._authority = Authority() if tls else None
        self._access = Access()
        self._ports: Mapping[str, int] = {}
        self._claim: Claim | None = None
        self._ready = False
        self._owner = os.getpid()
        self.members: dict[str, Member] = {}
        """The processes by name; none before `prepare` or `start`."""

    def start(self) -> Self:
        """Fetch the servers if need be, start them, and wait until all answer.

        Returns:
            This cluster.

        Raises:
            SandboxError: a sandbox is running in the data folder already, a given port is taken, the servers can't be
                fetched, one ended or didn't answer in time; the data that is kept there is of another version, or of a
                sandbox in one process, or its disk is full.
        """
        try:
            self.prepare()
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    self.launch()
                    break
                except PortTakenError:
                    self.kill(*self.members)
                    require_free(self._given_ports)
                    if attempt == _ATTEMPTS:
                        raise
                    self._lay_out()
        except OSError as error:
            self.stop()
            raise SandboxError(f"the cluster can't be started in {self._folder}: {error}") from error
        except BaseException:
            self.stop()
            raise
        return self

    def prepare(self) -> None:
        """Claim the folder, fetch the servers if need be, and settle addresses; `launch` starts processes.

        Raises:
            SandboxError: as `start`, where no process has a part in it.
        """
        if self._claim is not None:
            raise SandboxError(f"this cluster has been started already; its files are in {self._folder}")
        self._owner = os.getpid()
        self._claim = folders.claim(self._folder)
        require_free(self._given_ports)
        self._lay_out()

    def launch(self, *names: str, wait: bool = True) -> None:
        """Start processes that don't run.

        Args:
            names: which ones; all of them when none is named.
            wait: whether to wait until they answer.

        Raises:
            SandboxError: one ended or didn't answer in time.
        """
        chosen = [name for name in names or self.members if not self.members[name].runs]
        deadline = time.monotonic() + self.timeout_s
        if ZOOKEEPER in chosen:
            self._begin_with_zookeeper(deadline)
        # Controllers find all segment stores when they first spread containers over them: one that is moved while it
        # starts fails, and takes its time to recover. The registry needs all the others.
        for kind in (BOOKIE, SEGMENT_STORE, CONTROLLER, REGISTRY):
            some = [name for name in chosen if role(name) == kind]
            self._begin(*some)
            if wait:
                self._await(some, deadline)
                if kind == BOOKIE:
                    self._await_registered(some, deadline)
        if wait and not names:
            self._ready = True
            about = data.About(pravega=self._pravega, whole=True, cluster=True, ports=self._ports)
            about.save(self._folder)
        self._note()

    def kill(self, *names: str) -> None:
        """End processes as a failing machine does: SIGKILL. The cluster goes on without them.

        Args:
            names: which ones.
        """
        for name in names:
            member = self.members[name]
            if member.process is not None:
                if member.process.identity is not None:
                    member.process.identity.send(signal.SIGKILL)
                member.process.stop(grace_s=0.0)
                member.process = None

    def freeze(self, *names: str) -> None:
        """Stop processes in their tracks: their connections stay open, and nobody answers.

        Args:
            names: which ones.
        """
        self._signal(names, signal.SIGSTOP)

    def thaw(self, *names: str) -> None:
        """Let frozen processes go on.

        Args:
            names: which ones.
        """
        self._signal(names, signal.SIGCONT)

    def stop(self) -> None:
        """End all processes; their data stays. Does nothing when none runs.

        Raises:
            SandboxError: a process can't be ended.
        """
        if self._owner != os.getpid() or self._claim is None:
            return
        try:
            # Also those that others have started again meanwhile.
            with state.changing(self._folder) as running:
                own = [member.process.identity for member in self.members.values() if member.process]
                others = running.servers.values() if running else ()
                end([process for process in (*own, *others) if process is not None], grace_s=STOP_GRACE_S)
                self.kill(*self.members)
        finally:
            claim, self._claim, self._ready = self._claim, None, False
            claim.clean(logs=False)
            claim.release()

    def detach(self) -> State:
        """Let the processes live on without this one; `stop` of this object does nothing after it.

        Returns:
            What its state file says.
        """
        detached = replace(self._running(), detached=True, owner=None)
        detached.save()
        for member in self.members.values():
            if member.process is not None:
                member.process.release()
                member.process = None
        if self._claim is not None:
            self._claim.release()
            self._claim = None
        return detached

    @property
    def data_dir(self) -> Path:
        """Where its files lie."""
        return self._folder

    def _lay_out(self) -> None:
        """Settle ports, keys and settings, also for a second try of a start."""
        former = data.prepare(self._folder, self._pravega, cluster=True).ports
        jars, registry_jars = bundles.fetch_all(releases.servers(self._pravega), cache=self._cache)
        settled = secured.renewed(
            self._folder, self._accounts, self._passwords, token_ttl_s=self._token_ttl_s, authority=self._authority
        )
        self._access = listening.access_to(settled)
        given = {"controller-1": self._given_ports["controller_port"], REGISTRY: self._given_ports["registry_port"]}
        self._ports = listening.choose(self._shape.listeners(), given, former)
        launches = members.launches(
            self._shape, (jars, registry_jars), self._folder, self._ports,
            heap=self._heap, log_level=self._log_level, rebalance_s=self._rebalance_s, secured=settled,
        )  # fmt: skip
        self.members = {
            name: Member(name, launches[name], members.own_ports(name, self._ports), members.log_of(self._folder, name))
            for name in self._shape.names()
        }
        for member in self.members.values():
            secured.write_private(member.log, b"")

    def _begin_with_zookeeper(self, deadline: float) -> None:
        alone = not any(member.runs for member in self.members.values())
        self._begin(ZOOKEEPER)
        self._await([ZOOKEEPER], deadline)
        with zookeeper.session(self._ports[ZOOKEEPER]) as session:
            if alone:
                session.forget_the_dead()
            # BookKeeper's clients look at it before the first bookie has made it.
            session.make(f"{parts.LEDGERS}/available/readonly")

    def _begin(self, *names: str) -> None:
        for name in names:
            member = self.members[name]
            if member.process is not None:
                member.process.stop(grace_s=0.0)
            member.log_size = member.log.stat().st_size
            with member.log.open("ab") as output:
                member.process = Kept(
                    member.launch.command, output=output, folder=self._folder, environment=member.launch.environment
                )
            self._note()

    def _await(self, names: Iterable[str], deadline: float) -> None:
        for name in names:
            member = self.members[name]
            assert member.process is not None
            checks = members.checks(name, self._ports, self._access)
            readiness.await_ready(name, member.process, member.log, checks, deadline, since=member.log_size)

    def _await_registered(self, names: list[str], deadline: float) -> None:
        """Wait for bookies: without them each of a store's containers would fail, and be started again 10 s later."""
        missing = {*names}
        while missing:
            with zookeeper.session(self._ports[ZOOKEEPER]) as session:
                missing -= {*session.children(f"{parts.LEDGERS}/available")}
            if missing and time.monotonic() > deadline:
                raise SandboxError(f"{', '.join(sorted(missing))} didn't tell ZooKeeper in time that they are there")
            time.sleep(_POLL_S if missing else 0)

    def _signal(self, names: Iterable[str], number: signal.Signals) -> None:
        for name in names:
            process = self.members[name].process
            if process is not None and process.identity is not None:
                process.identity.send(number)

    def _state(self) -> State:
        scheme, web = ("tls", "https") if self._authority else ("tcp", "http")
        servers = {
            name: member.process.identity or ProcessId(member.process.pid, "ended")
            for name, member in self.members.items()
            if member.process is not None
        }
        user = self._accounts[0].username if self._accounts else None
        return State(
            controller_uri=jvm.controller_uri(members.controllers(self._ports), tls=scheme == "tls"),
            schema_registry_uri=f"{web}://{LOOPBACK}:{self._ports[REGISTRY]}",
            data_dir=str(self._folder),
            pravega=self._pravega,
            ready=self._ready,
            detached=False,
            servers=servers,
            ports=dict(self._ports),
            durable=True,
            cluster=True,
            owner=ProcessId.of(os.getpid()),
            username=user,
            password=self._passwords[user] if user else None,
            tls_ca=str(secured.folder_of(self._folder) / secured.CA) if self._authority else None,
        )

    def _note(self) -> None:
        with state.changing(self._folder) as noted:
            current = self._state()
            # Others may have started some again.
            theirs = {
                name: process
                for name, process in (noted.servers if noted else {}).items()
                if process.alive() and not self.members[name].runs
            }
            replace(current, servers={**current.servers, **theirs}).save()

    def _running(self) -> State:
        if self._claim is None or not self.members:
            raise SandboxError("this cluster isn't running: use it in a `with` block, or call start() first")
        return self._state()
