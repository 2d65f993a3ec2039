"""Calls to servers that don't depend on each other, made at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")
Other = TypeVar("Other")


class Begun(Future[Result]):
    """A call that is under way, in a thread of its own, with the deadline of whoever began it.

    An executor's threads would be waited for when the process ends, and a call may hang.
    """

    def __init__(self, call: Callable[[], Result]) -> None:
        """Begin it.

        Args:
            call: what to do.
        """
        super().__init__()
        Thread(target=copy_context().run, args=(self._run, call), name="together", daemon=True).start()

    def _run(self, call: Callable[[], Result]) -> None:
        try:
            self.set_result(call())
        except BaseException as error:
            self.set_exception(error)


def together(one: Callable[[], Result], other: Callable[[], Other]) -> tuple[Result, Other]:
    """Make two calls at the same time, and wait for both.

    Args:
        one: made by this thread.
        other: made by another one.

    Returns:
        What they have returned.

    Raises:
        BaseException: what the first has raised, or else the second.
    """
    begun = Begun(other)
    try:
        result = one()
    except BaseException:
        wait([begun])
        raise
    return result, begun.result()


def all_together(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Make calls at the same time, and wait for all of them.

    Args:
        calls: the first one is made by this thread.

    Returns:
        What they have returned, in their order.

    Raises:
        BaseException: what the first one that fails has raised.
    """
    if not calls:
        return []
    begun = [Begun(call) for call in calls[1:]]
    try:
        first = calls[0]()
    except BaseException:
        wait(begun)
        raise
    wait(begun)
    return [first, *(one.result() for one in begun)]
