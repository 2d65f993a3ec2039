"""What a command is: a frozen dataclass whose fields stand in the order of the bytes.

`command` gives the class its type number, `wire` gives a field its layout.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from pyspark_pravega.client.wire.fields import TOKEN, Buffer, Cursor, FieldType
from pyspark_pravega.errors import WireError


def wire(layout: FieldType, default: Any = dataclasses.MISSING) -> Any:
    """A field with its layout.

    Args:
        layout: how the value is written.
        default: the value when none is given.
    """
    # A token is a credential: it stays out of logs and messages.
    return dataclasses.field(default=default, repr=layout is not TOKEN, metadata={"wire": layout})


class Command:
    """Anything that travels between a client and a segment store."""

    TYPE: ClassVar[int]
    LAYOUT: ClassVar[tuple[tuple[str, FieldType], ...]]

    def encode(self) -> list[Buffer]:
        """The payload in pieces, so that large blocks aren't copied.

        Returns:
            Buffers to be sent one after another.

        Raises:
            WireError: a value doesn't fit into its field.
        """
        out: list[Buffer] = []
        for name, layout in self.LAYOUT:
            try:
                layout.put(getattr(self, name), out)
            except struct.error as error:
                raise WireError(f'"{name}" of {type(self).__name__} can\'t be sent: {error}') from None
        return out

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """A command from its payload; bytes that later protocol versions append are passed over.

        Args:
            payload: the bytes after the frame's header. Blocks in the result are views of it.

        Returns:
            The command.

        Raises:
            WireError: the payload is too short.
        """
        cursor = Cursor(payload)
        return cls(**{name: layout.get(cursor) for name, layout in cls.LAYOUT})


COMMANDS: dict[int, type[Command]] = {}
"""Type number to class."""

C = TypeVar("C", bound=Command)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def command(number: int) -> Callable[[type[C]], type[C]]:
    """Make a class the command of a type number.

    Args:
        number: the frame's type.
    """

    def register(cls: type[C]) -> type[C]:
        command_class = dataclass(frozen=True, kw_only=True)(cls)
        command_class.TYPE = number
        command_class.LAYOUT = tuple((f.name, f.metadata["wire"]) for f in dataclasses.fields(command_class))  # type: ignore[arg-type]
        if number in COMMANDS:
            raise WireError(f"command number {number} is taken by {COMMANDS[number].__name__}")
        COMMANDS[number] = command_class
        return command_class

    return register


class Failure(Command):
    """A reply that says what went wrong."""
