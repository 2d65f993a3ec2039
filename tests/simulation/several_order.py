"""What clients did to several tables, and whether one order of it all explains what they have seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from history import NEVER, UnexplainedError

from pyspark_pravega.client import Stream

STREAMS = tuple(Stream("shop", name) for name in ("orders", "payments", "stock"))
KEYED_TABLE = STREAMS[0]
"""The one that has a key, where one has."""
NOBODY = -1
_MOST_KEYS = 4
_Content = tuple[int, ...]
"""Of each table the statements whose rows it has, as bits; the last epoch that is there; and who has written each key
of a table with a key."""
_EPOCH_AT, _KEYS_AT = len(STREAMS), len(STREAMS) + 1


@dataclass(kw_only=True)
class Change:
    """What one client did."""

    number: int
    kind: str
    actor: str
    begun: int
    ended: int = NEVER
    failed: bool = False
    told: str = ""
    read: dict[Stream, frozenset[int]] = field(default_factory=dict)
    """Of each table that it has read the statements whose rows it saw."""
    written: set[Stream] = field(default_factory=set)
    """The tables to which it adds rows."""
    epoch: int | None = None
    """Of a micro-batch its number: it is there once, and none behind a later one."""
    repeated: bool = False
    """Whether it was told that the micro-batch, or a later one, had been there already, or that this one was."""
    emptied: Stream | None = None
    """The table of which it has removed all rows that were there before."""
    keys_read: dict[int, int] = field(default_factory=dict)
    """Of a table with a key, the keys that it has read, and who had written them; `NOBODY` where there was no row."""
    keys_written: frozenset[int] = frozenset()


def explain_several(changes: Sequence[Change], streams: Sequence[Stream] = STREAMS) -> None:
    """Find an order that explains a history, as `history.explain` does for one table.

    Args:
        changes: what everybody did, in the order in which it was begun.
        streams: the tables, of which there are three; the first one is the one that has a key, if any.

    Raises:
        UnexplainedError: there is none.
    """
    asked = [one for one in changes if not one.failed and (one.kind != "read" or one.ended != NEVER)]
    asked.sort(key=lambda one: (one.ended, one.begun))
    needed = sum(1 << one.number for one in asked if one.ended != NEVER)
    places = {stream: place for place, stream in enumerate(streams)}
    seen = {
        one.number: [(places[stream], sum(1 << number for number in some)) for stream, some in one.read.items()]
        + [(_KEYS_AT + key, number) for key, number in one.keys_read.items()]
        for one in asked
    }
    dead_ends: set[tuple[int, _Content]] = set()

    def after(one: Change, content: _Content) -> _Content | None:
        if one.repeated and one.epoch is not None and content[_EPOCH_AT] >= one.epoch:
            # Another one's, whatever this one has read.
            return content
        for place, wanted in seen[one.number]:
            if content[place] != wanted:
                return None
        if one.kind == "read":
            return content
        now = list(content)
        if one.epoch is not None:
            if now[_EPOCH_AT] >= one.epoch:
                return None
            now[_EPOCH_AT] = one.epoch
        if one.emptied is not None:
            now[places[one.emptied]] = 0
            if one.emptied == streams[0]:
                now[_KEYS_AT:] = [NOBODY] * _MOST_KEYS
        for stream in one.written:
            now[places[stream]] |= 1 << one.number
        for key in one.keys_written:
            now[_KEYS_AT + key] = one.number
        return tuple(now)

    def search(done: int, content: _Content) -> bool:
        if done & needed == needed:
            return True
        if (done, content) in dead_ends:
            return False
        left = [one for one in asked if not done >> one.number & 1]
        first_end = min(one.ended for one in left)
        for one in left:
            follows = after(one, content) if one.begun <= first_end else None
            if follows is not None and search(done | 1 << one.number, follows):
                return True
        dead_ends.add((done, content))
        return False

    if not search(0, (*(0 for _ in STREAMS), -1, *([NOBODY] * _MOST_KEYS))):
        lines = "\n".join(
            f"  {one.number:2} {one.actor:10} {one.begun:5} to {'?' if one.ended == NEVER else one.ended:5} {one.kind} "
            f"{'failed' if one.failed else ''} saw { {s.name: sorted(n) for s, n in one.read.items()} }, wrote "
            f"{sorted(s.name for s in one.written)}, emptied {one.emptied}, keys {one.keys_read} "
            f"{sorted(one.keys_written)}; {one.told}"
            for one in changes
        )
        raise UnexplainedError(f"no order explains this history:\n{lines}")
