"""A key-value table in memory. A conditional change is in the way of others before it can be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from world import World

from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS, Entry
from pyspark_pravega.connector.log.entry_keys import COMMITS, STATE
from pyspark_pravega.errors import AuthenticationError, ConflictError, SegmentStoreUnavailableError


class OpenedTable:
    """A table as one who has opened it has it: with what was looked up then."""

    def __init__(self, table: TableModel, key: bytes) -> None:
        self._table = table
        self.looked_up = table.readable.get(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


class TableModel:
    """A key-value table of one partition: what can be read, and what is in the way of others already."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.readable: dict[bytes, Entry] = {}
        self.newest: dict[bytes, Entry] = {}
        self.under_way: list[dict[bytes, Entry | None]] = []
        self.jobs: dict[int, str] = {}
        """Of each version its job, also of those that the log has forgotten."""
        self.landed: dict[str, int] = {}
        """Of each job of a version the step at which that could be read."""
        self._version = 0
        self.timeout = 10.0
        self.forbidden = 0.0
        """How often a user who asks has no right to change it."""

    def get(self, keys: Sequence[bytes]) -> list[Entry | None]:
        readable = self.readable
        return self.world.call("get", lambda: [readable.get(key) for key in keys], lost=SegmentStoreUnavailableError)

    def check_right_to_change(self) -> None:
        if self.world.rng.random() < self.forbidden:
            raise AuthenticationError("this table may be read only")

    def put(self, entries: Sequence[tuple[bytes, int, bytes]]) -> list[int]:
        return self._change(list(entries))

    def remove(self, keys: Sequence[tuple[bytes, int]]) -> None:
        self._change([(key, version, None) for key, version in keys])

    def iterate_entries(
        self, *, prefix: bytes = b"", start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[tuple[bytes, Entry]]:
        for key in sorted(self.readable):
            if key.startswith(prefix) and (start is None or key >= start) and (stop is None or key < stop):
                entry = self.readable.get(key)
                if entry is not None:
                    yield key, entry

    def index(self) -> bool:
        """Make the oldest change readable that isn't; False where there is none."""
        if not self.under_way:
            return False
        for key, entry in self.under_way.pop(0).items():
            if entry is None:
                self.readable.pop(key, None)
                continue
            self.readable[key] = entry
            if key.startswith(COMMITS):
                job = entry.value.decode().partition('"job":"')[2][:36]
                self.jobs[int.from_bytes(key[8:])] = job
                self.landed.setdefault(job, self.world.steps)
        return True

    @property
    def last_version(self) -> int:
        """The last version of the commit log that can be read, without a step."""
        state = self.readable.get(STATE)
        return 0 if state is None else int(json.loads(state.value)["version"])

    def _change(self, changes: Sequence[tuple[bytes, int, bytes | None]]) -> list[int]:
        world, mine = self.world, {}

        def accept() -> list[int]:
            for key, version, _ in changes:
                entry = self.newest.get(key)
                if version == ANY_VERSION:
                    continue
                if (NOT_EXISTS if entry is None else entry.version) != version:
                    raise ConflictError(f"key {key.hex()} has been changed")
            for key, _, value in changes:
                self._version += 1
                mine[key] = None if value is None else Entry(value=value, version=self._version)
                if value is None:
                    self.newest.pop(key, None)
                else:
                    self.newest[key] = mine[key]  # type: ignore[assignment]
            self.under_way.append(mine)
            if not world.profile.lag:
                self.index()
            return [0 if entry is None else entry.version for entry in mine.values()]

        versions = world.call("put", accept, once=True, lost=SegmentStoreUnavailableError)
        if self.under_way and world.rng.random() < world.profile.lag:
            world.step("put: stored")
        while any(change is mine for change in self.under_way):
            self.index()
        return versions
