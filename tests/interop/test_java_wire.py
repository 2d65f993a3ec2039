"""Every command that the client knows is laid out as the official classes lay it out."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.client.wire import fields
from pyspark_pravega.client.wire.commands import COMMANDS, Command
from pyspark_pravega.client.wire.protocol import encode_frame
from tests.jars.java_client import JavaPrograms

pytestmark = pytest.mark.server

VALUES: dict[Any, Any] = {
    fields.INT: 1,
    fields.LONG: 1 << 40 | 7,
    fields.LATER_LONG: 1 << 40 | 8,
    fields.FLAG: True,
    fields.TEXT: "s/t/0.#epoch.0 \0 é € 🚀",
    fields.TOKEN: "token",
    fields.UUID: uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
    fields.BLOCK: b"block",
    fields.EVENT: b"event",
    fields.TABLE_ENTRIES: ((b"key", 5, b"value"), (b"other", -1, b"")),
    fields.TABLE_KEYS: ((b"key", 5, None), (b"other", -1, None)),
    fields.VERSIONS: (1, -1, 1 << 50),
    fields.ATTRIBUTE_UPDATES: (wire.AttributeUpdate(uuid.UUID(int=7), 4, 1, -(2**63)),),
}
FIXED = {"code": 0, "prefix": b""}
"""An error's code must be known; a prefix is no longer sent."""


def sample(cls: type[Command]) -> Command:
    values = {name: VALUES[layout] for name, layout in cls.LAYOUT}
    return cls(**{**values, **{name: value for name, value in FIXED.items() if name in values}})


def test_the_official_classes_read_and_write_the_same_bytes(java: JavaPrograms) -> None:
    classes = [cls for cls in COMMANDS.values() if cls is not wire.Event]
    samples = [sample(cls) for cls in classes]
    frames = [b"".join(bytes(piece) for piece in encode_frame(command)).hex() for command in samples]

    echoes = java.run("interop.WireEcho", stdin="\n".join(frames)).splitlines()

    for cls, sent, echo in zip(classes, frames, echoes, strict=True):
        name, _, payload = echo.partition(" ")
        assert name == cls.__name__
        assert payload == sent[16:], cls.__name__
