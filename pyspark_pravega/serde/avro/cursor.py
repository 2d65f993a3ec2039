"""Reading positions in many Avro datums at once: what is next is read from all of them in one numpy operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pyspark_pravega.frames.ragged import Bytes, Ints

PAD = 16
"""Bytes before and behind the datums, so that whole words can be read around any position."""

_U = np.uint64
_CONTINUES = _U(0x8080808080808080)
_SEVEN_BITS = _U(0x7F7F7F7F7F7F7F7F)
_COUNTS = _U(0x0102030405060708)
Mask = npt.NDArray[np.bool_]


class DatumError(Exception):
    """A datum isn't what its schema says.

    Args:
        row: which one.
        reason: what is wrong with it.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


class Cursor:
    """Where reading stands in each of n datums.

    A datum's position never moves back, and never behind its end: a length or count that would do that is refused
    where it is read.

    Args:
        data: the datums' bytes, with PAD bytes before and behind.
        position: where to read next in each datum; shape (n,), rising. The cursor owns it.
        end: where each datum ends; shape (n,).
        rows: the number that errors give for each datum; shape (n,).
    """

    __slots__ = ("_words", "data", "end", "position", "rows")

    def __init__(self, data: Bytes, position: Ints, end: Ints, rows: Ints, words: Any = None) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.rows = rows
        if words is None:
            # One little-endian word beginning at every byte.
            words = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data.data, strides=(1,))
        self._words = words

    def __len__(self) -> int:
        return len(self.position)

    def some(self, which: Ints) -> Cursor:
        """A cursor over some of the datums; its position has to be given back with `rejoin`."""
        return Cursor(self.data, self.position[which], self.end[which], self.rows[which], self._words)

    def rejoin(self, which: Ints, part: Cursor) -> None:
        """Take over the positions of `some(which)`."""
        self.position[which] = part.position

    def at(self, position: Ints, of: Ints) -> Cursor:
        """A cursor over positions within the datums: `position[i]` lies in datum `of[i]`."""
        return Cursor(self.data, position, self.end[of], self.rows[of], self._words)

    def fail(self, where: Mask, reason: str) -> DatumError:
        """The error for the first of the datums that `where` marks."""
        return DatumError(int(self.rows[int(np.argmax(where))]), reason)

    def words(self, position: Ints) -> npt.NDArray[np.uint64]:
        """The eight bytes from each position on, as little-endian numbers."""
        words: npt.NDArray[np.uint64] = self._words[position]
        return words

    def advance(self, sizes: Ints | int, what: str) -> Ints:
        """Move over bytes.

        Args:
            sizes: how many, for each datum or for all.
            what: what they are, for messages.

        Returns:
            Where they began.
        """
        start = self.position
        wrong = sizes > self.end - start
        if isinstance(sizes, np.ndarray):
            wrong |= sizes < 0
        if wrong.any():
            raise self.fail(wrong, f"{what} is longer than the rest of the event")
        self.position = start + sizes
        return start

    def varint(self) -> Ints:
        """Read an int, long, length, count or index: zigzag in up to ten bytes of seven bits.

        Returns:
            The numbers, shape (n,).
        """
        words = self.words(self.position)
        if not (words & _U(0x80)).any():
            value = words & _U(0x7F)
            self.position = self.position + 1
        else:
            value = self._long_varint(words)
        wrong = self.position > self.end
        if wrong.any():
            raise self.fail(wrong, "it ends within a number")
        return ((value >> _U(1)) ^ (_U(0) - (value & _U(1)))).view(np.int64)

    def _long_varint(self, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        last = ~words & _CONTINUES
        # The lowest set bit of `last` is bit 7 of the number's last byte.
        lowest = last & (_U(0) - last)
        # A product with a power of 256 shifts the byte that holds the count to the top.
        size = ((lowest >> _U(7)) * _COUNTS) >> _U(56)
        value = words & (lowest ^ (lowest - _U(1))) & _SEVEN_BITS
        value = (value & _U(0x007F007F007F007F)) | ((value & _U(0x7F007F007F007F00)) >> _U(1))
        value = (value & _U(0x00003FFF00003FFF)) | ((value & _U(0x3FFF00003FFF0000)) >> _U(2))
        value = (value & _U(0x000000000FFFFFFF)) | ((value & _U(0x0FFFFFFF00000000)) >> _U(4))
        position = self.position
        self.position = position + size.astype(np.int64)
        endless = lowest == 0
        if endless.any():
            which = np.flatnonzero(endless)
            ninth = self.data[np.minimum(position[which] + 8, len(self.data) - 1)].astype(np.uint64)
            tenth = self.data[np.minimum(position[which] + 9, len(self.data) - 1)].astype(np.uint64)
            goes_on = ninth >= 0x80
            wrong = goes_on & (tenth > 1)
            if wrong.any():
                raise DatumError(int(self.rows[which[int(np.argmax(wrong))]]), "a number has more than 64 bits")
            value[which] |= ((ninth & _U(0x7F)) << _U(56)) | np.where(goes_on, tenth << _U(63), _U(0))
            self.position[which] = position[which] + np.where(goes_on, 10, 9)
        return value
