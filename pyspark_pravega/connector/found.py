"""The sandbox that a user has running, for a program that may be without the sandbox's room."""

from __future__ import annotations

from collections.abc import Mapping


def running_sandbox() -> Mapping[str, str]:
    """The environment of the sandbox that this user has running; nothing when there is none."""
    try:
        from pyspark_pravega.sandbox import running
    except ModuleNotFoundError:
        # It isn't in the archives of `pravega-spark pack`.
        return {}
    return running.variables("pravega")
