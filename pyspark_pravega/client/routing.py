"""Routing keys to segments, as Pravega's Java client does it, for whole columns at a time.

A key's hash is the first 64 bits of murmur3 x64 128 of its UTF-16LE bytes, seeded with the Java hash code of
"EventRouter"; its top 52 bits are a fraction of [0, 1), and the segment that owns this part of the key space takes
the event (io.pravega.client, EventRouter and HashHelper).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames.native_module import module
from pyspark_pravega.frames.ragged import numbers

SEED = 1741865571
"""Java's "EventRouter".hashCode()."""
TABLE_SEED = 2274733797 | 0xFFFFFFFF << 32
"""Java's "KeyValueTableRouter".hashCode(): a negative int, whose sign goes through all 64 bits of the state."""

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_U64 = npt.NDArray[np.uint64]
_FEW = 16


def key_fractions(keys: pa.Array) -> npt.NDArray[np.float64]:
    """Where keys lie in the key space.

    Args:
        keys: a column of strings, or of what is a string by a cast. Nulls count as empty keys.

    Returns:
        For each key a fraction in [0, 1), shape (len(keys),).

    Raises:
        EventEncodeError: a key isn't UTF-8.
    """
    native = module()
    try:
        if native is not None:
            # As bytes: texts would be looked through twice.
            texts = keys.cast(pa.large_string()).view(pa.large_binary())
            return np.frombuffer(bytearray(native.key_fractions(texts, SEED)), np.float64)
        encoded = keys.cast(pa.string()).fill_null("").dictionary_encode()
        indices: npt.NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        return _distinct_fractions(encoded.dictionary)[indices]
    except ValueError as error:
        raise EventEncodeError(f"a routing key isn't a text in UTF-8: {error}") from None


def segment_indexes(fractions: npt.NDArray[np.float64], ranges: Sequence[SegmentRange]) -> npt.NDArray[np.intp]:
    """Which segment takes each event.

    Args:
        fractions: positions in the key space, in [0, 1).
        ranges: a stream's current segments, ordered by key range.

    Returns:
        For each fraction the index into `ranges`, of the same shape.
    """
    upper = [r.max_key for r in ranges[:-1]]
    if len(upper) > _FEW:
        return np.searchsorted(np.array(upper), fractions, side="right")
    # A comparison with each border has no branch that could be guessed wrong.
    indexes = np.zeros(len(fractions), np.intp)
    for border in upper:
        indexes += fractions >= border
    return indexes


def cells(ranges: Sequence[SegmentRange], borders: Iterable[float] = ()) -> tuple[SegmentRange, ...]:
    """Segments' parts of the key space, cut at further borders.

    Args:
        ranges: segments that take events together, ordered by key range.
        borders: where to cut, in [0, 1].

    Returns:
        Parts ordered by key range, each with the id of its segment: what `segment_indexes` finds among them is of the
        segment that it finds among `ranges`.
    """
    further, low = sorted(set(borders)), ranges[0].min_key
    parts = []
    for owner in ranges:
        for high in (*(border for border in further if low < border < owner.max_key), owner.max_key):
            parts.append(SegmentRange(segment_id=owner.segment_id, min_key=low, max_key=high))
            low = high
    return tuple(parts)


def segment_of(cell: SegmentRange, ranges: Sequence[SegmentRange]) -> int | None:
    """The segment that takes all keys of a part of the key space.

    Args:
        cell: the part.
        ranges: segments that take events together, ordered by key range.

    Returns:
        Its id; None where the part lies in several segments.
    """
    last = len(ranges) - 1
    index = bisect_right(ranges, cell.min_key, hi=last, key=lambda owner: owner.max_key)
    return None if index < last and ranges[index].max_key < cell.max_key else ranges[index].segment_id


def table_key_fractions(keys: Sequence[bytes]) -> npt.NDArray[np.float64]:
    """Where keys of a key-value table lie in the key space (KeyValueTableSegments of Java's client).

    Args:
        keys: primary keys, all of one length.

    Returns:
        For each key a fraction in [0, 1), shape (len(keys),).
    """
    rows = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1)
    return _as_fractions(_murmur3_h1(rows, TABLE_SEED))


def _distinct_fractions(keys: pa.Array) -> npt.NDArray[np.float64]:
    fractions = np.empty(len(keys))
    units, starts = _utf16_units(keys)
    lengths = np.diff(starts)
    # Keys of one length are hashed together: the algorithm's branches depend on nothing else.
    for length in np.unique(lengths):
        where = np.flatnonzero(lengths == length)
        rows = units[starts[where, np.newaxis] + np.arange(length)].view(np.uint8)
        fractions[where] = _as_fractions(_murmur3_h1(rows, SEED))
    return fractions


def _as_fractions(hashes: _U64) -> npt.NDArray[np.float64]:
    return (hashes >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _utf16_units(keys: pa.Array) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """The keys' UTF-16 code units one after another, and where each key begins; one more for the end."""
    keys = keys.cast(pa.large_string())
    _, offsets, data = keys.buffers()
    starts = numbers(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    utf8 = numbers(data, np.uint8)[starts[0] : starts[-1]]
    if utf8.size == 0 or utf8.max() < 0x80:
        return utf8.astype("<u2"), starts - starts[0]
    texts = [key.encode("utf-16-le") for key in keys.to_pylist()]
    units = np.frombuffer(b"".join(texts), "<u2")
    return units, np.concatenate(([0], np.cumsum([len(text) // 2 for text in texts])))


def _murmur3_h1(data: npt.NDArray[np.uint8], seed: int) -> _U64:
    """murmur3 x64 128, first half, of each row.

    Args:
        data: shape (keys, bytes).
        seed: what both halves of the state begin with, 64 bits.
    """
    count, length = data.shape
    h1 = np.full(count, seed, np.uint64)
    h2 = h1.copy()
    blocks = length // 16
    padded = np.zeros((count, (blocks + 1) * 16), np.uint8)
    padded[:, :length] = data
    words: _U64 = padded.view("<u8")
    with np.errstate(over="ignore"):
        for block in range(blocks):
            h1 ^= _mix(words[:, 2 * block], _C1, 31, _C2)
            h1 = (_rotate(h1, 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
            h2 ^= _mix(words[:, 2 * block + 1], _C2, 33, _C1)
            h2 = (_rotate(h2, 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
        # The rest is padded with zeros, which mix to zero and so change nothing.
        h2 ^= _mix(words[:, 2 * blocks + 1], _C2, 33, _C1)
        h1 ^= _mix(words[:, 2 * blocks], _C1, 31, _C2)
        h1 ^= np.uint64(length)
        h2 ^= np.uint64(length)
        h1 += h2
        h2 += h1
        return _finish(h1) + _finish(h2)


def _rotate(values: _U64, bits: int) -> _U64:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _mix(words: _U64, first: np.uint64, bits: int, second: np.uint64) -> Any:
    return _rotate(words * first, bits) * second


def _finish(values: _U64) -> _U64:
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))
