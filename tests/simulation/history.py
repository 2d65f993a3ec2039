"""What clients did and were told, and whether one order of it all explains that: strict serializability.

A statement that was acknowledged is in the order, one that failed isn't, and one of which nobody knows may be. Whatever
ended before something else began comes before it. The table's content is a set of statements: those of which it has the
rows. Each read must see just the content of its place in the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

NEVER = 1 << 60


class Kind(Enum):
    INSERT = "INSERT"
    OVERWRITE = "INSERT OVERWRITE"
    OVERWRITE_READ = "INSERT OVERWRITE of what it has read"
    TRUNCATE = "TRUNCATE"
    READ = "read"
    EPOCH = "epoch"


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
    """Whether it keeps rows that came since it has read (isolation level snapshot)."""
    rows: frozenset[int] = frozenset()
    """Which rows it has written."""
    job: str = ""
    """The id of its job; empty where it has none."""
    told: str = ""


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


def explain(operations: Sequence[Operation]) -> list[int]:
    """An order that explains a history.

    Raises:
        UnexplainedError: there is none.
    """
    asked = [one for one in operations if not one.failed and (one.kind is not Kind.READ or one.ended != NEVER)]
    asked.sort(key=lambda one: (one.kind is not Kind.READ, one.ended, one.begun))
    masks = {one.number: sum(1 << number for number in one.seen) for one in asked}
    needed = sum(1 << one.number for one in asked if one.ended != NEVER)
    dead_ends: set[tuple[int, int, int]] = set()

    def after(one: Operation, content: int, epochs: int) -> tuple[int, int] | None:
        """Content and epochs when one comes next; None where it can't."""
        own = 1 << one.number if one.rows else 0
        if one.kind is Kind.READ:
            return (content, epochs) if content == masks[one.number] else None
        if one.kind is Kind.INSERT:
            return content | own, epochs
        if one.kind is Kind.EPOCH:
            assert one.epoch is not None
            there = bool(epochs >> one.epoch & 1)
            if there != one.repeated:
                return None
            return (content, epochs) if there else (content | own, epochs | 1 << one.epoch)
        if one.kind is Kind.OVERWRITE_READ:
            seen = masks[one.number]
            if one.keeps:
                return (content & ~seen | own, epochs) if content & seen == seen else None
            return (own, epochs) if content == seen else None
        return own, epochs

    def search(done: int, content: int, epochs: int) -> list[int] | None:
        if done & needed == needed:
            return []
        if (done, content, epochs) in dead_ends:
            return None
        left = [one for one in asked if not done >> one.number & 1]
        first_end = min(one.ended for one in left)
        for one in left:
            if one.begun <= first_end and (follows := after(one, content, epochs)) is not None:
                rest = search(done | 1 << one.number, *follows)
                if rest is not None:
                    return [one.number, *rest]
        dead_ends.add((done, content, epochs))
        return None

    order = search(0, 0, 0)
    if order is None:
        lines = "\n".join(
            f"  {one.number:2} {one.actor:9} {one.begun:5} to {'?' if one.ended == NEVER else one.ended:5} "
            f"{one.kind.value} saw {sorted(one.seen)}, epoch {one.epoch}; {one.told}"
            for one in operations
        )
        raise UnexplainedError(f"no order explains this history:\n{lines}")
    return order
