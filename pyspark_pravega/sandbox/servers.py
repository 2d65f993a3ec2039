"""A real Pravega and a real schema registry, as long as a `with` block lasts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import data, folders, listening, readiness, state
from pyspark_pravega.sandbox.files import bundles, releases
from pyspark_pravega.sandbox.folders import Claim
from pyspark_pravega.sandbox.java import DEFAULT_TTL_S, LOOPBACK, MAX_TTL_S, Launch, Ports, durable, jvm
from pyspark_pravega.sandbox.ports import require_free
from pyspark_pravega.sandbox.processes import STOP_GRACE_S, Kept, ProcessId, end
from pyspark_pravega.sandbox.readiness import PortTakenError
from pyspark_pravega.sandbox.security import USERNAME, Account, Authority, passwords_of, secured
from pyspark_pravega.sandbox.started import Started
from pyspark_pravega.sandbox.state import State

_ATTEMPTS = 5


class Sandbox(Started):
    """Pravega and its schema registry on this machine.

    `with Sandbox() as sandbox:` gives two servers that answer at `sandbox.controller_uri` and
    `sandbox.schema_registry_uri`, and ends them after the block, or when this process is gone, however it died. Their
    data lies in memory, and is gone with them. With `durable=True` it lies in the folder, and the next start has it.
    """

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        durable: bool = False,
        pravega: str | None = None,
        controller_port: int | None = None,
        registry_port: int | None = None,
        heap: str | None = None,
        registry_heap: str = "256m",
        timeout_s: float = 120.0,
        log_level: str = "WARN",
        cache: Path | None = None,
        auth: bool = False,
        tls: bool = False,
        username: str = USERNAME,
        password: str | None = None,
        accounts: Iterable[Account] = (),
        token_ttl_s: int = DEFAULT_TTL_S,
        preallocate: bool = False,
    ) -> None:
        """Describe a sandbox; nothing is started yet.

        Args:
            data_dir: where logs, configuration and state are kept, one sandbox at a time; a temporary folder, removed
                by `stop`, when None.
            durable: whether the data is kept in `data_dir`, so that the next start has it; else it lies in memory.
            pravega: Pravega's version, 0.11, 0.12 or 0.13; `$PYSPARK_PRAVEGA_SANDBOX_PRAVEGA`, or 0.13, when None.
            controller_port: where the controller shall listen; when None, where it did before with `durable`, if that
                is free, else a free port.
            registry_port: the same for the schema registry.
            heap: Pravega's heap, as in Java's `-Xmx`; in memory streams live in it, so it bounds how much data fits.
                When None, `2g` in memory and `1g` with `durable`.
            registry_heap: the schema registry's heap.
            timeout_s: how long the servers may take until they answer, in seconds, fetching them not counted.
            log_level: what the servers write to their logs: ERROR, WARN, INFO, DEBUG.
            cache: where fetched jars are kept; `places.cache_folder()` when None.
            auth: whether both servers want to know who asks.
            tls: whether both servers speak TLS, with certificates of an authority of the sandbox's own.
            username: who may do everything, with `auth`.
            password: that user's; a random one, see `password`, when None.
            accounts: more users, with `auth`.
            token_ttl_s: how long the delegation tokens that the controller gives out are valid, in seconds, with
                `auth`; 600 is the standalone server's own.
            preallocate: take Pravega's whole heap from the operating system at the start, as one does in production;
                a growing heap spends up to two thirds of the server's CPU time on page faults (measured while
                writing). For benchmarks.

        Raises:
            SandboxError: a version that can't be had, or not with `durable`; `durable` without `data_dir`; a heap size
                that isn't one, accounts that can't be, or accounts without `auth`; with `tls` also when the library
                for certificates isn't installed.
        """
        heap = heap or ("1g" if durable else "2g")
        jvm.check_heap("heap", heap)
        jvm.check_heap("registry_heap", registry_heap)
        self._pravega = releases.chosen(pravega)
        if durable:
            data.check_version(self._pravega)
            if data_dir is None:
                raise SandboxError("a sandbox that keeps its data needs a folder for it: say data_dir")
        self._durable = durable
        self._given_dir = None if data_dir is None else Path(data_dir).expanduser().absolute()
        self._given_ports = {"controller_port": controller_port, "registry_port": registry_port}
        self._heap, self._registry_heap, self._log_level = heap, registry_heap, log_level
        self.timeout_s = timeout_s
        self._cache = cache
        more = list(accounts)
        if not auth and (more or password is not None):
            raise SandboxError("a sandbox without authentication has no accounts: say auth=True")
        if not 1 <= token_ttl_s <= MAX_TTL_S:
            raise SandboxError(f"token_ttl_s must be between 1 and {MAX_TTL_S}, not {token_ttl_s}")
        self._accounts = [Account(username, password=password), *more] if auth else []
        self._passwords = passwords_of(self._accounts)
        self._token_ttl_s = token_ttl_s
        self._preallocate = preallocate
        self._authority = Authority() if tls else None
        self._claim: Claim | None = None
        self._servers: dict[str, Kept] = {}
        self._state: State | None = None
        self._owner = os.getpid()

    def start(self) -> Self:
        """Fetch the servers if need be, start them, and wait until both answer.

        Returns:
            This sandbox.

        Raises:
            SandboxError: one is running in the data folder already, a given port is taken, the servers can't be
                fetched, one ended or didn't answer in time; the data that is kept there is of another version, or its
                disk is full.
        """
        if self._claim is not None:
            raise SandboxError(f"this sandbox has been started already; its files are in {self._claim.path}")
        self._owner = os.getpid()
        try:
            self._claim = folders.claim(self._given_dir)
            require_free(self._given_ports)
            former = data.prepare(self._claim.path, self._pravega).ports if self._durable else {}
            jars, registry_jars = bundles.fetch_all(releases.servers(self._pravega), cache=self._cache)
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    self._start(self._claim.path, jars, registry_jars, former)
                    break
                except PortTakenError:
                    self._end_servers()
                    require_free(self._given_ports)
                    if attempt == _ATTEMPTS:
                        raise
        except OSError as error:
            self._give_up()
            raise SandboxError(
                f"the sandbox can't be started in {self._given_dir or 'a temporary folder'}: {error}"
            ) from error
        except BaseException:
            self._give_up()
            raise
        return self

    def stop(self) -> None:
        """End both servers; what lies in memory is gone then. Does nothing when they aren't running.

        Raises:
            SandboxError: a server can't be ended.
        """
        if self._owner != os.getpid():
            # A fork of the process that started the servers, leaving the same `with` block: they aren't its own.
            return
        self._end_servers()
        self._release(logs=True)

    def detach(self) -> State:
        """Let the servers live on without this process; `stop` of this object does nothing after it.

        Returns:
            What its state file says.
        """
        current = self._running()
        detached = replace(current, detached=True)
        detached.save()
        for server in self._servers.values():
            server.release()
        self._servers, self._state = {}, None
        if self._claim is not None:
            self._claim.release()
            self._claim = None
        return detached

    @property
    def durable(self) -> bool:
        """Whether its data is kept."""
        return self._durable

    @property
    def username(self) -> str | None:
        """Who may do everything; None without authentication."""
        return self._accounts[0].username if self._accounts else None

    @property
    def password(self) -> str | None:
        """The password of `username`; None without authentication."""
        return self.password_of(self._accounts[0].username) if self._accounts else None

    def password_of(self, username: str) -> str:
        """A user's password.

        Args:
            username: one of `accounts`, or `username`.

        Raises:
            SandboxError: there's no such user.
        """
        if username not in self._passwords:
            raise SandboxError(f'this sandbox has no user "{username}"')
        return self._passwords[username]

    @property
    def tls_ca(self) -> Path | None:
        """The certificate of the authority to trust, a PEM file that lives as long as the servers; None without TLS."""
        path = self._running().tls_ca
        return Path(path) if path else None

    @property
    def authority(self) -> Authority:
        """Who signs this sandbox's certificates, and signs more of them for tests.

        Raises:
            SandboxError: it speaks without TLS.
        """
        if self._authority is None:
            raise SandboxError("this sandbox has no certificates: start one with tls=True")
        return self._authority

    @property
    def data_dir(self) -> Path:
        """Where its files lie."""
        return Path(self._running().data_dir)

    @property
    def pravega_pid(self) -> int:
        """The process id of Pravega."""
        return self._running().servers["pravega"].pid

    @property
    def registry_pid(self) -> int:
        """The process id of the schema registry."""
        return self._running().servers["schema-registry"].pid

    @property
    def pravega_log(self) -> Path:
        """What Pravega writes."""
        return self.data_dir / state.PRAVEGA_LOG

    @property
    def registry_log(self) -> Path:
        """What the schema registry writes."""
        return self.data_dir / state.REGISTRY_LOG

    def ended(self) -> list[str]:
        """The servers that have ended although nobody stopped this sandbox.

        Returns:
            Their names; none when all is well.
        """
        return self._running().ended()

    def _start(self, folder: Path, jars: Path, registry_jars: Path, former: Mapping[str, int]) -> None:
        security = secured.renewed(folder, self._accounts, self._passwords, self._token_ttl_s, self._authority)
        access = listening.access_to(security)
        names = listening.DURABLE_NAMES if self._durable else listening.NAMES
        given = {"controller": self._given_ports["controller_port"], "registry": self._given_ports["registry_port"]}
        ports = Ports(**listening.choose(names, given, former))
        deadline = time.monotonic() + self.timeout_s
        launch = (durable if self._durable else jvm).pravega(
            jars, folder, ports, heap=self._heap, log_level=self._log_level, secured=security,
            preallocate=self._preallocate,
        )  # fmt: skip
        log = folder / state.PRAVEGA_LOG
        self._launch("pravega", launch, log, ports)
        checks = listening.pravega_checks(ports, access)
        readiness.await_ready("pravega", self._servers["pravega"], log, checks, deadline)
        launch = jvm.registry(
            registry_jars, folder, ports.registry, [ports.controller],
            heap=self._registry_heap, log_level=self._log_level, secured=security,
        )  # fmt: skip
        log = folder / state.REGISTRY_LOG
        self._launch("schema-registry", launch, log, ports)
        checks = listening.registry_checks(ports, access)
        readiness.await_ready("schema-registry", self._servers["schema-registry"], log, checks, deadline)
        if self._durable:
            data.About(pravega=self._pravega, whole=True, ports=ports.taken()).save(folder)
        self._note(folder, ports, ready=True)

    def _launch(self, name: str, launch: Launch, log: Path, ports: Ports) -> None:
        # At the log's end, wherever that is: others may write to it, or cut it.
        with secured.write_private(log, b"").open("ab") as output:
            self._servers[name] = Kept(launch.command, output=output, folder=log.parent, environment=launch.environment)
        self._note(log.parent, ports, ready=False)

    def _note(self, folder: Path, ports: Ports, *, ready: bool) -> None:
        current = State(
            controller_uri=f"{'tls' if self._authority else 'tcp'}://{LOOPBACK}:{ports.controller}",
            schema_registry_uri=f"{'https' if self._authority else 'http'}://{LOOPBACK}:{ports.registry}",
            data_dir=str(folder),
            pravega=self._pravega,
            ready=ready,
            detached=False,
            servers={name: server.identity or ProcessId(server.pid, "ended") for name, server in self._servers.items()},
            ports=ports.taken(),
            durable=self._durable,
            username=self.username,
            password=self.password,
            tls_ca=str(secured.folder_of(folder) / secured.CA) if self._authority else None,
        )
        current.save()
        self._state = current if ready else None

    def _running(self) -> State:
        if self._state is None:
            raise SandboxError("this sandbox isn't running: use it in a `with` block, or call start() first")
        return self._state

    def _end_servers(self) -> None:
        servers, self._servers, self._state = self._servers, {}, None
        try:
            end([s.identity for s in servers.values() if s.identity is not None], grace_s=STOP_GRACE_S)
        finally:
            for server in servers.values():
                server.stop(grace_s=0.0)

    def _give_up(self) -> None:
        """End what a failed start has begun; its logs stay, as the error points to them."""
        try:
            self._end_servers()
        finally:
            self._release(logs=False)

    def _release(self, *, logs: bool) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.clean(logs=logs)
            claim.release()
