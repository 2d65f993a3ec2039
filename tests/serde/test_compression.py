"""Compressed bodies that are wrong: each fault has a sentence of its own."""

from __future__ import annotations

import gzip
import zlib

import pyarrow as pa
import pytest

from pyspark_pravega.serde.compression import GZIP, SNAPPY, compress, decompress

PLAIN = bytes(range(256)) * 20


def bomb() -> bytes:
    """Some 256 KiB that hold 257 MiB."""
    packer = zlib.compressobj(wbits=31)
    return b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(257)), packer.flush()])


@pytest.mark.parametrize(
    ("codec", "body", "words"),
    [
        (GZIP, gzip.compress(PLAIN)[:-9], "it is cut short"),
        (GZIP, b"", "it is cut short"),
        (GZIP, gzip.compress(PLAIN) + b"\0\0behind", "8 bytes follow the gzip member"),
        (GZIP, b"plain", "it is no gzip"),
        (SNAPPY, compress(SNAPPY, PLAIN)[:-9], "it is cut short"),
        (SNAPPY, b"", "it is cut short"),
        (SNAPPY, compress(SNAPPY, PLAIN) + b"\x14behind", "it holds more than the 5120 bytes that it promises"),
        (SNAPPY, b"\xff\xff\xff\xff\x07", "it holds more than 256 MiB, which is the most that is read"),
        (SNAPPY, b"\xff" * 10, "it is no Snappy block"),
        (SNAPPY, b"\x06\x00a\x05\xf0", "it is no Snappy block"),
    ],
)
def test_what_is_wrong_with_a_body(codec: str, body: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decompress(codec, body)


def test_a_body_that_holds_too_much_is_not_read() -> None:
    with pytest.raises(ValueError, match="it holds more than 256 MiB, which is the most that is read"):
        decompress(GZIP, bomb())


@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
def test_a_body_of_the_largest_size_is_read(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_pravega.serde.compression._MAX_BODY", len(PLAIN))
    assert decompress(codec, compress(codec, PLAIN)) == PLAIN
    with pytest.raises(ValueError, match="it holds more than"):
        decompress(codec, compress(codec, PLAIN + b"x"))


def test_any_cut_of_a_snappy_block_is_told_as_such() -> None:
    text = b"".join(b"%d, " % number for number in range(500))
    block = bytes(pa.compress(text, codec="snappy", asbytes=True))
    for size in range(len(block)):
        with pytest.raises(ValueError, match="it is cut short"):
            decompress(SNAPPY, block[:size])
