"""Processes on this machine: recognised beyond doubt, started so that they can't be forgotten, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pyspark_pravega.errors import SandboxError

_KEEPER = Path(__file__).with_name("keeper.py")
STOP_GRACE_S = 0.0
"""How long the sandbox's servers have to end by themselves: they are killed. All that they hold is thrown away, and to
end takes them 0.7 s, those that were much used longer."""
_POLL_S = 0.05
_KILL_S = 10.0
_STAT_STATE = 0
_STAT_START_TIME = 19


@dataclass(frozen=True)
class ProcessId:
    """A process id and when that process began: the pair names one process, also after its id was given to another."""

    pid: int
    started: str
    """Opaque; on Linux the boot's id and the clock ticks from boot to the process's start."""

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Name a process.

        Args:
            pid: a process id.

        Returns:
            Its name, or None when no such process lives (a zombie doesn't).
        """
        started = _started(pid)
        return None if started is None else cls(pid, started)

    def alive(self) -> bool:
        """Whether this very process still lives.

        Returns:
            False also when its id belongs to another process now.
        """
        return _started(self.pid) == self.started

    def resident_bytes(self) -> int:
        """How much memory it has; 0 when it's gone."""
        command = ["ps", "-o", "rss=", "-p", str(self.pid)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout if self.alive() else ""
        return int(answer.strip() or 0) << 10

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process and to no other; nothing happens when it's gone.

        Args:
            number: the signal.
        """
        try:
            if sys.platform == "linux":
                # The descriptor pins the process: its id can't pass to another one between check and signal.
                descriptor = os.pidfd_open(self.pid)
                try:
                    if self.alive():
                        signal.pidfd_send_signal(descriptor, number)
                finally:
                    os.close(descriptor)
            elif self.alive():
                os.kill(self.pid, number)
        except ProcessLookupError:
            pass


def end(processes: Sequence[ProcessId], *, grace_s: float) -> None:
    """End processes: ask all, wait, then kill those that are left.

    Args:
        processes: whom to end; those that are gone are passed over.
        grace_s: how long they have between being asked and being killed, in seconds.

    Raises:
        SandboxError: one is still there after being killed.
    """
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_S)):
        for process in processes:
            process.send(number)
        deadline = time.monotonic() + patience_s
        while (survivors := [p for p in processes if p.alive()]) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if not survivors:
            return
    raise SandboxError(f"process {survivors[0].pid} can't be ended: end it by hand")


class Kept:
    """A child process that ends with this process, also when this one is killed, until it's released."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        output: IO[bytes] | int,
        folder: Path,
        environment: Mapping[str, str],
        held_files: Sequence[int] = (),
        owner: ProcessId | None = None,
    ) -> None:
        """Start it.

        Args:
            command: program and arguments.
            output: where its standard output and error go: a file, or `subprocess.PIPE`.
            folder: its working folder.
            environment: all of its environment.
            held_files: descriptors of files that stay open until it has ended, as of a lock.
            owner: the process with which it ends when this one has released it; None: with none.

        Raises:
            SandboxError: it couldn't be started, or its owner is gone.
        """
        if not sys.executable:
            raise SandboxError("the sandbox can't tell which Python this is (sys.executable is empty)")
        pids = [os.getpid(), *([owner.pid] if owner else [])]
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), ",".join(map(str, pids)), *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output,
            cwd=folder, env=dict(environment), start_new_session=True, pass_fds=held_files,
        )  # fmt: skip
        assert self._keeper.stdout is not None
        with self._keeper.stdout as answer:
            line = answer.readline()
        self.pid = int(line or 0)
        """The process id of the command (not of its keeper)."""
        self.identity = ProcessId.of(self.pid) if line else None
        """None when it ended at once."""
        if not line:
            self.stop(grace_s=0.0)
            raise SandboxError(f"{command[0]} couldn't be started")
        if owner and not owner.alive():
            self.stop(grace_s=0.0)
            raise SandboxError(f"process {owner.pid}, with which it was to end, is gone")

    @property
    def output(self) -> IO[bytes]:
        """What the process writes; only with `output=subprocess.PIPE`."""
        assert self._keeper.stderr is not None
        return self._keeper.stderr

    def exit_code(self) -> int | None:
        """How it ended.

        Returns:
            None while it runs; 128 + n when signal n ended it.
        """
        return self._keeper.poll()

    def wait(self) -> int:
        """Wait for its end.

        Returns:
            Its exit code, as `exit_code`.
        """
        return self._keeper.wait()

    def release(self) -> None:
        """Let it live on when this process ends."""
        assert self._keeper.stdin is not None
        try:
            with self._keeper.stdin as keeper:
                keeper.write(b"d")
        except BrokenPipeError:  # it has just ended, and its keeper with it
            pass
        # The keeper is meant to outlive us: without this, Popen would warn of a child that nobody waited for.
        self._keeper.returncode = 0

    def stop(self, *, grace_s: float) -> None:
        """End it, and its keeper.

        Args:
            grace_s: how long it has between being asked and being killed, in seconds.
        """
        try:
            if self.identity is not None:
                end([self.identity], grace_s=grace_s)
        finally:
            for pipe in (self._keeper.stdin, self._keeper.stderr):
                if pipe is not None:
                    pipe.close()
            self._keeper.wait()


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Make SIGTERM and a closed terminal end a block the way Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = [(number, signal.signal(number, interrupt)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _started(pid: int) -> str | None:
    return _started_by_proc(pid) if sys.platform == "linux" else _started_by_ps(pid)


def _started_by_proc(pid: int) -> str | None:
    try:
        # The name in parentheses may hold spaces and parentheses itself: count from the last one.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[_STAT_STATE] in "ZX":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{fields[_STAT_START_TIME]}"


def _started_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    words = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split(maxsplit=1)
    return None if len(words) < 2 or words[0].startswith("Z") else words[1].strip()
