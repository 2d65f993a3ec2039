"""Calls to servers that don't depend on each other, made at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

Result = TypeVar("Result")
Other = TypeVar("Other")


class Begun(Generic[Result]):
    """A call that is under way, in a thread of its own, with the deadline of whoever began it."""

    def __init__(self, call: Callable[[], Result]) -> None:
        """Begin it.

        Args:
            call: what to do.
        """
        self._call = call
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="together", daemon=True)
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the call's end, however it ends.

        Args:
            seconds: for how long at most; None for as long as it takes.

        Returns:
            Whether it has ended.
        """
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> Result:
        """Wait for the call.

        Returns:
            What it has returned.

        Raises:
            BaseException: what it has raised.
        """
        self.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except BaseException as error:
            self._error = error


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
        begun.wait()
        raise
    return result, begun.result()
