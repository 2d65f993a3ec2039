"""Where the sandbox keeps things on this machine, and where it finds Java and Ivy."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pyspark_pravega.errors import SandboxError

CACHE_VARIABLE = "PYSPARK_PRAVEGA_CACHE"
IVY_SETTINGS_VARIABLE = "PYSPARK_PRAVEGA_IVY_SETTINGS"
REPOSITORY_VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"
"""Spark's own: `spark.jars.packages` is looked for there, too."""


def cache_folder() -> Path:
    """The folder of fetched servers.

    Returns:
        `$PYSPARK_PRAVEGA_CACHE`, or `pyspark-pravega` in `$XDG_CACHE_HOME` or `~/.cache`; it may not exist yet.
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own).expanduser().absolute()
    return _base("XDG_CACHE_HOME", ".cache") / "pyspark-pravega"


def state_folder() -> Path:
    """The data folder of a sandbox that was started from the command line without naming one.

    Returns:
        `pyspark-pravega/sandbox` in `$XDG_STATE_HOME` or `~/.local/state`; it may not exist yet.
    """
    return _base("XDG_STATE_HOME", ".local/state") / "pyspark-pravega" / "sandbox"


def java() -> Path:
    """The Java that runs the servers.

    Returns:
        `$JAVA_HOME/bin/java`, or the `java` on the path.

    Raises:
        SandboxError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / "java"
        if not os.access(candidate, os.X_OK):
            raise SandboxError(
                f"JAVA_HOME is {home}, but {candidate} can't be run: point JAVA_HOME at a JDK or JRE 11+"
            )
        return candidate
    command = shutil.which("java")
    if not command:
        raise SandboxError(
            "the sandbox needs Java 11 or newer, and found no `java`: install one, or set JAVA_HOME to it"
        )
    return Path(command)


def ivy_settings() -> Path | None:
    """The user's own Ivy settings, for a mirror or a proxy.

    Returns:
        The file that `$PYSPARK_PRAVEGA_IVY_SETTINGS` names, or None: Ivy's own defaults.

    Raises:
        SandboxError: the variable names something that isn't a file.
    """
    name = os.environ.get(IVY_SETTINGS_VARIABLE)
    if not name:
        return None
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise SandboxError(f"{IVY_SETTINGS_VARIABLE} names {path}, which isn't a file")
    return path


def repository() -> str | None:
    """The Maven repository that jars are fetched from.

    Returns:
        The URL in `$DEFAULT_ARTIFACT_REPOSITORY`, or None: Ivy's default one.
    """
    url = os.environ.get(REPOSITORY_VARIABLE)
    return f"{url.rstrip('/')}/" if url else None


def _base(variable: str, fallback: str) -> Path:
    # The XDG specification says that a relative path in these variables is to be ignored.
    value = os.environ.get(variable, "")
    return Path(value) if os.path.isabs(value) else Path.home() / fallback
