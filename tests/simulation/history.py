"""What clients did and were told, and whether one order of it all explains that: strict serializability.

A statement that was acknowledged is in the order, one that failed isn't, and one of which nobody knows may be. Whatever
ended before something else began comes before it. The table's content is a set of statements: those of which it has the
rows. Each read must see just the content of its place in the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

NEVER = 1 << 60
FIRST_TABLE = -1
Rest = tuple[int, int, frozenset[int]]
"""The epochs that are there, the table by the statement that has made it, and the statements that have altered it."""


class Kind(Enum):
    INSERT = "INSERT"
    OVERWRITE = "INSERT OVERWRITE"
    OVERWRITE_READ = "INSERT OVERWRITE of what it has read"
    MERGE = "MERGE"
    TRUNCATE = "TRUNCATE"
    READ = "read"
    EPOCH = "epoch"
    REPLACE = "CREATE OR REPLACE TABLE"
    ALTER = "ALTER TABLE"
    LOOK = "look-up"


@dataclass(kw_only=True)
class Operation:
    """What one client did."""

    number: int
    kind: Kind
    actor: str
    begun: int
    ended: int = NEVER
    """The step at which its client was told; `NEVER` where nothing certain was."""
    failed: bool = False
    """Whether its client was told that nothing of it was done."""
    seen: frozenset[int] = frozenset()
    """The statements whose rows it has read."""
    epoch: int | None = None
    repeated: bool = False
    """Whether it was told that the epoch had been there already."""
    keeps: bool = False
    """Whether it bears with rows that came since it has read (isolation level snapshot)."""
    rows: frozenset[int] = frozenset()
    """Which rows it has written."""
    job: str = ""
    """The id of its job; empty where it has none."""
    table: int | None = None
    """The table that it was planned for, or has found, by the statement that has made it; None where it may be any."""
    altered: frozenset[int] = frozenset()
    """The statements that have altered the table that it has found."""
    told: str = ""

    @property
    def replaces(self) -> bool:
        """Whether nothing stays of what was there before."""
        return self.kind in (Kind.OVERWRITE, Kind.REPLACE) or (self.kind is Kind.OVERWRITE_READ and not self.keeps)


class UnexplainedError(AssertionError):
    """No order explains a history."""


def content_of(events: Iterable[tuple[int, int]], operations: Sequence[Operation]) -> frozenset[int]:
    """The statements whose rows a client sees, each whole and once.

    Args:
        events: the statement and the row that each event is.
        operations: all.
    """
    seen: dict[int, list[int]] = {}
    for number, row in events:
        seen.setdefault(number, []).append(row)
    for number, rows in seen.items():
        if len(rows) != len(operations[number].rows) or set(rows) != operations[number].rows:
            raise UnexplainedError(
                f"of statement {number} ({operations[number].kind.value}) rows {sorted(rows)} were seen instead of "
                f"{sorted(operations[number].rows)}"
            )
    return frozenset(seen)


def explain(operations: Sequence[Operation], landed: Mapping[str, int] | None = None) -> list[int]:
    """An order that explains a history.

    Args:
        operations: all.
        landed: of jobs the step at which their commit could be read. Orders like that are tried first: among dozens of
            statements whose clients weren't told, others take for ever.

    Raises:
        UnexplainedError: there is none.
    """
    looks = (Kind.READ, Kind.LOOK)
    asked = [one for one in operations if not one.failed and (one.kind not in looks or one.ended != NEVER)]
    steps = landed or {}
    asked.sort(key=lambda one: (one.kind not in looks, steps.get(one.job, one.ended), one.begun))
    masks = {one.number: sum(1 << number for number in one.seen) for one in asked}
    needed = sum(1 << one.number for one in asked if one.ended != NEVER)
    dead_ends: set[tuple[int, int, Rest]] = set()

    def after(one: Operation, content: int, rest: Rest) -> tuple[int, Rest] | None:
        """Content and the rest when one comes next; None where it can't."""
        own, (epochs, table, altered) = 1 << one.number if one.rows else 0, rest
        if one.kind is Kind.EPOCH and one.repeated:
            assert one.epoch is not None
            return (content, rest) if epochs >> one.epoch & 1 else None
        if one.table is not None and one.table != table:
            return None
        if one.kind is Kind.LOOK:
            return (content, rest) if one.altered == altered else None
        if one.kind is Kind.READ:
            return (content, rest) if content == masks[one.number] else None
        if one.kind is Kind.INSERT:
            return content | own, rest
        if one.kind is Kind.EPOCH:
            assert one.epoch is not None
            there = bool(epochs >> one.epoch & 1)
            return None if there else (content | own, (epochs | 1 << one.epoch, table, altered))
        if one.kind is Kind.OVERWRITE_READ:
            seen = masks[one.number]
            if one.keeps:
                return (content & ~seen | own, rest) if content & seen == seen else None
            return (own, rest) if content == seen else None
        if one.kind is Kind.MERGE:
            return (content | own, rest) if one.keeps or content == masks[one.number] else None
        if one.kind is Kind.REPLACE:
            return own, (epochs, one.number, frozenset())
        if one.kind is Kind.ALTER:
            return content, (epochs, table, altered | {one.number})
        return own, rest

    def search(done: int, content: int, rest: Rest) -> list[int] | None:
        if done & needed == needed:
            return []
        if (done, content, rest) in dead_ends:
            return None
        left = [one for one in asked if not done >> one.number & 1]
        first_end = min(one.ended for one in left)
        for one in left:
            if one.begun <= first_end and (follows := after(one, content, rest)) is not None:
                order = search(done | 1 << one.number, *follows)
                if order is not None:
                    return [one.number, *order]
        dead_ends.add((done, content, rest))
        return None

    order = search(0, 0, (0, FIRST_TABLE, frozenset()))
    if order is None:
        lines = "\n".join(
            f"  {one.number:2} {one.actor:9} {one.begun:5} to {'?' if one.ended == NEVER else one.ended:5} "
            f"{one.kind.value} saw {sorted(one.seen)}, epoch {one.epoch}, table {one.table}, altered by "
            f"{sorted(one.altered)}; {one.told}"
            for one in operations
        )
        raise UnexplainedError(f"no order explains this history:\n{lines}")
    return order
