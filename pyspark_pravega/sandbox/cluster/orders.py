"""What is done to single processes of a cluster that another program has started: killed, started again."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import listening, readiness, state
from pyspark_pravega.sandbox.cluster import members
from pyspark_pravega.sandbox.processes import Kept, end
from pyspark_pravega.sandbox.state import State

_LIMIT_S = 480.0


def kill(folder: Path, names: Sequence[str]) -> None:
    """End processes as a failing machine does: SIGKILL. The cluster goes on without them.

    Args:
        folder: the cluster's.
        names: the processes.

    Raises:
        SandboxError: no cluster runs there, or it has no such process.
    """
    with state.changing(folder) as running:
        _end(_cluster(folder, running, names), names)


def restart(folder: Path, names: Sequence[str]) -> None:
    """Start processes again, and wait until they answer; those that still run are killed first.

    Args:
        folder: the cluster's.
        names: the processes.

    Raises:
        SandboxError: no cluster runs there, it has no such process, or one doesn't answer.
    """
    started: dict[str, Kept] = {}
    try:
        with state.changing(folder) as running:
            current = _cluster(folder, running, names)
            _end(current, names)
            sizes = {name: members.log_of(folder, name).stat().st_size for name in names}
            for name in names:
                launch = members.kept_launch(folder, name)
                with members.log_of(folder, name).open("ab") as output:
                    started[name] = Kept(
                        launch.command, output=output, folder=folder, environment=launch.environment,
                        owner=current.owner,
                    )  # fmt: skip
            begun = {name: process.identity for name, process in started.items() if process.identity}
            replace(current, servers={**current.servers, **begun}).save()
        deadline = time.monotonic() + _LIMIT_S
        for name, process in started.items():
            checks = members.checks(name, current.ports, listening.access_of(current))
            log = members.log_of(folder, name)
            readiness.await_ready(name, process, log, checks, deadline, since=sizes[name])
    except BaseException:
        for process in started.values():
            process.stop(grace_s=0.0)
        raise
    for process in started.values():
        process.release()


def _cluster(folder: Path, running: State | None, names: Sequence[str]) -> State:
    if running is None or running.health() in (state.Health.NOT_RUNNING, state.Health.STARTING):
        raise SandboxError(
            f"no cluster runs in {folder}; start one with: pravega-spark sandbox start --stores 2 --controllers 2"
        )
    if not running.cluster:
        raise SandboxError(
            f"the sandbox in {folder} has all servers in one process, of which none can be killed or started alone; "
            "`pravega-spark sandbox start --stores 2 --controllers 2` starts one of several, with another --data-dir"
        )
    for name in names:
        members.check_name(name, list(running.servers))
    return running


def _end(running: State, names: Sequence[str]) -> None:
    processes = [running.servers[name] for name in names]
    for process in processes:
        process.send(signal.SIGKILL)
    end(processes, grace_s=0.0)
