"""Batches by groups: in memory as far as they go there, and for the rest in a file of this machine."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import IO, Generic, TypeVar

import pyarrow as pa

Group = TypeVar("Group", bound=Hashable)
_CODEC = "lz4"


class Spill(Generic[Group]):
    """Holds batches of one schema until their group is wanted. Its file has no name: it goes with the process."""

    def __init__(self, most: int) -> None:
        """Hold nothing yet.

        Args:
            most: how many bytes of rows stay in memory, about.
        """
        self._most = most
        self._held: dict[Group, list[pa.RecordBatch]] = {}
        self._in_memory = 0
        self._file: IO[bytes] | None = None
        self._stored: dict[Group, list[tuple[int, int, int]]] = {}
        """Where batches begin in the file, how long they are there, and how long when they are read."""
        self._schema: pa.Schema | None = None
        self._sizes: Counter[Group] = Counter()
        self.rows = 0
        """All that are held."""

    @property
    def bytes(self) -> int:
        """Of all that is held."""
        return self._sizes.total()

    @property
    def groups(self) -> set[Group]:
        """Those of which there are batches."""
        return {*self._held, *self._stored}

    def add(self, group: Group, batch: pa.RecordBatch) -> None:
        """Hold a batch.

        Args:
            group: behind whose others it comes.
            batch: some rows.
        """
        self._schema = batch.schema
        self._held.setdefault(group, []).append(batch)
        self._in_memory += batch.nbytes
        self._sizes[group] += batch.nbytes
        self.rows += batch.num_rows
        if self._in_memory >= self._most:
            self._store()

    def bytes_of(self, group: Group) -> int:
        """How many bytes of a group are held.

        Args:
            group: which one.
        """
        return self._sizes[group]

    def of(self, group: Group) -> Iterator[pa.RecordBatch]:
        """The batches of a group, in their order.

        Args:
            group: which one.
        """
        for start, length, size in self._stored.get(group, ()):
            assert self._file is not None
            self._file.seek(start)
            content = pa.decompress(self._file.read(length), size, _CODEC)
            yield pa.ipc.read_record_batch(content, self._schema)
        yield from self._held.get(group, ())

    def close(self) -> None:
        """Let all go."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._held, self._stored = {}, {}
        self._in_memory = self.rows = 0
        self._sizes.clear()

    def _store(self) -> None:
        self._file = self._file or tempfile.TemporaryFile(prefix="pravega-lake-")  # noqa: SIM115
        self._file.seek(0, 2)
        for group, batches in self._held.items():
            # What is cut out of a batch would take all of that along.
            for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
                content = batch.serialize()
                packed = pa.compress(content, _CODEC, asbytes=True)
                self._stored.setdefault(group, []).append((self._file.tell(), len(packed), content.size))
                self._file.write(packed)
        self._held, self._in_memory = {}, 0
