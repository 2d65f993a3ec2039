"""What of a table lies in the lake, as its commit log says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Base:
    """The rows of a table with a key as of a version: a snapshot of Iceberg's has just these."""

    version: int
    cut: dict[int, int]
    """The stream cut that this version has reached: what lies behind it is newer."""
    snapshot: int
    metadata: str
    """Where the metadata lie that show it."""
    rows: int


@dataclass(frozen=True, kw_only=True)
class Tiered:
    """What of a table lies in the lake: all rows up to a version."""

    id: str
    """What tells the table's Iceberg table from others of its name: a UUID."""
    version: int = 0
    """The version; 0 while there is none yet."""
    cut: dict[int, int] = field(default_factory=dict)
    """The stream cut that this version has reached: segment id to offset in bytes."""
    snapshot: int | None = None
    """Iceberg's snapshot that holds just these rows."""
    metadata: str = ""
    """Where the metadata lie that show it."""
    rows: int = 0
    kept: int = 0
    """The last version whose rows the stream needn't hold any more; 0 while it holds all that are in the lake."""
    kept_cut: dict[int, int] = field(default_factory=dict)
    """The stream cut that this version has reached: there the stream begins, or is just being truncated."""
    by_key: bool = False
    """Of a table with a key: what lies there are its rows as of that version. Reads need them where `kept` is set."""
    releases: bool = False
    """Of a table with a key: whether its stream may be truncated, so that reads may need any of these rows from then
    on."""
    kept_base: Base | None = None
    """Of a table with a key: its rows as of version `kept`."""
    next_base: Base | None = None
    """Likewise: the rows that are to become `kept_base` when nobody needs the events before them."""

    @property
    def base(self) -> Base:
        """The rows of a table with a key as of the last version that lies there."""
        assert self.snapshot is not None
        return Base(version=self.version, cut=self.cut, snapshot=self.snapshot, metadata=self.metadata, rows=self.rows)


_ONLY_WHEN_SET = frozenset({"by_key", "releases", "kept_base", "next_base"})
"""Of a table without a key it looks as it did before there were others."""


def tiered_content(lake: Tiered) -> dict[str, Any]:
    """What lies in the lake, as JSON has it.

    Args:
        lake: what lies there.
    """
    content = {name: value for name, value in vars(lake).items() if name not in _ONLY_WHEN_SET or value}
    return {name: dict(vars(value)) if isinstance(value, Base) else value for name, value in content.items()}


def tiered_of(content: Mapping[str, Any]) -> Tiered:
    """What lies in the lake, from JSON.

    Args:
        content: as of `tiered_content`.
    """
    cuts = {name: offsets_of(content.get(name, {})) for name in ("cut", "kept_cut")}
    bases = {name: base_of(content.get(name)) for name in ("kept_base", "next_base")}
    return Tiered(**{**content, **cuts, **bases})


def base_of(content: Mapping[str, Any] | None) -> Base | None:
    """Rows of a table with a key, from JSON.

    Args:
        content: their attributes; None for none.
    """
    return None if not content else Base(**{**content, "cut": offsets_of(content["cut"])})


def offsets_of(content: Mapping[str, int]) -> dict[int, int]:
    """Segment id to offset, from JSON."""
    return {int(segment_id): offset for segment_id, offset in content.items()}
