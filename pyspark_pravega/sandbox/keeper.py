"""Runs one command, and ends it when the process that wanted it is gone, however that one died.

Started as a script of its own (`python -I -S keeper.py PARENT_PID[,OWNER_PID] COMMAND...`), so it imports nothing of
this package. Its protocol: standard input is a pipe from the parent, whose end means that the parent is gone, and on
which `d` means that the command shall live on without it, until the owner is gone, if there is one; the command's
process id is the one line it writes to standard output; the command itself writes to what is standard error here.

A process of its own does what `prctl(PR_SET_PDEATHSIG)` in the parent can't: that signal comes when the *thread*
that made the child ends, and setting it needs a fork hook, which isn't safe in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

_GRACE_S = 5.0
_POLL_S = 0.2
_PR_SET_PDEATHSIG = 1


def main(parent: int, command: Sequence[str], owner: int | None = None) -> int:
    """Run a command until it ends or its parent does.

    Args:
        parent: process id of the process that started this one.
        command: program and arguments.
        owner: process id of the one whose end it is to have when its parent has let it go.

    Returns:
        The command's exit code; 128 + n when signal n ended it, 127 when it couldn't be run.
    """
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _leave)
    # Opened before the command runs: the parent then looks whether the owner still is who it was.
    owner_file = os.pidfd_open(owner) if owner is not None and sys.platform == "linux" else None
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=_dies_with(os.getpid())
        )
    except OSError as error:
        print(f"{command[0]} can't be run: {error}", file=sys.stderr)
        return 127
    try:
        os.write(1, f"{child.pid}\n".encode())
        os.close(1)
        if _watch(child, parent):
            _stay(child, owner, owner_file)
    finally:
        _end(child)
    code = child.returncode
    return code if code >= 0 else 128 - code


def _watch(child: subprocess.Popen[bytes], parent: int) -> bool:
    """Wait for the child, the parent's end, or the word that the child is on its own now (True)."""
    while child.poll() is None:
        # Looked at before the pipe: the word may lie there, and whoever wrote it be gone already.
        gone = os.getppid() != parent
        if select.select([0], [], [], 0 if gone else _POLL_S)[0]:
            return os.read(0, 1) == b"d"
        if gone:
            break
    return False


def _stay(child: subprocess.Popen[bytes], owner: int | None, owner_file: int | None) -> None:
    """Wait for the child's end, or the owner's."""
    if owner is None:
        child.wait()
    while child.poll() is None:
        if owner_file is not None:
            if select.select([owner_file], [], [], _POLL_S)[0]:
                return
        else:
            try:
                os.kill(owner or 0, 0)
            except ProcessLookupError:
                return
            time.sleep(_POLL_S)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _dies_with(keeper: int) -> Callable[[], None] | None:
    """What makes a child die with this process even when that is killed; only Linux can."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def hook() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)

    return hook


def _leave(number: int, frame: object) -> None:
    del frame
    raise SystemExit(128 + number)


if __name__ == "__main__":
    pids = [int(pid) for pid in sys.argv[1].split(",")]
    sys.exit(main(pids[0], sys.argv[2:], *pids[1:]))
