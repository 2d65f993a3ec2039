"""Commands that any connection exchanges."""

from __future__ import annotations

from pyspark_pravega.client.wire.command import Command, command, wire
from pyspark_pravega.client.wire.fields import INT

WIRE_VERSION = 16
OLDEST_COMPATIBLE_VERSION = 5


@command(-127)
class Hello(Command):
    """The first command in each direction."""

    high_version: int = wire(INT, WIRE_VERSION)
    low_version: int = wire(INT, OLDEST_COMPATIBLE_VERSION)


@command(100)
class KeepAlive(Command):
    """Sent by either side of an idle connection, and echoed."""
