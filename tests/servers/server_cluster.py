"""The sandbox's cluster for tests of faults: each process can be killed, frozen and started again, by its short name.

What it has stored is on disk, in a folder that the test gives.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox.cluster import Cluster, Member, zookeeper
from pyspark_pravega.sandbox.data import DATA
from pyspark_pravega.sandbox.java import parts
from pyspark_pravega.settings import Settings

START_S = 480.0
SILENT_S = 60.0
"""A registry that runs and doesn't listen, or a bookie that ZooKeeper doesn't list, for so long, is started again, as a
liveness probe has it."""
_NO_JOURNAL = b"Recovery log"
"""Stands in a bookie's log that can't start: `Recovery log 1796076407541 is missing`."""
_DISK_BYTES = 1 << 30
_OTHERS = "of-others"
"""A file that fills a disk."""
_REBALANCE_S = 10
"""Pravega's own default: docs/production.md says how long fail-over takes with it."""


class ServerCluster:
    """The processes, by name: `zookeeper`, `bookie-1..3`, `controller-1..2`, `store-1..2`, `registry`."""

    def __init__(
        self, folder: Path, *, stores: int = 2, controllers: int = 2, bookies: int = 3, token_ttl_s: int | None = None
    ) -> None:
        """Nothing is started yet.

        Args:
            folder: where data and logs go; empty, or of a cluster before.
            stores: how many segment stores.
            controllers: how many controllers.
            bookies: how many bookies; each entry is written to one less, and to three at most.
            token_ttl_s: how long the tokens of segment stores are valid, in seconds; the servers then want to know who
                asks, and speak TLS. None for servers that let everybody in.
        """
        self.folder = folder
        self._cluster = Cluster(
            data_dir=folder, stores=stores, controllers=controllers, bookies=bookies, heap="1g", timeout_s=START_S,
            rebalance_s=_REBALANCE_S, pravega="0.13", auth=token_ttl_s is not None, tls=token_ttl_s is not None,
            token_ttl_s=token_ttl_s,
        )  # fmt: skip
        self._cluster.prepare()
        self.servers: dict[str, Member] = {_short(name): member for name, member in self._cluster.members.items()}
        self._names = {_short(name): name for name in self._cluster.members}
        self.bookies = self._of("bookie")
        self.controllers = self._of("controller")
        self.stores = self._of("store")
        self.registry = self.servers["registry"]
        self.controller_uri = self._cluster.controller_uri
        self.settings = Settings.resolve({}, environ=self._cluster.environment())
        self._silent_since: dict[str, float] = {}
        several = self.bookies if bookies > 1 else []
        self._disks = [disk for name in several if (disk := _small_disk(folder / DATA / name))]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *names: str, wait: bool = True) -> None:
        """Start servers that don't run; all of them when none is named.

        Args:
            names: which ones.
            wait: whether to wait until they answer.
        """
        self._cluster.launch(*self._whole(names), wait=wait)

    def kill(self, *names: str) -> None:
        """End servers as a failing machine does: SIGKILL."""
        self._cluster.kill(*self._whole(names))

    def freeze(self, *names: str) -> None:
        """Stop servers in their tracks: their connections stay open, and nobody answers."""
        self._cluster.freeze(*self._whole(names))

    def thaw(self, *names: str) -> None:
        """Let frozen servers go on."""
        self._cluster.thaw(*self._whole(names))

    def fill_disk(self, name: str) -> None:
        """Let a bookie's disk be full. Where it has none of its own, its process may make no file longer."""
        folder = self.folder / DATA / name
        if folder not in self._disks:
            self._limit_files(name, 0)
            return
        with (folder / _OTHERS).open("wb", buffering=0) as file, suppress(OSError):
            # Others take some of it at the same time.
            while True:
                file.write(bytes(1 << 20))

    def make_room(self, name: str) -> None:
        """Let a bookie write again."""
        folder = self.folder / DATA / name
        (folder / _OTHERS).unlink(missing_ok=True)
        if folder not in self._disks and self.servers[name].runs:
            self._limit_files(name, resource.RLIM_INFINITY)

    def rest(self, seconds: float, *, but: Collection[str] = ()) -> None:
        """Let some time go by. What ends by itself, as servers do that have lost their session, is started again.

        Args:
            seconds: how long.
            but: servers that aren't started again.
        """
        limit = time.monotonic() + seconds
        while (left := limit - time.monotonic()) > 0:
            time.sleep(min(1.0, left))
            self._start_ended(but)

    @contextmanager
    def kept_up(self) -> Iterator[None]:
        """Start again, while the block runs, what ends by itself: some do long after the fault."""
        ends = threading.Event()

        def keep() -> None:
            while not ends.wait(1):
                self._start_ended(())

        keeper = threading.Thread(target=keep, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ends.set()
            keeper.join()

    def stop(self) -> None:
        """End all; what bookies with small disks have stored goes with these."""
        self._cluster.stop()
        while self._disks:
            subprocess.run(["umount", self._disks.pop()], check=True)

    def wipe(self) -> None:
        """End all, and remove what they have stored."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, name: str) -> Path:
        """Where a server's output is."""
        return self.servers[name].log

    def _start_ended(self, but: Collection[str]) -> None:
        for name, server in self.servers.items():
            if server.process is not None and not server.runs and name not in but:
                self._forget_a_journal(name)
                self.start(name, wait=False)
        silent = self._unlisted_bookies() - set(but) if "zookeeper" not in but else set[str]()
        if "registry" not in but and not self._registry_listens():
            silent |= {"registry"}
        self._start_silent(silent)

    def _start_silent(self, silent: set[str]) -> None:
        """Start again who has been silent for long: some, started while others were away, never come up."""
        now = time.monotonic()
        self._silent_since = {name: self._silent_since.get(name, now) for name in sorted(silent)}
        for name, since in list(self._silent_since.items()):
            if now - since > SILENT_S:
                lines = self.log(name).read_text(errors="replace").splitlines()[-15:]
                print(f"{name} doesn't serve, and is started again:", *lines, sep="\n    ", flush=True)
                self.kill(name)
                self.start(name, wait=False)
                del self._silent_since[name]

    def _registry_listens(self) -> bool:
        address = urlsplit(self.settings.schema_registry_uri or "")
        with suppress(OSError), socket.create_connection((address.hostname, address.port or 0), timeout=1):
            return True
        return False

    def _unlisted_bookies(self) -> set[str]:
        """Those that run, and that nobody knows of: a bookie that meets the node of its session before goes on so."""
        try:
            with zookeeper.session(self.servers["zookeeper"].ports[0]) as asked:
                listed = {
                    *asked.children(f"{parts.LEDGERS}/available"),
                    *asked.children(f"{parts.LEDGERS}/available/readonly"),
                }
        except SandboxError:
            return set()
        return {name for name in self.bookies if self.servers[name].runs} - listed

    def _forget_a_journal(self, name: str) -> None:
        """Let a bookie begin with the first journal that it has.

        One whose disk is full may note that it goes on with a journal that it can't write, and then never starts.
        Nothing was ever acknowledged from that journal.
        """
        if name in self.bookies and _NO_JOURNAL in self.log(name).read_bytes()[self.servers[name].log_size :]:
            for mark in (self.folder / DATA / name).rglob("lastMark"):
                journals = sorted(path.name for path in mark.parents[2].rglob("*.txn"))
                print(f"{name} misses a journal: {mark.read_bytes().hex()}, it has {journals}", flush=True)
                mark.unlink()

    def _limit_files(self, name: str, size: int) -> None:
        process = self.servers[name].process
        assert process is not None
        assert process.identity is not None
        resource.prlimit(process.identity.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def _whole(self, names: tuple[str, ...]) -> list[str]:
        return [self._names[name] for name in names]

    def _of(self, kind: str) -> list[str]:
        return [name for name in self.servers if name.startswith(f"{kind}-")]


def _small_disk(folder: Path) -> Path | None:
    """Give a folder a disk of its own, which only root can; None: it has none."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder)]
    return folder if os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0 else None


def _short(name: str) -> str:
    return name.removeprefix("schema-").replace("segmentstore", "store")
