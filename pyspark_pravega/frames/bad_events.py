"""The error that says which event of a batch is bad."""

from __future__ import annotations

from typing import Any

from pyspark_pravega.errors import EventDecodeError


class BadEventError(EventDecodeError):
    """An event that can't be decoded, and which one it is.

    Args:
        reason: what is wrong with it.
        index: its position among the payloads.
        encoding_id: the id in its header, None when it has none.
    """

    def __init__(self, reason: str, *, index: int, encoding_id: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index
        self.encoding_id = encoding_id

    def __str__(self) -> str:
        encoding = "" if self.encoding_id is None else f" (encoding {self.encoding_id})"
        return f"event {self.index} of the batch{encoding} can't be decoded: {self.reason}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _bad_event, (self.reason, self.index, self.encoding_id)


def _bad_event(reason: str, index: int, encoding_id: int | None) -> BadEventError:
    return BadEventError(reason, index=index, encoding_id=encoding_id)
