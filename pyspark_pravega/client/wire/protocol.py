"""Frames to commands and back, without a socket: bytes in, typed commands out."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pyspark_pravega.client.wire.commands import COMMANDS, Command
from pyspark_pravega.client.wire.fields import Buffer
from pyspark_pravega.errors import WireError

HEADER = struct.Struct(">ii")
MAX_SENT_BYTES = (16 << 20) - 1 - HEADER.size
"""Longest payload that a server takes (WireCommands.MAX_WIRECOMMAND_SIZE, which counts the header)."""
MAX_FRAME_BYTES = 32 << 20
"""Longest payload that is accepted: a server doesn't limit its own."""
COPIED_BYTES = 16 << 10
"""A piece of a command up to this size is copied next to its neighbours: that costs less than sending it by itself."""
TRUSTED_BYTES = (2 << 20) + (64 << 10)
"""Memory that a header alone is given: enough for an answer to a read, which then arrives in one piece."""


@dataclass(frozen=True, kw_only=True)
class UnknownCommand:
    """A frame of a type that this client doesn't know."""

    type: int
    payload: memoryview


def encode_frame(command: Command) -> list[Buffer]:
    """A command as it travels.

    Args:
        command: what to send.

    Returns:
        Buffers to be sent one after another, few and none of them small beside another one, because each costs a
        system call and wakes the server; a large block of data among them is the caller's own, not a copy.

    Raises:
        WireError: the command is larger than a server accepts.
    """
    pieces = command.encode()
    size = sum(map(len, pieces))
    if size > MAX_SENT_BYTES:
        raise WireError(f"{type(command).__name__} of {size} bytes is larger than a segment store accepts")
    return list(_gathered([HEADER.pack(command.TYPE, size), *pieces]))


def _memory(size: int) -> memoryview:
    """Memory that is about to be filled: it isn't cleared before, as a bytearray's would be."""
    return np.empty(size, np.uint8).data


def _gathered(pieces: list[Buffer]) -> Iterator[Buffer]:
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) <= COPIED_BYTES:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield piece
    if small:
        yield b"".join(small)


class FrameDecoder:
    """Cuts what a peer sends into commands.

    The caller fills `next_buffer()` and reports with `filled(n)`, so that a large payload is received straight into
    the memory that the reply's data then views; `feed` does both for bytes that are already there.

    What a header announces isn't believed beyond `TRUSTED_BYTES`: memory grows with what arrives.
    """

    def __init__(self) -> None:
        self._header = bytearray(HEADER.size)
        self._target = memoryview(self._header)
        self._position = 0
        self._type: int | None = None
        self._size = 0

    def next_buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        return self._target[self._position :]

    def filled(self, count: int) -> Command | UnknownCommand | None:
        """Say how many bytes were put into `next_buffer()`.

        Args:
            count: bytes, at most the buffer's length.

        Returns:
            The command that is now complete, or None.

        Raises:
            WireError: the bytes aren't the protocol; the connection can't be used any more.
        """
        self._position += count
        if self._position < len(self._target):
            return None
        if self._type is None:
            kind, size = HEADER.unpack(self._header)
            if not 0 <= size <= MAX_FRAME_BYTES:
                raise WireError(f"a frame of type {kind} announces {size} bytes: not a segment store's answer")
            self._type, self._size, self._position = kind, size, 0
            self._target = _memory(min(size, TRUSTED_BYTES))
            if size:
                return None
        if self._position < self._size:
            larger = _memory(min(self._size, 2 * self._position))
            larger[: self._position] = self._target
            self._target = larger
            return None
        kind, payload = self._type, self._target
        self._type, self._target, self._position = None, memoryview(self._header), 0
        command_class = COMMANDS.get(kind)
        return command_class.decode(payload) if command_class else UnknownCommand(type=kind, payload=payload)

    def feed(self, data: Buffer) -> list[Command | UnknownCommand]:
        """Take bytes of any number of frames, whole or not.

        Args:
            data: the next bytes from the peer.

        Returns:
            The commands that they complete, in order.

        Raises:
            WireError: the bytes aren't the protocol.
        """
        commands = []
        view = memoryview(data)
        while view:
            target = self.next_buffer()
            count = min(len(target), len(view))
            target[:count] = view[:count]
            view = view[count:]
            command = self.filled(count)
            if command is not None:
                commands.append(command)
        return commands
