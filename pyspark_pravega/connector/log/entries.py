"""What the entries of a commit log say, and how they are written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pyspark_pravega.client.key_value import NOT_EXISTS
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.entry_keys import query_key
from pyspark_pravega.connector.log.json_table import Change, Content, Document
from pyspark_pravega.connector.log.tiered import Base, Tiered, offsets_of, tiered_content, tiered_of

OTHERS = "others"
"""In place of a job: of a version that notes what others have written."""
_ONLY_WHEN_SET = frozenset(
    {
        "replaced_rows",
        "replaced_table",
        "cleaning",
        "added_checks",
        "truncation_due",
        "compacted",
        "reached",
        "replaced_before",
        "began",
        "released",
        "lake",
        "closing",
    }
)
"""Without replacements, constraints and a lake a log looks as it did before there were any."""


class Closing(StrEnum):
    """What is done to a stream, so that no transaction over several tables may count on it."""

    SEAL = "seal"
    """It is sealed: its rows can still be read."""
    DROP = "drop"


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """What takes the place of all that a table held: its rows, and perhaps its columns and properties."""

    begins: dict[int, int]
    """The stream cut at which the table's rows begin from then on: segment id to offset in bytes."""
    keeps: bool = False
    """Whether rows that are kept may lie behind that cut."""
    id: str | None = None
    """What identifies the statement that makes the table another one, with other columns and properties; None where
    only its rows are replaced."""
    base: int | None = None
    """Of a compaction, which changes no row but writes the rows at that cut once more: the first version that lies
    behind the cut with all of its events."""
    properties: dict[str, str] | None = None
    """The table's properties from then on; None where they stay."""
    stream: dict[str, Any] | None = None
    """What the registry and the controller are to be told when the version is there; None for nothing."""


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """What a replacement has left to be done, by the next writer. Readers see the table as if it were done."""

    version: int
    """The version that has replaced the table."""
    begins: dict[int, int]
    """The stream is to be truncated here; empty when that is done."""
    stream: dict[str, Any] | None = None
    """As of `Replacement`."""
    held: bool = False
    """Whether what lies before the cut may be needed: then the next compaction looks whether that is still so."""

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return not self.begins and self.stream is None


@dataclass(frozen=True, kw_only=True)
class Together:
    """A transaction over several tables: its record decides whether it is there; see `decisions`."""

    scope: str
    """Where the record is."""
    id: str
    """A UUID."""
    awaited: bool = field(default=False, compare=False)
    """Whether readers wait for the decision: it has read tables whose logs it may not change, so others may commit to
    these meanwhile, and nobody may see that before it."""


@dataclass(frozen=True, kw_only=True)
class Intent:
    """A commit in progress: recorded before its first transaction is committed."""

    job: str
    """The writing job's id, a UUID."""
    transactions: tuple[str, ...]
    """The id of its transaction. Earlier releases could note several, one for each epoch of the stream."""
    rows: int
    bytes: int
    started_at: int
    """Milliseconds since 1970."""
    query: str | None = None
    """The streaming query whose epoch this is, if it is one's."""
    epoch: int | None = None
    offsets: str | None = None
    """As of `Progress`."""
    event_time: int | None = None
    """What the stream's watermark may advance to with this commit, in the unit that its writers use."""
    writer: str = ""
    """Whose event time it is."""
    replacement: Replacement | None = None
    """What the commit replaces; None when it only adds rows."""
    indexed: bool = False
    """Whether the job has noted figures of its rows."""
    together: Together | None = None
    """What it is a part of; without transactions it only keeps others from writing what that has read."""

    def transaction_ids(self) -> tuple[uuid.UUID, ...]:
        """The transactions' ids."""
        return tuple(uuid.UUID(text) for text in self.transactions)


@dataclass(frozen=True, kw_only=True)
class State:
    """The log's first entry."""

    version: int = 0
    """The last completed version; 0 when there is none."""
    pending: Intent | None = None
    rows: int | None = 0
    """Of all completed versions together; None in logs that were begun before they were counted."""
    bytes: int | None = 0
    """Likewise, frames included."""
    committed_at: int | None = None
    """When the last version was completed, in milliseconds since 1970; None in logs that didn't keep it here."""
    replaced_rows: int = 0
    """The last version that took the place of all rows before it; 0 when there was none."""
    replaced_table: int = 0
    """The last version that gave the table other columns and properties; 0 when there was none."""
    cleaning: Cleaning | None = None
    """What that version has left to be done."""
    added_checks: int = 0
    """How many CHECK constraints were added since the table was made, and how often its key was changed. Writes planned
    before know nothing of that."""
    truncation_due: bool = False
    """Whether the next commit takes the place of all rows: TRUNCATE TABLE was asked for, and waits for it."""
    compacted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Where the rows lie that the last compaction has written, and nothing else: segment id to the offsets of the first
    byte and behind the last one. Only where that is known, and only while no other version has replaced all rows."""
    reached: dict[int, int] = field(default_factory=dict)
    """The stream cut that version `replaced_rows` has reached, which the log may forget; empty in logs that didn't keep
    it."""
    replaced_before: int = 0
    """The one before that took the place of all rows; 0 when there was none."""
    began: dict[int, int] = field(default_factory=dict)
    """The stream cut at which the table's rows begin since version `replaced_rows`, wherever they lie; empty in logs
    that didn't keep it."""
    released: int = 0
    """The first version whose rows' events stay, of those that began with other ones: what only versions before it need
    is gone, or is just being removed."""
    lake: Tiered | None = None
    """What lies in the lake, whether it is still the table's or not: see `tiered`."""
    closing: Closing | None = None
    """Set before the stream is sealed."""
    analyzed: str | None = None
    """Which statistics of its columns the table has, where that was looked up, too: it isn't stored here."""
    stored_as: int = NOT_EXISTS
    """The entry's version in the key-value table, to be named when it is changed."""

    @property
    def is_settled(self) -> bool:
        """Whether no commit is in progress, and none has left something to do."""
        return self.pending is None and self.cleaning is None

    @property
    def tiered(self) -> Tiered | None:
        """What of the table's rows reads take from the lake; None where they take none: others may have taken their
        place, or the table has a key.
        """
        lake = self.lake
        if lake is None or lake.by_key or not lake.version or lake.version < self.replaced_rows:
            return None
        return lake

    @property
    def base(self) -> Base | None:
        """Of a table with a key the rows in the lake with which reads begin; None where the stream has all that is
        needed.
        """
        lake = self.lake
        is_needed = lake is not None and lake.by_key and 0 < lake.kept >= self.replaced_rows
        return lake.base if lake is not None and is_needed else None

    @property
    def has_lake(self) -> bool:
        """Whether reads take rows from the lake, or have taken some, or may do so."""
        return self.lake is not None and (not self.lake.by_key or self.lake.releases)

    @property
    def kept_from(self) -> int:
        """The first version whose events are in the stream for sure."""
        if self.lake is None or (self.lake.by_key and self.base is None):
            return max(1, self.replaced_rows)
        return self.lake.kept + 1

    @property
    def oldest_kept(self) -> int:
        """As `released`, also where a version has taken the place of all rows."""
        if self.cleaning is None or self.cleaning.held or not self.cleaning.begins:
            return self.released
        return max(self.released, self.cleaning.version)

    def after(self, done: Intent, committed_at: int, cut: Mapping[int, int]) -> State:
        """The state when a commit has become the next version."""
        version, replacement = self.version + 1, done.replacement
        added = replace(self, version=version, pending=None, committed_at=committed_at)
        if done.job == OTHERS:
            # Its rows aren't counted, so the stream holds more than the log knows.
            return added
        if replacement is None:
            return replace(
                added,
                rows=None if self.rows is None else self.rows + done.rows,
                bytes=None if self.bytes is None else self.bytes + done.bytes,
            )
        stream = replacement.stream
        if replacement.id is None and self.cleaning is not None:
            # The statement before has made the table another one, and isn't through with that.
            stream = self.cleaning.stream
        return replace(
            added,
            rows=None if replacement.keeps else done.rows,
            bytes=None if replacement.keeps else done.bytes,
            replaced_rows=version,
            reached=dict(cut),
            replaced_before=self.replaced_rows,
            began=dict(replacement.begins),
            replaced_table=self.replaced_table if replacement.id is None else version,
            cleaning=Cleaning(
                version=version, begins=replacement.begins, stream=stream, held=replacement.base is not None
            ),
            truncation_due=False,
            compacted={},
        )


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A completed version."""

    version: int
    job: str
    transactions: tuple[str, ...]
    rows: int
    bytes: int
    committed_at: int
    """Milliseconds since 1970."""
    cut: dict[int, int] = field(default_factory=dict)
    """Segment id to offset in bytes: the stream's tail right after this commit."""
    query: str | None = None
    """The streaming query, or the option `query`, of its writer."""
    epoch: int | None = None
    replacement: str | None = None
    """The statement that made the table another one with it: `Replacement.id`."""
    begins: dict[int, int] = field(default_factory=dict)
    """Where the table's rows begin from it on, as of `Replacement`; empty where it only adds rows, and in logs that
    didn't keep it."""
    base: int | None = None
    """As of `Replacement`."""
    replaced: int = 0
    """Of a version that takes the place of all rows: the one before that did so; 0 when there was none."""
    started_at: int | None = None
    """When its commit was begun, in ms since 1970; None in logs that didn't keep it."""

    @property
    def of_others(self) -> bool:
        """Whether it only notes where the stream ended, so that its rows aren't counted."""
        return self.job == OTHERS


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """How a real-time query writes whose rows are numbered."""

    since: tuple[int, ...]
    """From which segments of the stream on it has to look for what is stored."""
    epoch: int
    """The batch with which that began: an earlier one would have to look at earlier segments."""
    key: str
    """How its rows get their routing keys: in another way, a row that comes again wouldn't be known."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a streaming query has come in writing to the stream."""

    query: str
    epoch: int = -1
    """The last epoch that was committed; -1 when there is none."""
    version: int | None = None
    """The version that it has become: it stays known when the log has swept that. None where it isn't, as in logs that
    didn't keep it."""
    rows: int | None = None
    """How many rows it had; None likewise."""
    run: str | None = None
    """The driver that may go on."""
    retired: tuple[str, ...] = ()
    """Drivers that another one has taken the query over from, the last ones."""
    offsets: str | None = None
    """What tells where the last epoch ended in the query's sources, where that is known."""
    numbered: Numbered | None = None
    """Of a query that has numbered its rows."""
    stored_as: int = NOT_EXISTS
    """The entry's version in the key-value table, to be named when it is changed."""


@dataclass(frozen=True, kw_only=True)
class NamedCut:
    """A stream cut that was given a name."""

    created_at: int
    """Milliseconds since 1970."""
    offsets: dict[int, int]
    """Segment id to offset in bytes."""


def state_of(document: Document | None) -> State:
    """The log's state; the first one when it has none."""
    if document is None:
        return State()
    content = document.content
    pending, cleaning = content["pending"], content.get("cleaning")
    return State(
        version=content["version"],
        pending=_intent(pending) if pending else None,
        rows=content.get("rows"),
        bytes=content.get("bytes"),
        committed_at=content.get("committed_at"),
        replaced_rows=content.get("replaced_rows", 0),
        replaced_table=content.get("replaced_table", 0),
        cleaning=Cleaning(**{**cleaning, "begins": offsets_of(cleaning["begins"])}) if cleaning else None,
        added_checks=content.get("added_checks", 0),
        truncation_due=content.get("truncation_due", False),
        compacted={int(segment): (first, behind) for segment, (first, behind) in content.get("compacted", {}).items()},
        reached=offsets_of(content.get("reached", {})),
        replaced_before=content.get("replaced_before", 0),
        began=offsets_of(content.get("began", {})),
        released=content.get("released", 0),
        lake=_tiered(content.get("lake")),
        closing=Closing(content["closing"]) if content.get("closing") else None,
        stored_as=document.version,
    )


def commit_content(commit: Commit) -> Content:
    """A version as it is stored."""
    content = dict(vars(commit))
    if not commit.begins:
        for name in ("begins", "base", "replaced"):
            del content[name]
    return content


def state_content(state: State) -> Content:
    """A log's state as it is stored."""
    content = {key: value for key, value in vars(state).items() if key not in _ONLY_WHEN_SET or value}
    del content["stored_as"], content["analyzed"]
    if state.pending is not None:
        content["pending"] = intent = dict(vars(state.pending))
        if intent["offsets"] is None:
            del intent["offsets"]
        if not intent["indexed"]:
            del intent["indexed"]
        together = intent.pop("together")
        if together is not None:
            intent["together"] = {key: value for key, value in vars(together).items() if value}
        replacement = intent.pop("replacement")
        if replacement is not None:
            intent["replacement"] = vars(replacement)
    if state.cleaning is not None:
        content["cleaning"] = vars(state.cleaning)
    if state.lake is not None:
        content["lake"] = tiered_content(state.lake)
    return content


def _tiered(content: Content | None) -> Tiered | None:
    return None if content is None else tiered_of(content)


def _intent(content: Content) -> Intent:
    replacement = content.get("replacement")
    if replacement:
        replacement = Replacement(**{**replacement, "begins": offsets_of(replacement["begins"])})
    together = content.get("together")
    return Intent(
        **{
            **content,
            "transactions": tuple(content["transactions"]),
            "replacement": replacement,
            "together": Together(**together) if together else None,
        }
    )


def commit_of(content: Content) -> Commit:
    """A version."""
    return Commit(
        version=content["version"],
        job=content["job"],
        transactions=tuple(content["transactions"]),
        rows=content["rows"],
        bytes=content["bytes"],
        committed_at=content["committed_at"],
        cut=offsets_of(content["cut"]),
        query=content.get("query"),
        epoch=content.get("epoch"),
        replacement=content.get("replacement"),
        begins=offsets_of(content.get("begins", {})),
        base=content.get("base"),
        replaced=content.get("replaced", 0),
        started_at=content.get("started_at"),
    )


def progress_of(query: str, document: Document | None) -> Progress:
    """How far a query has come."""
    if document is None:
        return Progress(query=query)
    content = document.content
    return Progress(
        query=query,
        epoch=content["epoch"],
        version=content.get("version"),
        rows=content.get("rows"),
        run=content["run"],
        retired=tuple(content["retired"]),
        offsets=content.get("offsets"),
        numbered=_numbered(content.get("numbered")),
        stored_as=document.version,
    )


def _numbered(content: Content | None) -> Numbered | None:
    return None if content is None else Numbered(**{**content, "since": tuple(content["since"])})


def stored(progress: Progress) -> Change:
    """A query's progress as a change of the log."""
    content = {**vars(progress), "at": now_ms()}
    del content["stored_as"]
    if progress.offsets is None:
        del content["offsets"]
    if progress.numbered is None:
        del content["numbered"]
    else:
        content["numbered"] = vars(progress.numbered)
    return (query_key(progress.query), progress.stored_as, content)


def cuts_of(content: Content | None) -> dict[str, NamedCut]:
    """The cuts that have names."""
    return {
        name: NamedCut(created_at=cut["created_at"], offsets=offsets_of(cut["offsets"]))
        for name, cut in (content["cuts"] if content is not None else {}).items()
    }
