"""Arrow binary arrays seen as numpy: bytes, and where each value begins and ends in them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.errors import EventDecodeError

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_MAX_INT32 = 2**31 - 1


def numbers(buffer: pa.Buffer | None, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """A buffer as numpy, without a copy; none holds no numbers.

    Args:
        buffer: one of an array's.
        kind: the type of its numbers.
    """
    return np.frombuffer(b"" if buffer is None else memoryview(buffer), kind)


def binary_array(values: pa.Array | pa.ChunkedArray) -> tuple[Bytes, Ints]:
    """The bytes and offsets of an array, without copying the bytes.

    Args:
        values: an array of binary, string, their large forms or views, or fixed-size binary; no nulls.

    Returns:
        All bytes, and n + 1 offsets into them.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if values.type not in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        values = values.cast(pa.large_binary())
    n = len(values)
    _, offset_buffer, data_buffer = values.buffers()
    wide = values.type in (pa.large_binary(), pa.large_string())
    kind = np.int64 if wide else np.int32
    data: Bytes = numbers(data_buffer, np.uint8)
    if n == 0 or offset_buffer is None:
        return data, np.zeros(n + 1, dtype=np.int64)
    offsets = numbers(offset_buffer, kind)[values.offset : values.offset + n + 1]
    return data, offsets.astype(np.int64)


def ragged(data: Bytes, offsets: Ints) -> pa.Array:
    """An Arrow binary array over bytes that lie one after another.

    Args:
        data: the bytes.
        offsets: n + 1 positions in them.

    Returns:
        A binary array of n values that shares the bytes; a large one when int32 offsets don't suffice.
    """
    wide = len(offsets) > 0 and int(offsets[-1]) > _MAX_INT32
    kind = pa.large_binary() if wide else pa.binary()
    stored = offsets if wide else offsets.astype(np.int32)
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(stored), pa.py_buffer(data)])


def ragged_views(data: Bytes, starts: Ints, ends: Ints) -> pa.Array:
    """An Arrow binary array of pieces of a buffer.

    Args:
        data: the bytes.
        starts: where each piece begins; no piece may begin before the one before it ends.
        ends: where it ends.

    Returns:
        A binary array with the pieces, copied together.

    Raises:
        EventDecodeError: there are more bytes than the array can hold.
    """
    n = len(starts)
    if n == 0:
        return pa.array([], type=pa.binary())
    if int(ends[-1]) > _MAX_INT32:
        raise too_many_bytes()
    # Pieces and gaps alternate as the elements of one array; Arrow copies every other one faster than
    # numpy could.
    offsets = np.empty(2 * n, dtype=np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    both = pa.Array.from_buffers(pa.binary(), 2 * n - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(0, 2 * n, 2, dtype=np.int32)))


def too_many_bytes() -> EventDecodeError:
    """The error that says that an Arrow array can't hold that many bytes."""
    return EventDecodeError("a batch of events holds more than 2 GiB; read fewer events at a time")
