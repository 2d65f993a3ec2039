"""The sandbox that a user has running, for programs in which nothing else names a controller."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark_pravega.sandbox import places, state
from pyspark_pravega.settings import controller_addresses

START = "pravega-spark sandbox start --detach"
SAID = "PYSPARK_PRAVEGA_SANDBOX_SAID"
"""The variable by which a process, and those that it starts, know of which sandbox it was said that it is used."""


def running() -> state.State | None:
    """The sandbox that was started from the command line without naming a folder; None when it doesn't run."""
    sandbox = state.load(places.state_folder())
    return sandbox if sandbox is not None and sandbox.usable() else None


def variables(program: str) -> Mapping[str, str]:
    """The running sandbox's environment, with the user and the password where it asks for them.

    That it is used is said on standard error: once by a process and those that it starts, and once by a Spark program,
    its catalog process and its workers.

    Args:
        program: who says so.

    Returns:
        Nothing when no sandbox runs.
    """
    sandbox = running()
    if sandbox is None:
        return {}
    addresses = sandbox.addresses()
    if os.environ.get(SAID) != addresses:
        os.environ[SAID] = addresses
        if _is_first(sandbox):
            print(f"{program}: using the running sandbox, {addresses}", file=sys.stderr, flush=True)
    return sandbox.environment()


def said_by(folder: Path) -> None:
    """Note for the workers and the catalog process of a Spark program what this process has said.

    Args:
        folder: the first of those in which the program keeps its blocks.
    """
    sandbox = running()
    if sandbox is not None and os.environ.get(SAID) == sandbox.addresses():
        _note(folder, sandbox)


def _is_first(sandbox: state.State) -> bool:
    """Whether no other process of this Spark program has said it. They know nothing of each other, and share a folder
    that Spark removes at the program's end."""
    return _note(Path(os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]), sandbox)


def _note(folder: Path, sandbox: state.State) -> bool:
    """Note in a program's folder that it was said; whether that is new."""
    if not folder.name.startswith("blockmgr-"):
        return True
    try:
        (folder / f"pravega-sandbox-{sandbox.controller_uri.rpartition(':')[2]}").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def is_of_cluster(controllers: Sequence[tuple[str, int]]) -> bool:
    """Whether addresses are those of a running sandbox of several processes, of which some may be gone.

    Args:
        controllers: host and port.
    """
    sandbox = running()
    if sandbox is None or not sandbox.cluster:
        return False
    return tuple(controllers) == controller_addresses(sandbox.controller_uri)


def way_out(controllers: Sequence[tuple[str, int]]) -> str:
    """What to do where no controller answers at an address of this machine.

    Args:
        controllers: host and port of those that were asked.

    Returns:
        A part of a sentence; empty for other machines' addresses.
    """
    if not all(_is_here(host) for host, _ in controllers):
        return ""
    sandbox = running()
    if sandbox is None:
        return f"; `{START}` starts a Pravega on this machine"
    if not set(controllers).isdisjoint(controller_addresses(sandbox.controller_uri)):
        return "; it is the sandbox's, whose log `pravega-spark sandbox logs` shows"
    return (
        f"; a sandbox runs on this machine ({sandbox.addresses()}) and isn't used, because another address is named: "
        "leave that out, or name the sandbox's; a program that is older than the sandbox must begin anew"
    )


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
