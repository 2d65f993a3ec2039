"""Deletions of groups, and of what is in them, whose answers may get lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pyspark_pravega.errors import AuthenticationError, GroupNotFoundError
from pyspark_pravega.registry.transport import Transport, part


class _ReplacedError(Exception):
    """The group is gone, and there is another one of its name."""


def delete(
    transport: Transport, doing: str, namespace: str, group: str, path: str, creation: Callable[[], str]
) -> None:
    """Delete a group, or something in it. When an answer gets lost, somebody may make a group of that name before the
    call is made again: that one stays as it is.

    Args:
        transport: makes the calls.
        doing: what this one does, for messages.
        namespace: the scope.
        group: the stream.
        path: what to delete in the group, as a path; empty for all of it.
        creation: asks for the mark of the call that has made the group.

    Raises:
        RegistryUnavailableError: there is no answer in time.
    """

    def mark() -> str | None:
        try:
            return creation()
        except (AuthenticationError, GroupNotFoundError):
            return None

    first = mark()

    def look() -> None:
        if mark() not in (None, first):
            raise _ReplacedError

    with suppress(_ReplacedError):
        url, query = f"/v1/groups/{part(group)}{path}", {"namespace": namespace}
        transport.call(doing, "DELETE", url, params=query, expect=(204, 404), look=look)
