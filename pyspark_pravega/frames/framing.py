"""Event frames as they lie in a segment: `int32 0 | int32 length | payload`, big-endian.

Source: the wire protocol's event command, type code 0 (WireCommandType.EVENT).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.native_module import module
from pyspark_pravega.frames.ragged import Ints, binary_array, numbers, ragged_views, too_many_bytes

HEADER_SIZE = 8
"""Bytes before each payload."""
MAX_WRITE_SIZE = 8 * 1024 * 1024
"""The largest payload that official writers make, in bytes (Serializer.MAX_EVENT_SIZE)."""
MAX_READ_SIZE = 2**31 - 1
"""The largest payload that a frame can announce, in bytes; those beyond `MAX_WRITE_SIZE` are written in parts."""

_WALK = 4096
_UNIFORM_RUN = 256
_header = struct.Struct(">Q").unpack_from

Bytes: TypeAlias = pa.Buffer | bytes | bytearray | memoryview


@dataclass(frozen=True, kw_only=True)
class Frames:
    """The whole frames at the head of a buffer."""

    events: pa.Array
    """The payloads, in order: a compact copy, or views of the buffer in which they were found."""
    starts: npt.NDArray[np.int64]
    """Where each frame (its header) begins in the buffer, in bytes."""
    sizes: npt.NDArray[np.int64]
    """The size of each payload, in bytes."""
    consumed: int
    """The bytes of these frames; what follows belongs to frames not returned."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def payloads(self) -> pa.Array:
        """The payloads, in order; a compact copy, which takes the place of views: so the buffer may be freed."""
        self.let_go()
        return self.events

    def let_go(self) -> None:
        """Take a compact copy in place of views, so that the buffer may be freed."""
        object.__setattr__(self, "events", compact(self.events))


def split(buffer: Bytes, *, limit: int | None = None, first: bytes = b"") -> Frames:
    """Find the events in bytes of a segment.

    Args:
        buffer: bytes that begin with a frame and may end within one; less than 2 GiB.
        limit: how many events to return at most.
        first: one whole frame that comes before the buffer, as of an event that began in another one.

    Returns:
        The whole frames. An event that continues behind the buffer isn't among them.

    Raises:
        BadEventError: at a frame's place stands something else; its `index` counts the events before it.
        EventDecodeError: there are more bytes than an Arrow array can hold.
    """
    data = np.frombuffer(memoryview(buffer), dtype=np.uint8)
    head = np.frombuffer(first, dtype=np.uint8)
    most = len(head) + len(data) if limit is None else limit
    native = module()
    if native is None:
        return _split_in_python(np.concatenate([head, data]) if first else data, most)
    return _split_natively(native, head, data, most)


def compact(events: pa.Array) -> pa.Array:
    """Events one after another.

    Args:
        events: payloads, or views of them, without nulls.

    Returns:
        A copy of views; what is no views as it is.

    Raises:
        EventDecodeError: there are more bytes than the array can hold.
    """
    if events.type != pa.binary_view():
        return events
    native = module()
    payloads = events.cast(pa.binary()) if native is None else native.compact(events)
    if payloads is None:
        raise too_many_bytes()
    return payloads


def join(payloads: pa.Array) -> pa.Buffer:
    """Put each payload into a frame.

    Args:
        payloads: an Arrow binary array without nulls.

    Returns:
        The frames in one buffer, ready to be appended.

    Raises:
        EventEncodeError: a payload is larger than an event may be.
    """
    check_sizes(payloads)
    return frames_bytes(by_owner(payloads, np.zeros(len(payloads), np.uint32), 1)[0])


def by_owner(payloads: pa.Array, owners: npt.NDArray[np.uint32], count: int) -> list[pa.Array]:
    """Put each payload into a frame, and the frames of each owner one after another.

    Args:
        payloads: an Arrow binary array without nulls, whose sizes were checked (`check_sizes`).
        owners: whose each payload is, from 0, shape (len(payloads),).
        count: how many owners there are.

    Returns:
        For each owner an array of its frames, headers included, in the payloads' order; its values lie one after
        another (see `frames_bytes`).
    """
    data, offsets = binary_array(payloads)
    sizes = np.diff(offsets)
    if not len(sizes):
        return [pa.array([], pa.large_binary())] * count
    wide = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    native = module()
    if native is not None:
        parts: list[pa.Array] = native.frame_parts(wide, pa.array(owners, pa.uint32()), count)
        return parts
    framed = _framed(wide, sizes)
    if count == 1:
        return [framed]
    return [framed.take(pa.array(np.flatnonzero(owners == owner))) for owner in range(count)]


def check_sizes(payloads: pa.Array) -> None:
    """Refuse what is too large for an event.

    Args:
        payloads: an Arrow binary array without nulls.

    Raises:
        EventEncodeError: a payload is larger than an event may be.
    """
    sizes = np.diff(binary_array(payloads)[1])
    if len(sizes) and sizes.max() > MAX_WRITE_SIZE:
        row = int(np.argmax(sizes))
        raise EventEncodeError(
            f"row {row} of the batch: an event of {int(sizes[row]):,} bytes is larger than Pravega takes "
            f"({MAX_WRITE_SIZE:,} bytes): make the row smaller, or split it"
        )


def frames_bytes(frames: pa.Array) -> pa.Buffer:
    """The bytes of frames that lie one after another, without a copy.

    Args:
        frames: an array that `by_owner` has made, or a slice of one.

    Returns:
        The frames in one buffer, ready to be appended.
    """
    if not len(frames):
        return pa.py_buffer(b"")
    _, offsets, data = frames.buffers()
    assert data is not None
    ends = numbers(offsets, np.int64)
    first, last = int(ends[frames.offset]), int(ends[frames.offset + len(frames)])
    return data.slice(first, last - first)


def frame_ends(frames: pa.Array) -> Ints:
    """Where frames end that lie one after another.

    Args:
        frames: an array that `by_owner` has made, or a slice of one.

    Returns:
        Bytes from the beginning of the first frame, shape (len(frames),).
    """
    if not len(frames):
        return np.empty(0, np.int64)
    offsets: Ints = numbers(frames.buffers()[1], np.int64)
    ends: Ints = offsets[frames.offset + 1 : frames.offset + len(frames) + 1] - offsets[frames.offset]
    return ends


def _framed(payloads: pa.Array, sizes: Ints) -> pa.Array:
    # Headers and payloads alternate as the elements of one Arrow array, whose data are the frames.
    n = len(sizes)
    headers = np.zeros((n, 2), dtype=">i4")
    headers[:, 1] = sizes
    heads = pa.FixedSizeBinaryArray.from_buffers(pa.binary(HEADER_SIZE), n, [None, pa.py_buffer(headers)])
    return pc.binary_join_element_wise(heads.cast(pa.large_binary()), payloads, pa.scalar(b"", pa.large_binary()))


def encoding_ids(payloads: pa.Array) -> pa.Array:
    """The encoding ids in the payloads' headers: `0x01 | int32 id`, big-endian.

    Args:
        payloads: an Arrow binary array without nulls.

    Returns:
        An int32 array; null where a payload doesn't begin with such a header.
    """
    ids, present = ids_of(payloads)
    return pa.array(ids, mask=~present)


def ids_of(events: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """As `encoding_ids`, as numpy arrays.

    Args:
        events: payloads, or views of them, without nulls.

    Returns:
        The ids, and where there is one; an id means nothing where there's none.
    """
    native = module()
    if native is None or events.type not in (pa.binary(), pa.binary_view()):
        return header_ids(*binary_array(events))
    ids, present = native.header_ids(events)
    return np.frombuffer(ids, np.int32), np.frombuffer(present, np.bool_)


def header_ids(data: npt.NDArray[np.uint8], offsets: Ints) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """As `ids_of`, of a numpy array.

    Args:
        data: the payloads' bytes.
        offsets: where each begins, and the last one's end.

    Returns:
        The ids, and where there is one; an id means nothing where there's none.
    """
    starts = offsets[:-1]
    present = np.diff(offsets) >= 5
    safe = starts if present.all() else np.where(present, starts, 0)
    if len(data) < 5 or not len(starts):
        return np.zeros(len(starts), dtype=np.int32), np.zeros(len(starts), dtype=np.bool_)
    present &= data[safe] == 1
    words = np.ndarray((len(data) - 3,), dtype=">i4", buffer=data, strides=(1,))
    return words[np.minimum(safe + 1, len(words) - 1)].astype(np.int32), present


def _split_natively(
    native: ModuleType, first: npt.NDArray[np.uint8], data: npt.NDArray[np.uint8], limit: int
) -> Frames:
    parts = native.split(pa.array(first), pa.array(data), limit)
    if parts is None:
        raise too_many_bytes()
    events, begins, end, broken = parts
    starts = begins.to_numpy()
    if broken:
        raise _not_a_frame(np.concatenate([first, data]), np.append(starts, end), len(starts))
    # The first four of a view's 16 bytes are its length. A copy: the views hold the bytes that were received.
    sizes = numbers(events.buffers()[1], np.int32)[::4].astype(np.int64)
    return Frames(events=events, starts=starts, sizes=sizes, consumed=end)


def _split_in_python(data: npt.NDArray[np.uint8], limit: int) -> Frames:
    starts, end = _scan(data, limit)
    sizes = _sizes(starts, end)
    if len(sizes) and sizes.max() > MAX_READ_SIZE:
        raise _not_a_frame(data, starts, int(np.argmax(sizes > MAX_READ_SIZE)))
    begins = starts + HEADER_SIZE
    return Frames(events=ragged_views(data, begins, begins + sizes), starts=starts, sizes=sizes, consumed=end)


def _sizes(starts: Ints, end: int) -> Ints:
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = end
    return ends - starts - HEADER_SIZE


def _scan(data: npt.NDArray[np.uint8], limit: int) -> tuple[Ints, int]:
    """The starts of at most `limit` whole frames, and the end of the last one."""
    view = data.data
    chunks: list[Ints] = []
    count = 0
    position = 0
    while count < limit:
        run = _uniform(data, position)[: limit - count]
        if len(run):
            chunks.append(run)
            count += len(run)
            position = int(run[-1]) + HEADER_SIZE + _header(view, int(run[-1]))[0]
            continue
        walked = np.fromiter(_walk(view, position, min(_WALK, limit - count)), dtype=np.int64)
        if not len(walked):
            break
        end = int(walked[-1]) + HEADER_SIZE + _header(view, int(walked[-1]))[0]
        if end > len(view):
            # Either the event goes on behind the buffer, or this isn't an event.
            starts = np.concatenate([*chunks, walked])
            if end - HEADER_SIZE - int(walked[-1]) > MAX_READ_SIZE:
                raise _not_a_frame(data, starts, len(starts) - 1)
            return starts[:-1], int(walked[-1])
        chunks.append(walked)
        count += len(walked)
        position = end
    return (np.concatenate(chunks) if chunks else np.empty(0, dtype=np.int64)), position


def _walk(view: memoryview, position: int, count: int) -> Iterator[int]:
    # Type and length in one unsigned number: a type that isn't 0, and a negative length, come out larger than
    # any buffer, so the walk ends there by itself and needs no check of its own.
    last = len(view) - HEADER_SIZE
    unpack = _header
    while position <= last and count:
        yield position
        count -= 1
        position += unpack(view, position)[0] + HEADER_SIZE


def _uniform(data: npt.NDArray[np.uint8], position: int) -> Ints:
    """The starts of the run of frames of one size from `position` on, when it's worth having."""
    none = np.empty(0, dtype=np.int64)
    left = len(data) - position
    if left < HEADER_SIZE:
        return none
    word = _header(data.data, position)[0]
    size = word + HEADER_SIZE
    possible = left // size
    length = 0
    probe = _UNIFORM_RUN
    while possible >= _UNIFORM_RUN:
        # A growing window: a run that breaks off early costs no look at the rest of the buffer.
        window = min(probe, possible)
        words = np.ndarray((window,), dtype=">u8", buffer=data, offset=position, strides=(size,))
        same = words == word
        if not same.all():
            length = int(np.argmin(same))
            break
        length = window
        if window == possible:
            break
        probe *= 8
    return position + np.arange(length, dtype=np.int64) * size if length >= _UNIFORM_RUN else none


def _not_a_frame(data: npt.NDArray[np.uint8], starts: Ints, index: int) -> BadEventError:
    start = int(starts[index])
    kind, length = struct.unpack_from(">ii", data.data, start)
    return BadEventError(
        f"there is no event at byte {start} of the buffer: type {kind}, length {length}; expected type 0 and "
        f"at most {MAX_READ_SIZE} bytes (was reading begun in the middle of an event?)",
        index=index,
    )
