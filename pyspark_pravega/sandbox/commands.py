"""`pravega-spark sandbox start | status | stop | logs | fetch`."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import deque
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import places
from pyspark_pravega.sandbox.processes import signals_interrupt
from pyspark_pravega.sandbox.security import USERNAME

if TYPE_CHECKING:
    # What they need (file locks, gRPC) is loaded by the commands that use it, not by every start of the program.
    from pyspark_pravega.sandbox.servers import Sandbox
    from pyspark_pravega.sandbox.state import State

NOT_RUNNING = 3
"""Exit code of `status` when there is no sandbox; what `systemctl status` gives."""
_POLL_S = 0.2
_VERSION_HELP = "Pravega's version: 0.11, 0.12 or 0.13 (default: $PYSPARK_PRAVEGA_SANDBOX_PRAVEGA, or 0.13)"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `sandbox` to a program's commands.

    Args:
        subparsers: the program's; each parsed command has `run`, which takes the arguments and returns an exit code.
    """
    sandbox = subparsers.add_parser(
        "sandbox",
        description="Run a real Pravega and schema registry on this machine. Their data is in memory. "
        "Example: pravega-spark sandbox start --detach",
    )
    commands = sandbox.add_subparsers(dest="sandbox_command", metavar="COMMAND", required=True)

    start = commands.add_parser(
        "start",
        help="start both servers, and print how to reach them",
        description="Example: pravega-spark sandbox start --detach --heap 4g",
    )
    start.add_argument("--pravega", metavar="VERSION", help=_VERSION_HELP)
    start.add_argument("--controller-port", type=int, metavar="N", help="default: a free one")
    start.add_argument("--registry-port", type=int, metavar="N", help="default: a free one")
    start.add_argument("--heap", default="2g", metavar="SIZE", help="memory for Pravega and its streams (default: 2g)")
    start.add_argument("--auth", action="store_true", help="let both servers ask for a user and a password")
    start.add_argument("--tls", action="store_true", help="let both servers speak TLS, with certificates of their own")
    start.add_argument("--username", metavar="NAME", help=f"with --auth: who may do everything (default: {USERNAME})")
    start.add_argument("--detach", action="store_true", help="return when they are up, and leave them running")
    start.set_defaults(run=_start)

    status = commands.add_parser(
        "status",
        help=f"tell whether it runs (exit code 0) or not ({NOT_RUNNING})",
        description="Example: pravega-spark sandbox status --env",
    )
    status.add_argument("--env", action="store_true", help="print shell exports only, to be eval'ed")
    status.set_defaults(run=_status)

    stop = commands.add_parser("stop", help="end both servers", description="Example: pravega-spark sandbox stop")
    stop.set_defaults(run=_stop)

    logs = commands.add_parser(
        "logs", help="show what the servers wrote", description="Example: pravega-spark sandbox logs -f"
    )
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

    for command in (start, status, stop, logs):
        command.add_argument(
            "--data-dir",
            type=Path,
            metavar="DIR",
            help=f"the sandbox's folder, one sandbox in each (default: {places.state_folder()})".replace("%", "%%"),
        )


def _start(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox.servers import Sandbox

    folder = _folder(args)
    if args.username and not args.auth:
        raise SandboxError("--username is for a sandbox that asks for it: add --auth")
    sandbox = Sandbox(
        data_dir=folder,
        pravega=args.pravega,
        controller_port=args.controller_port,
        registry_port=args.registry_port,
        heap=args.heap,
        auth=args.auth,
        tls=args.tls,
        username=args.username or USERNAME,
    )
    with signals_interrupt():
        try:
            _say(f"starting Pravega {sandbox.pravega} and its schema registry ...")
            began = time.monotonic()
            sandbox.start()
            # What a start prints often ends in a log: the password isn't for that.
            print(_exports(sandbox.environment(secrets=False)), flush=True)
            if args.auth:
                _say(f'the user and the password are set by: eval "$({_command("status --env", args)})"')
            _say(f"up after {time.monotonic() - began:.0f} s; data is in memory, logs are in {folder}")
            if args.detach:
                sandbox.detach()
                _say(f"stop it with: {_command('stop', args)}")
                return 0
            _say("Ctrl-C stops it")
            return _stay(sandbox, folder)
        except KeyboardInterrupt:
            _say("stopping")
            return 0
        finally:
            sandbox.stop()


def _stay(sandbox: Sandbox, folder: Path) -> int:
    """Wait until a signal, which is raised here, or until a server has ended."""
    from pyspark_pravega.sandbox import state
    from pyspark_pravega.sandbox.readiness import last_lines

    while not (ended := sandbox.ended()):
        time.sleep(_POLL_S)
    if state.load(folder) is None:
        _say("stopped by another process")
        return 0
    log = folder / f"{ended[0]}.log"
    raise SandboxError(f"{' and '.join(ended)} ended by itself; see {log}\n{last_lines(log)}")


def _status(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox.state import Health, load

    folder = _folder(args)
    sandbox = load(folder)
    health = sandbox.health() if sandbox else Health.NOT_RUNNING
    if sandbox is None or health is not Health.RUNNING:
        words = f"the sandbox in {folder} is {health.value}"
        if sandbox and health is Health.BROKEN:
            words += f": {' and '.join(sandbox.ended())} ended; see `{_command('logs', args)}`"
        elif health is Health.NOT_RUNNING:
            words += f"; start it with: {_command('start', args)}"
        # Nothing on standard output for --env, as that is eval'ed.
        print(words, file=sys.stderr if args.env else sys.stdout)
        return NOT_RUNNING
    if args.env:
        print(_exports(sandbox.environment()))
        return 0
    print(f"the sandbox in {folder} is running")
    print(f"  version          Pravega {sandbox.pravega}")
    print(f"  controller       {sandbox.controller_uri}")
    print(f"  schema registry  {sandbox.schema_registry_uri}")
    if sandbox.username:
        print(f"  user             {sandbox.username}; --env tells the password")
    if sandbox.tls_ca:
        print(f"  certificates of  {sandbox.tls_ca}")
    for name, process in sandbox.servers.items():
        print(f"  {name:<16} process {process.pid}")
    return 0


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

    # Forgotten first: a `start` in the foreground then sees that its servers were stopped and didn't die.
    state.forget(folder)
    try:
        end(list(sandbox.servers.values()), grace_s=STOP_GRACE_S)
    except BaseException:
        sandbox.save()
        raise
    folders.clean(folder)


def _logs(args: argparse.Namespace) -> int:
    from pyspark_pravega.sandbox import state

    folder = _folder(args)
    if args.n < 0:
        raise SandboxError(f"-n must be a number of lines, not {args.n}")
    files = [path for name in (state.PRAVEGA_LOG, state.REGISTRY_LOG) if (path := folder / name).exists()]
    if not files:
        raise SandboxError(f"{folder} holds no logs: no sandbox was started there yet")
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


def _exports(environment: dict[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
