"""`pravega-spark sandbox start | status | stop | kill | restart | wipe | logs | fetch`."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import deque
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pyspark_pravega.errors import SandboxError, did_you_mean
from pyspark_pravega.sandbox import places
from pyspark_pravega.sandbox.processes import signals_interrupt
from pyspark_pravega.sandbox.security import USERNAME

if TYPE_CHECKING:
    # What they need (file locks, gRPC) is loaded by the commands that use it, not by every start of the program.
    from pyspark_pravega.sandbox.cluster import Cluster
    from pyspark_pravega.sandbox.servers import Sandbox
    from pyspark_pravega.sandbox.state import State

NOT_RUNNING = 3
"""Exit code of `status` when there is no sandbox; what `systemctl status` gives."""
_POLL_S = 0.2
_CLUSTER_POLL_S = 0.5
_NAMES_HELP = "a process that `status` lists, such as segmentstore-2, controller-1, bookie-3, zookeeper"
_VERSION_HELP = "Pravega's version: 0.11, 0.12 or 0.13 (default: $PYSPARK_PRAVEGA_SANDBOX_PRAVEGA, or 0.13)"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `sandbox` to a program's commands.

    Args:
        subparsers: the program's; each parsed command has `run`, which takes the arguments and returns an exit code.
    """
    sandbox = subparsers.add_parser(
        "sandbox",
        description="Run a real Pravega and schema registry on this machine. Their data is kept. "
        "Example: pravega-spark sandbox start --detach",
    )
    commands = sandbox.add_subparsers(dest="sandbox_command", metavar="COMMAND", required=True)

    start = _register_start(commands)
    status = commands.add_parser(
        "status",
        help=f"tell whether it runs (exit code 0) or not ({NOT_RUNNING})",
        description="Example: pravega-spark sandbox status --env",
    )
    status.add_argument("--env", action="store_true", help="print shell exports only, to be eval'ed")
    status.set_defaults(run=_status)

    stop = commands.add_parser("stop", help="end both servers", description="Example: pravega-spark sandbox stop")
    stop.set_defaults(run=_stop)

    kill = commands.add_parser(
        "kill",
        help="end processes of a cluster as a failing machine does (SIGKILL), to see fail-over",
        description="Example: pravega-spark sandbox kill segmentstore-2",
    )
    kill.set_defaults(run=_kill)

    restart = commands.add_parser(
        "restart",
        help="start processes of a cluster again, and wait until they answer",
        description="Example: pravega-spark sandbox restart segmentstore-2",
    )
    restart.set_defaults(run=_restart)
    for command in (kill, restart):
        command.add_argument("names", nargs="+", metavar="NAME", help=_NAMES_HELP)

    wipe = commands.add_parser(
        "wipe",
        help="remove the data that is kept: all scopes, streams and schemas",
        description="Example: pravega-spark sandbox wipe",
    )
    wipe.set_defaults(run=_wipe)

    logs = commands.add_parser(
        "logs", help="show what the servers wrote", description="Example: pravega-spark sandbox logs -f"
    )
    logs.add_argument("names", nargs="*", metavar="NAME", help="of which servers (default: of all)")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    logs.add_argument("-n", type=int, default=20, metavar="N", help="how many lines of each log (default: 20)")
    logs.set_defaults(run=_logs)

    fetch = commands.add_parser(
        "fetch",
        help="fetch both servers without starting them; print where they are",
        description="Example: pravega-spark sandbox fetch",
    )
    fetch.add_argument("--pravega", metavar="VERSION", help=_VERSION_HELP)
    fetch.set_defaults(run=_fetch)

    for command in (start, status, stop, kill, restart, wipe, logs):
        command.add_argument(
            "--data-dir",
            type=Path,
            metavar="DIR",
            help=f"the sandbox's folder, one sandbox in each (default: {places.state_folder()})".replace("%", "%%"),
        )


def _register_start(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    start = commands.add_parser(
        "start",
        help="start both servers, and print how to reach them",
        description="Example: pravega-spark sandbox start --detach",
    )
    start.add_argument("--in-memory", action="store_true", help="have the data in memory, and lose it with the servers")
    start.add_argument("--pravega", metavar="VERSION", help=_VERSION_HELP)
    start.add_argument(
        "--stores", type=int, metavar="N", help="start a cluster, each server a process: with so many segment stores"
    )
    start.add_argument("--controllers", type=int, metavar="N", help="the same, with so many controllers (default: 1)")
    start.add_argument("--controller-port", type=int, metavar="N", help="default: the last one if it is free")
    start.add_argument("--registry-port", type=int, metavar="N", help="default: the last one if it is free")
    start.add_argument(
        "--heap",
        metavar="SIZE",
        help="memory for Pravega (default: 1g; with --in-memory 2g; each segment store of a cluster: 512m)",
    )
    start.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="how long all may take until they answer (default: 120; a cluster: 480)",
    )
    start.add_argument("--auth", action="store_true", help="let both servers ask for a user and a password")
    start.add_argument("--tls", action="store_true", help="let both servers speak TLS, with certificates of their own")
    start.add_argument("--username", metavar="NAME", help=f"with --auth: who may do everything (default: {USERNAME})")
    start.add_argument("--detach", action="store_true", help="return when they are up, and leave them running")
    start.set_defaults(run=_start)
    return start


def _start(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox.cluster import Cluster

    folder = _folder(args)
    if args.username and not args.auth:
        raise SandboxError("--username is for a sandbox that asks for it: add --auth")
    sandbox = _described(args, folder)
    with signals_interrupt():
        try:
            limit = f"for up to {sandbox.timeout_s:g} s"
            _say(f"starting Pravega {sandbox.pravega} and its schema registry, {limit} ...")
            began = time.monotonic()
            where = _where_data_is(folder, in_memory=args.in_memory)
            sandbox.start()
            # What a start prints often ends in a log: the password isn't for that.
            print(_exports(sandbox.environment(secrets=False)), flush=True)
            if args.auth:
                _say(f'the user and the password are set by: eval "$({_command("status --env", args)})"')
            _say(f"up after {time.monotonic() - began:.0f} s; {where}, logs are in {folder}")
            if args.detach:
                sandbox.detach()
                _say(f"stop it with: {_command('stop', args)}")
                return 0
            _say("Ctrl-C stops it")
            if isinstance(sandbox, Cluster):
                return _stay_with_cluster(folder, _command("restart", args))
            return _stay(sandbox, folder)
        except KeyboardInterrupt:
            _say("stopping")
            return 0
        finally:
            sandbox.stop()


def _described(args: argparse.Namespace, folder: Path) -> Sandbox | Cluster:
    from pyspark_pravega.sandbox.cluster import Cluster
    from pyspark_pravega.sandbox.servers import Sandbox

    common: dict[str, Any] = {
        "data_dir": folder,
        "pravega": args.pravega,
        "controller_port": args.controller_port,
        "registry_port": args.registry_port,
        "heap": args.heap,
        "auth": args.auth,
        "tls": args.tls,
        "username": args.username or USERNAME,
    }
    if args.timeout is not None:
        common["timeout_s"] = args.timeout
    if args.stores is None and args.controllers is None:
        return Sandbox(durable=not args.in_memory, **common)
    if args.in_memory:
        raise SandboxError("a cluster keeps its data: leave --in-memory out, or --stores and --controllers")
    return Cluster(
        stores=1 if args.stores is None else args.stores,
        controllers=1 if args.controllers is None else args.controllers,
        **common,
    )


def _where_data_is(folder: Path, *, in_memory: bool) -> str:
    from pyspark_pravega.sandbox import data, state

    kept = data.has_data(folder)
    if in_memory:
        return "data is in memory" + (f" (what is kept in {folder / data.DATA} is left alone)" if kept else "")
    if not kept and (folder / state.PRAVEGA_LOG).exists():
        _say(
            "this folder's sandbox has had its data in memory, and that is gone; from now on it is kept "
            "(--in-memory: as before)"
        )
    return f"data is {'still' if kept else 'kept'} in {folder / data.DATA}"


def _stay(sandbox: Sandbox, folder: Path) -> int:
    """Wait until a signal, which is raised here, or until a server has ended."""
    from pyspark_pravega.sandbox import data, state
    from pyspark_pravega.sandbox.readiness import last_lines

    warned = False
    while not (ended := sandbox.ended()):
        time.sleep(_POLL_S)
        if not warned and sandbox.durable and (full := data.full_disk(folder)):
            warned = True
            _say(f"no more is written{full}: make room")
    if state.load(folder) is None:
        _say("stopped by another process")
        return 0
    log = folder / f"{ended[0]}.log"
    full = data.full_disk(folder)
    raise SandboxError(f"{' and '.join(ended)} ended by itself{full}; see {log}\n{last_lines(log)}")


def _stay_with_cluster(folder: Path, restart: str) -> int:
    """Wait until a signal, which is raised here, or until none of its processes is left; say which one ends.

    Args:
        folder: the cluster's.
        restart: the command that starts a process again, without the process's name.
    """
    from pyspark_pravega.sandbox import data, state

    gone: set[str] = set()
    warned = False
    while (running := state.load(folder)) is not None:
        ended = {*running.ended()}
        for name in sorted(ended - gone):
            _say(f"{name} has ended; start it again with: {restart} {name}")
        for name in sorted(gone - ended):
            _say(f"{name} runs again")
        gone = ended
        if gone == running.servers.keys():
            raise SandboxError(f"all processes of the cluster have ended by themselves; see the logs in {folder}")
        if not warned and (full := data.full_disk(folder)):
            warned = True
            _say(f"no more is written{full}: make room")
        time.sleep(_CLUSTER_POLL_S)
    _say("stopped by another process")
    return 0


def _kill(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox.cluster import kill

    kill(_folder(args), args.names)
    _say(f"killed {' and '.join(args.names)}; start again with: {_command('restart', args)} {' '.join(args.names)}")
    return 0


def _restart(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox.cluster import restart

    began = time.monotonic()
    with signals_interrupt():
        restart(_folder(args), args.names)
    _say(f"{' and '.join(args.names)} answered after {time.monotonic() - began:.0f} s")
    return 0


def _status(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox import data
    from pyspark_pravega.sandbox.state import Health, load

    folder = _folder(args)
    sandbox = load(folder)
    health = sandbox.health() if sandbox else Health.NOT_RUNNING
    if sandbox is None or not sandbox.usable():
        words = f"the sandbox in {folder} is {health.value}"
        if sandbox and health is Health.BROKEN:
            full = data.full_disk(folder) if sandbox.durable else ""
            words += f": {' and '.join(sandbox.ended())} ended{full}; see `{_command('logs', args)}`"
        elif health is Health.NOT_RUNNING:
            words += f"; start it with: {_command('start', args)}"
        # Nothing on standard output for --env, as that is eval'ed.
        print(words, file=sys.stderr if args.env else sys.stdout)
        return NOT_RUNNING
    if args.env:
        print(_exports(sandbox.environment()))
    elif sandbox.cluster:
        from pyspark_pravega.sandbox.cluster import summary, table

        print(f"the sandbox in {folder} is {health.value}: {summary(sandbox)}")
        _tell(sandbox, folder)
        for line in table(folder, sandbox):
            print(f"  {line}")
    else:
        print(f"the sandbox in {folder} is running")
        _tell(sandbox, folder)
        for name, process in sandbox.servers.items():
            print(f"  {name:<16} process {process.pid}, {_megabytes(process.resident_bytes())} of memory")
    return 0 if health is Health.RUNNING else NOT_RUNNING


def _tell(sandbox: State, folder: Path) -> None:
    from pyspark_pravega.sandbox import data

    print(f"  version          Pravega {sandbox.pravega}")
    print(f"  controller       {sandbox.controller_uri}")
    print(f"  schema registry  {sandbox.schema_registry_uri}")
    if sandbox.username:
        print(f"  user             {sandbox.username}; --env tells the password")
    if sandbox.tls_ca:
        print(f"  certificates of  {sandbox.tls_ca}")
    if sandbox.durable:
        used, free = _megabytes(data.used_bytes(folder)), _megabytes(data.free_bytes(folder))
        print(f"  data             {used} in {folder / data.DATA}, {free} are free{data.full_disk(folder)}")
    else:
        print("  data             in memory")


def _stop(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox import folders, state

    folder = _folder(args)
    sandbox = state.load(folder)
    if sandbox is None or sandbox.health() is state.Health.NOT_RUNNING:
        folders.clean_unclaimed(folder)
        _say(f"no sandbox is running in {folder}")
        return 0
    _end(sandbox, folder)
    _say(f"stopped the sandbox in {folder}")
    return 0


def _end(sandbox: State, folder: Path) -> None:
    from pyspark_pravega.sandbox import folders, state
    from pyspark_pravega.sandbox.processes import STOP_GRACE_S, end

    # Nobody starts one of its processes again meanwhile, or they are among these.
    with state.changing(folder) as running:
        sandbox = running or sandbox
        # Forgotten first: a `start` in the foreground then sees that its servers were stopped and didn't die.
        state.forget(folder)
        try:
            end(list(sandbox.servers.values()), grace_s=STOP_GRACE_S)
        except BaseException:
            sandbox.save()
            raise
        folders.clean(folder)


def _wipe(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox import data, folders

    folder = _folder(args)
    if not folder.is_dir():
        _say(f"{folder} holds no data")
        return 0
    # Nobody may start servers on it meanwhile.
    claimed = folders.claim(folder)
    try:
        size = data.wipe(folder)
    finally:
        claimed.release()
    _say(f"removed {_megabytes(size)} of data from {folder}" if size else f"{folder} holds no data")
    return 0


def _logs(args: argparse.Namespace) -> int:
    folder = _folder(args)
    if args.n < 0:
        raise SandboxError(f"-n must be a number of lines, not {args.n}")
    logs = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if not logs:
        raise SandboxError(f"{folder} holds no logs: no sandbox was started there yet")
    for name in args.names:
        if name not in logs:
            raise SandboxError(f'{folder} holds no log of "{name}"{did_you_mean(name, logs)}')
    files = [path for name, path in logs.items() if not args.names or name in args.names]
    opened: list[tuple[Path, IO[str]]] = []
    try:
        for path in files:
            file: IO[str] = path.open(errors="replace")
            opened.append((path, file))
            print(f"==> {path} <==")
            print("".join(deque(file, args.n)), end="", flush=True)
        if args.follow:
            _follow(opened)
    except KeyboardInterrupt:
        pass
    finally:
        for _, file in opened:
            file.close()
    return 0


def _fetch(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox.files import chosen, fetch_all, servers

    for folder in fetch_all(servers(chosen(args.pravega))):
        print(folder)
    return 0


def _follow(opened: list[tuple[Path, IO[str]]]) -> None:
    last = opened[-1][0]
    while True:
        for path, file in opened:
            if path.stat().st_size < file.tell():
                file.seek(0)  # the sandbox was started anew
            if lines := file.read():
                if path != last:
                    print(f"==> {path} <==")
                last = path
                print(lines, end="", flush=True)
        time.sleep(_POLL_S)


def _folder(args: argparse.Namespace) -> Path:
    from pyspark_pravega.sandbox.folders import check_usable

    folder: Path = args.data_dir or places.state_folder()
    folder = folder.expanduser().absolute()
    check_usable(folder)
    return folder


def _command(name: str, args: argparse.Namespace) -> str:
    return f"pravega-spark sandbox {name}" + (f" --data-dir {shlex.quote(str(args.data_dir))}" if args.data_dir else "")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _exports(environment: dict[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
