"""Runs one command, and ends it when the process that wanted it is gone, however that one died.

Started as a script of its own (`python -I -S keeper.py PARENT_PID COMMAND...`), so it imports nothing of this
package. Its protocol: standard input is a pipe from the parent, whose end means that the parent is gone, and on
which `d` means that the command shall live on without it; the command's process id is the one line it writes to
standard output; the command itself writes to what is standard error here.

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
from collections.abc import Callable, Sequence

_GRACE_S = 5.0
_POLL_S = 0.2
_PR_SET_PDEATHSIG = 1


def main(parent: int, command: Sequence[str]) -> int:
    """Run a command until it ends or its parent does.

    Args:
        parent: process id of the process that started this one.
        command: program and arguments.

    Returns:
        The command's exit code; 128 + n when signal n ended it, 127 when it couldn't be run.
    """
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _leave)
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
            child.wait()
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
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
