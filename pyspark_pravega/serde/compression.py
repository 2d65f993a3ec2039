"""The codecs of the official serializers: an event's body, compressed by itself."""

from __future__ import annotations

import gzip
import zlib

import pyarrow as pa

from pyspark_pravega.errors import UnsupportedTypeError

NONE = ""
GZIP = "application/x-gzip"
SNAPPY = "application/x-snappy-framed"
"""In spite of its name a raw Snappy block: the length as a varint, then the block."""

_MAX_BODY = 256 * 1024 * 1024


def check(codec: str) -> None:
    """Raise UnsupportedTypeError unless the codec is one of those here."""
    if codec not in (NONE, GZIP, SNAPPY):
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
        ValueError: it isn't of the codec, or larger than 256 MiB.
    """
    if codec == GZIP:
        machine = zlib.decompressobj(wbits=31)
        try:
            plain = machine.decompress(body, _MAX_BODY)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if not machine.eof or machine.unused_data.strip(b"\0"):
            raise ValueError("the gzip member is cut short, too large, or has bytes behind it")
        return plain
    if codec == SNAPPY:
        size = _snappy_size(body)
        try:
            return bytes(pa.decompress(body, decompressed_size=size, codec="snappy", asbytes=True))
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(str(error)) from None
    return body


def _snappy_size(body: bytes) -> int:
    size = 0
    for i, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if size > _MAX_BODY:
                raise ValueError(f"the Snappy block claims to hold {size} bytes")
            return size
    raise ValueError("the Snappy block has no length")
