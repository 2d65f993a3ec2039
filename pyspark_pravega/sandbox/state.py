"""What is written down of a sandbox, so that other processes can find, judge and stop it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO

from pyspark_pravega.sandbox.processes import ProcessId
from pyspark_pravega.sandbox.security import write_private

STATE_FILE = "sandbox.json"
_LOCK_FILE, _CHANGES_FILE = "lock", "changes"
_VERSION = 1
PRAVEGA_LOG = "pravega.log"
REGISTRY_LOG = "schema-registry.log"
PRAVEGA_SETTINGS = "pravega.properties"
REGISTRY_SETTINGS = "schema-registry.properties"
CLUSTER_SETTINGS = "settings"
"""A folder with those of a cluster."""
DURABLE_SETTINGS = ("zookeeper.properties", "bookie.properties", "segment-store.properties", "controller.properties")
"""Those of a Pravega that keeps its data."""


class Health(Enum):
    """How a sandbox is."""

    NOT_RUNNING = "not running"
    STARTING = "starting"
    RUNNING = "running"
    BROKEN = "broken"


@dataclass(frozen=True, kw_only=True)
class State:
    """One sandbox, as its state file tells it."""

    controller_uri: str
    """`tcp://host:port` or `tls://host:port`."""
    schema_registry_uri: str
    """`http://host:port` or `https://host:port`."""
    data_dir: str
    """Where its files lie."""
    ready: bool
    """Whether both servers have answered."""
    detached: bool
    """Whether it lives on without the process that started it."""
    servers: dict[str, ProcessId]
    """Server name to process."""
    ports: dict[str, int]
    """What listens there to port."""
    pravega: str = "0.13"
    """Pravega's version; what a file without one was written for is 0.13."""
    username: str | None = None
    """Who may do everything; None: it asks nobody who they are."""
    password: str | None = field(default=None, repr=False)
    durable: bool = False
    """Whether its data is kept in the folder. In sandboxes of older versions of this package it never was."""
    cluster: bool = False
    """Whether each server is a process of its own, and there are several of some."""
    owner: ProcessId | None = None
    """The process with which a cluster's processes end; None: with none."""
    tls_ca: str | None = None
    """A PEM file with the certificate of the authority to trust; None: it speaks without TLS."""

    def health(self) -> Health:
        """Look at the processes.

        Returns:
            How the sandbox is now.
        """
        living = {name for name, process in self.servers.items() if process.alive()}
        if not living:
            return Health.NOT_RUNNING
        if not self.ready:
            return Health.STARTING
        if self.cluster:
            # One of each kind is enough: the others are there for when one fails.
            return Health.RUNNING if {*map(role, living)} == {*map(role, self.servers)} else Health.BROKEN
        return Health.RUNNING if living == self.servers.keys() else Health.BROKEN

    def usable(self) -> bool:
        """Whether programs shall use it: also a cluster that lacks all servers of a kind, which may come back."""
        health = self.health()
        return health is Health.RUNNING or (self.cluster and health is Health.BROKEN)

    def ended(self) -> list[str]:
        """The servers that aren't there any more.

        Returns:
            Their names.
        """
        return [name for name, process in self.servers.items() if not process.alive()]

    def addresses(self) -> str:
        """Where the sandbox is, for people.

        Returns:
            A line.
        """
        return f"Pravega {self.pravega}, controller {self.controller_uri}, schema registry {self.schema_registry_uri}"

    def environment(self, *, secrets: bool = True) -> dict[str, str]:
        """What to set for programs that shall use the sandbox.

        Args:
            secrets: with the user and password, where it asks for them.

        Returns:
            Variable to value.
        """
        variables = {
            "PRAVEGA_CONTROLLER_URI": self.controller_uri,
            "PRAVEGA_SCHEMA_REGISTRY_URI": self.schema_registry_uri,
            "PRAVEGA_TLS_CA": self.tls_ca,
        }
        if secrets:
            variables |= {"PRAVEGA_USERNAME": self.username, "PRAVEGA_PASSWORD": self.password}
        return {variable: value for variable, value in variables.items() if value is not None}

    def save(self) -> None:
        """Write the state file, so that a reader sees the old one or the new one, whole."""
        file = Path(self.data_dir) / STATE_FILE
        text = json.dumps({"version": _VERSION, **asdict(self)}, indent=2) + "\n"
        write_private(file.with_suffix(".draft"), text).replace(file)


def role(name: str) -> str:
    """What kind of server one is.

    Args:
        name: such as `controller-1`.
    """
    return name.rstrip("-0123456789")


def load(data_dir: Path) -> State | None:
    """Read a state file.

    Args:
        data_dir: the sandbox's folder.

    Returns:
        The state; None when there is no file, or none that we could have written.
    """
    try:
        content = json.loads((data_dir / STATE_FILE).read_text())
        if content.pop("version") != _VERSION:
            return None
        content["servers"] = {name: ProcessId(**process) for name, process in content["servers"].items()}
        if owner := content.get("owner"):
            content["owner"] = ProcessId(**owner)
        return State(**{**content, "data_dir": str(data_dir)})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def forget(data_dir: Path) -> None:
    """Remove a state file.

    Args:
        data_dir: the sandbox's folder.
    """
    (data_dir / STATE_FILE).unlink(missing_ok=True)


@contextmanager
def changing(data_dir: Path) -> Iterator[State | None]:
    """Change what runs of a cluster, while nobody else does.

    Args:
        data_dir: the sandbox's folder, which must exist.

    Yields:
        Its state.
    """
    folder = data_dir / CLUSTER_SETTINGS
    if not folder.is_dir():
        # It isn't a cluster, whose processes are started one by one, or not any more.
        yield load(data_dir)
        return
    with os.fdopen(os.open(folder / _CHANGES_FILE, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield load(data_dir)


def lock(data_dir: Path) -> IO[str] | None:
    """Claim a data folder; the claim ends when the file is closed, or with this process.

    Args:
        data_dir: the sandbox's folder, which must exist.

    Returns:
        The open lock file, or None when another process has it.
    """
    file = os.fdopen(os.open(data_dir / _LOCK_FILE, os.O_WRONLY | os.O_CREAT, 0o600), "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
