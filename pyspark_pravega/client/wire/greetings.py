"""Commands that any connection exchanges."""

from __future__ import annotations

from pyspark_pravega.client.wire.command import Command, command, wire
from pyspark_pravega.client.wire.fields import INT

WIRE_VERSION = 16
OLDEST_COMPATIBLE_VERSION = 5
TRANSIENT_SEGMENTS = 15
"""The first version with `CreateTransientSegment`, which events of more than 8 MiB need."""
_RELEASES = {15: "Pravega 0.11 or 0.12", 16: "Pravega 0.13", 17: "Pravega 0.14"}
"""The protocol's version, `WIRE_VERSION` in Pravega's `WireCommands`, to the releases that speak it."""


@command(-127)
class Hello(Command):
    """The first command in each direction."""

    high_version: int = wire(INT, WIRE_VERSION)
    low_version: int = wire(INT, OLDEST_COMPATIBLE_VERSION)

    @property
    def release(self) -> str:
        """Which release of Pravega has sent it, as far as the protocol's version tells."""
        if self.high_version < min(_RELEASES):
            return "Pravega 0.10 or older"
        return _RELEASES.get(self.high_version, "newer than Pravega 0.14")


@command(100)
class KeepAlive(Command):
    """Sent by either side of an idle connection, and echoed."""
