"""Folders of sandboxes: claimed by one at a time, taken over from the dead, cleaned up."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import state
from pyspark_pravega.sandbox.processes import STOP_GRACE_S, end
from pyspark_pravega.sandbox.security import secured
from pyspark_pravega.sandbox.state import Health

_PREFIX = "pravega-sandbox-"
_ABANDONED_S = 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A folder that is one sandbox's until it's released, or until this process ends."""

    path: Path
    """Where logs, configuration and state lie."""
    temporary: bool
    """Whether the folder was made for this sandbox alone."""
    lock: IO[str]
    """Open as long as the claim holds."""

    def clean(self, *, logs: bool) -> None:
        """Remove what servers that have ended leave behind.

        Args:
            logs: whether a temporary folder is removed also when there are logs in it.
        """
        clean(self.path)
        if self.temporary and (logs or not any(self.path.glob("*.log"))):
            shutil.rmtree(self.path, ignore_errors=True)

    def release(self) -> None:
        """Let others have the folder."""
        self.lock.close()


def check_usable(folder: Path) -> None:
    """Refuse a folder of another user: a sandbox's folder is its owner's only.

    Args:
        folder: the folder, which needn't exist.

    Raises:
        SandboxError: this user may not read and write in it.
    """
    try:
        owner = folder.stat().st_uid
    except FileNotFoundError:
        return
    except PermissionError:
        owner = None
    if owner is None or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        whose = "" if owner in (None, os.geteuid()) else f" It belongs to {_user(owner)}."
        raise SandboxError(
            f"the folder {folder} may not be read and written by {_user(os.geteuid())}.{whose} Give --data-dir "
            "(in Python `data_dir`) another folder. To use the sandbox of somebody else, set PRAVEGA_CONTROLLER_URI "
            "and PRAVEGA_SCHEMA_REGISTRY_URI to what it has printed"
        )


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def claim(folder: Path | None) -> Claim:
    """Claim a folder; what a killed process left running in it is ended.

    Args:
        folder: the folder, made if need be; a new temporary one when None.

    Returns:
        The claim.

    Raises:
        SandboxError: a sandbox runs in it, or it is another user's.
    """
    if folder is None:
        _sweep()
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    else:
        path = folder
        check_usable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Its owner's only: logs name streams and users. One that is there already stays as it is.
        path.mkdir(mode=0o700, exist_ok=True)
    lock = state.lock(path)
    former = state.load(path)
    if lock is None:
        raise _refusal(path, former)
    try:
        if former and former.detached and former.health() is Health.RUNNING:
            raise _refusal(path, former)
        if former:
            end(list(former.servers.values()), grace_s=STOP_GRACE_S)
        clean(path)
    except BaseException:
        lock.close()
        raise
    return Claim(path=path, temporary=folder is None, lock=lock)


def clean(path: Path) -> None:
    """Remove what servers that have ended leave behind, but for their logs and the data that is kept.

    Args:
        path: the sandbox's folder.
    """
    state.forget(path)
    secured.forget(path)
    for folder in ("tmp", state.CLUSTER_SETTINGS):
        shutil.rmtree(path / folder, ignore_errors=True)
    for settings in (state.PRAVEGA_SETTINGS, state.REGISTRY_SETTINGS, *state.DURABLE_SETTINGS):
        (path / settings).unlink(missing_ok=True)


def clean_unclaimed(path: Path) -> None:
    """Remove what killed processes left behind, unless a sandbox is being started there.

    Args:
        path: the sandbox's folder; it may not exist.
    """
    if path.is_dir() and (lock := state.lock(path)):
        with lock:
            clean(path)


def _refusal(path: Path, owner: state.State | None) -> SandboxError:
    how = f"running in {path} already ({owner.addresses()})" if owner and owner.ready else f"being started in {path}"
    return SandboxError(
        f"a sandbox is {how}: use it, stop it with `pravega-spark sandbox stop "
        f"--data-dir {path}`, or choose another data folder"
    )


def _sweep() -> None:
    """Remove what killed processes left, after a day in which somebody may want the logs."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            status = path.lstat()
            if path.is_symlink() or status.st_uid != os.getuid() or time.time() - status.st_mtime < _ABANDONED_S:
                continue
            lock = state.lock(path)
        except OSError:
            continue
        if lock is None:
            continue
        with lock:
            former = state.load(path)
            if former is None or former.health() is Health.NOT_RUNNING:
                shutil.rmtree(path, ignore_errors=True)
