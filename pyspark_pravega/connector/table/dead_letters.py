"""What is told of an event that can't be decoded, where somebody wants to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """An event that can't be decoded."""

    segment: int
    """The id of its segment."""
    offset: int
    """Of its frame in the segment, in bytes."""
    encoding_id: int | None
    """That of the schema it was written with, where it has one."""
    reason: str
    event: bytes
    """Its payload."""


class DeadLetterSink(Protocol):
    """Takes bad events. It can be pickled."""

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Store some. When this returns they are safe.

        Args:
            letters: the events; the same ones may come again.

        Raises:
            PravegaError: they can't be stored.
        """
        ...
