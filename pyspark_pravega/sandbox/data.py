"""The data that a sandbox keeps in its folder: which Pravega wrote it, how it is laid out, how much it takes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox.security import write_private

DATA = "data"
CONTAINERS = 4
"""Segment containers of kept data, for ever: segments are spread over them. Each costs a little also when nothing is
done, so they are fewer than in memory."""
RESERVE_BYTES = 128 << 20
"""What the servers leave free on the disk, so that they can still end what they have begun."""
_LAYOUT = 1
"""Changes when data can't be used any more as it was laid out before."""
_ABOUT = "about.json"
ABLE = ("0.12", "0.13")
"""Versions of Pravega of which it was tried."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What is known of kept data."""

    pravega: str
    """The version of Pravega that wrote it."""
    whole: bool = False
    """Whether the servers have answered once. What a first start that was killed leaves is of no use to anybody."""
    cluster: bool = False
    """Whether it is of a cluster of processes, and not of one that has all servers."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Where the servers listened last: what listens there to port."""
    layout: int = _LAYOUT

    def save(self, folder: Path) -> None:
        """Write it down.

        Args:
            folder: the sandbox's.
        """
        file = folder / DATA / _ABOUT
        write_private(file.with_suffix(".draft"), json.dumps(vars(self), indent=2) + "\n").replace(file)


def check_version(pravega: str) -> None:
    """Refuse a version of Pravega whose data can't be kept.

    Args:
        pravega: the version.

    Raises:
        SandboxError: it is one.
    """
    if pravega not in ABLE:
        raise SandboxError(
            f"a sandbox of Pravega {pravega} can't keep its data: take Pravega {' or '.join(ABLE)}, or have the data "
            "in memory with --in-memory (in Python without `durable`)"
        )


def prepare(folder: Path, pravega: str, *, cluster: bool = False) -> About:
    """Have a place for data: what is kept there already, or a new one.

    Args:
        folder: the sandbox's, which exists.
        pravega: the version of Pravega that shall use it.
        cluster: whether a cluster of processes shall use it.

    Returns:
        What is known of it.

    Raises:
        SandboxError: another version wrote it, or another kind of sandbox, or it is laid out in another way; the disk
            is full.
    """
    about = load(folder)
    if about and about.whole:
        if about.cluster != cluster:
            kinds = ("a sandbox in one process", "a cluster")
            how = "with --stores and --controllers" if about.cluster else "without --stores and --controllers"
            raise SandboxError(
                f"the data in {folder / DATA} is of {kinds[about.cluster]}, and not of {kinds[cluster]}: start it "
                f"{how}, take another --data-dir, or remove the data with "
                f"`pravega-spark sandbox wipe --data-dir {folder}`"
            )
        if about.pravega != pravega:
            raise SandboxError(
                f"the data in {folder / DATA} is of Pravega {about.pravega}, and not of {pravega}: start that one "
                f"(--pravega {about.pravega}), take another --data-dir, or remove the data with "
                f"`pravega-spark sandbox wipe --data-dir {folder}`"
            )
    else:
        shutil.rmtree(folder / DATA, ignore_errors=True)
        about = None
    free = free_bytes(folder)
    if free < 2 * RESERVE_BYTES:
        raise SandboxError(
            f"the disk of {folder} is full: {free >> 20} MB are free, and a sandbox that keeps its data needs "
            f"{2 * RESERVE_BYTES >> 20} MB. Make room, take another --data-dir, or have it in memory (--in-memory)"
        )
    if about is None:
        (folder / DATA).mkdir(mode=0o700)
        about = About(pravega=pravega, cluster=cluster)
        about.save(folder)
    return about


def load(folder: Path) -> About | None:
    """What is known of the data in a folder.

    Args:
        folder: the sandbox's; it may not exist.

    Returns:
        None where there is none.

    Raises:
        SandboxError: there is some that this version of the package doesn't know.
    """
    try:
        about = json.loads((folder / DATA / _ABOUT).read_text())
    except FileNotFoundError:
        if (folder / DATA).is_dir() and any((folder / DATA).iterdir()):
            raise _strange(folder) from None
        return None
    except ValueError:
        raise _strange(folder) from None
    try:
        known = About(**about)
    except TypeError:
        raise _strange(folder) from None
    if known.layout != _LAYOUT:
        raise _strange(folder)
    return known


def has_data(folder: Path) -> bool:
    """Whether a folder has data, whoever wrote it.

    Args:
        folder: the sandbox's; it may not exist.
    """
    try:
        about = load(folder)
    except SandboxError:
        return True
    return about is not None and about.whole


def full_disk(folder: Path) -> str:
    """What to say of a disk on which the servers can't write any more.

    Args:
        folder: the sandbox's.

    Returns:
        A part of a sentence; empty where there is room.
    """
    free = free_bytes(folder)
    return f" (the disk of {folder} is full: {free >> 20} MB are free)" if free < RESERVE_BYTES else ""


def wipe(folder: Path) -> int:
    """Remove the data, whoever wrote it.

    Args:
        folder: the sandbox's, which isn't running.

    Returns:
        How many bytes it took; 0 where there was none.
    """
    size = used_bytes(folder)
    if (folder / DATA).exists():
        shutil.rmtree(folder / DATA)
    return size


def used_bytes(folder: Path, part: str = "") -> int:
    """How much of the disk the data takes, in bytes.

    Args:
        folder: the sandbox's.
        part: of the folder with this name in it only.
    """
    size = 0
    for parent, _, names in os.walk(folder / DATA / part):
        for name in names:
            try:
                # Blocks, not the length: the journal's files have holes.
                size += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return size


def free_bytes(folder: Path) -> int:
    """How much of the folder's disk is free to this user, in bytes.

    Args:
        folder: one that exists.
    """
    return shutil.disk_usage(folder).free


def usage_limit(folder: Path) -> float:
    """How full the folder's disk may become, the servers' reserve left out: a share of its whole size.

    Args:
        folder: one that exists.
    """
    return round(min(max(1 - RESERVE_BYTES / shutil.disk_usage(folder).total, 0.5), 0.9999), 6)


def _strange(folder: Path) -> SandboxError:
    return SandboxError(
        f"{folder / DATA} holds no data that this version of pyspark-pravega knows: another version may have written "
        f"it. Take another --data-dir, or remove it with `pravega-spark sandbox wipe --data-dir {folder}`"
    )
