"""The codecs of the official serializers: an event's body, compressed by itself."""

from __future__ import annotations

import gzip
import zlib

import pyarrow as pa

from pyspark_pravega.errors import UnsupportedTypeError

NONE = ""
GZIP = "application/x-gzip"
SNAPPY = "application/x-snappy-framed"
CODECS = (NONE, GZIP, SNAPPY)
"""In spite of its name a raw Snappy block: the length as a varint, then the block."""

_MAX_BODY = 256 * 1024 * 1024
_TOO_LARGE = f"it holds more than {_MAX_BODY >> 20} MiB, which is the most that is read"


def check(codec: str) -> None:
    """Raise UnsupportedTypeError unless the codec is one of those here."""
    if codec not in CODECS:
        raise UnsupportedTypeError(f'the codec "{codec}" is unknown; known are "{GZIP}" and "{SNAPPY}"')


def compress(codec: str, body: bytes) -> bytes:
    """Compress an event's body.

    Args:
        codec: one of those here.
        body: any bytes.

    Returns:
        What the official deserializers read.
    """
    if codec == GZIP:
        return gzip.compress(body, mtime=0)
    if codec == SNAPPY:
        return bytes(pa.compress(body, codec="snappy", asbytes=True))
    return body


def decompress(codec: str, body: bytes) -> bytes:
    """Decompress an event's body.

    Args:
        codec: one of those here.
        body: what `compress` or an official serializer made.

    Returns:
        The body; from the official serializers with zeros behind it.

    Raises:
        ValueError: it isn't of the codec, is cut short, has bytes behind it, or is larger than 256 MiB; the message
            says which of these.
    """
    if codec == GZIP:
        return _from_gzip(body)
    if codec == SNAPPY:
        return _from_snappy(body)
    return body


def _from_gzip(body: bytes) -> bytes:
    machine = zlib.decompressobj(wbits=31)
    try:
        plain = machine.decompress(body, _MAX_BODY + 1)
    except zlib.error as error:
        raise ValueError(f"it is no gzip ({error})") from None
    if len(plain) > _MAX_BODY:
        raise ValueError(_TOO_LARGE)
    if not machine.eof:
        raise ValueError("it is cut short")
    if machine.unused_data.strip(b"\0"):
        raise ValueError(f"{len(machine.unused_data)} bytes follow the gzip member")
    return plain


def _from_snappy(body: bytes) -> bytes:
    size, start = _snappy_size(body)
    try:
        return bytes(pa.decompress(body, decompressed_size=size, codec="snappy", asbytes=True))
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(_wrong_snappy(body, size, start) or f"it is no Snappy block ({error})") from None


def _snappy_size(body: bytes) -> tuple[int, int]:
    """What a Snappy block says that it holds, and where its elements begin."""
    size = 0
    for i, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if size > _MAX_BODY:
                raise ValueError(_TOO_LARGE)
            return size, i + 1
    raise ValueError("it is cut short" if len(body) < 5 else "it is no Snappy block (it has no length)")


def _wrong_snappy(body: bytes, size: int, position: int) -> str | None:
    """Why a Snappy block can't be decompressed, as far as the lengths of its elements tell."""
    plain = 0
    while position < len(body):
        tag = body[position]
        kind, more = tag & 3, tag >> 2
        position += 1
        if kind == 0:
            following = max(0, more - 59)
            length = 1 + (int.from_bytes(body[position : position + following], "little") if following else more)
            position += following + length
        else:
            length = 4 + (more & 7) if kind == 1 else 1 + more
            position += (1, 2, 4)[kind - 1]
        plain += length
        if plain > size:
            return f"it holds more than the {size} bytes that it promises"
    return "it is cut short" if plain < size or position > len(body) else None
