"""The versions of a commit log: which of them it keeps, by the table property `history`, and who needs their events.

These are named cuts and subscribers of queries over CHANGES. Who removes events looks for them first, and changes their
entries, too, when that is noted. So a cut or a subscriber that comes meanwhile is seen, or sees that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark_pravega import values
from pyspark_pravega.client import Stream
from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.entries import (
    Closing,
    Commit,
    NamedCut,
    State,
    commit_of,
    cuts_of,
    state_content,
    state_of,
)
from pyspark_pravega.connector.log.entry_keys import CUTS, STATE, SUBSCRIBERS, commit_key, index_key
from pyspark_pravega.connector.log.json_table import Content, JsonTable
from pyspark_pravega.connector.log.tiered import Tiered
from pyspark_pravega.errors import ConfigurationError

_log = logging.getLogger(__name__)

HISTORY = "history"
LEAST_VERSIONS = 100
"""The last ones stay whatever the property says: commits look some of them up."""

_SWEPT_AT_ONCE, _MOST_SWEPT = 200, 10_000
"""How many versions are removed by one change, and by one sweep: a table whose `history` was made shorter is done with
many old ones by and by."""
_PROBES = 30


@dataclass(frozen=True, kw_only=True)
class History:
    """What is kept: a number of versions, or those of the last while."""

    versions: int | None = None
    milliseconds: int | None = None

    @classmethod
    def parse(cls, text: str) -> History:
        """Read the property.

        Args:
            text: a number of versions, `1000000`, or a time, `30 days`.

        Raises:
            ConfigurationError: it is neither.
        """
        if text.strip().isdigit():
            return cls(versions=values.number(HISTORY, text, least=LEAST_VERSIONS, unit="versions"))
        try:
            milliseconds = round(values.duration(HISTORY, text) * 1000)
        except ConfigurationError:
            milliseconds = 0
        if not milliseconds:
            raise ConfigurationError(
                f'"{HISTORY}" must be a number of versions like 1000000, or a time like 30 days, not "{text[:60]}"'
            )
        return cls(milliseconds=milliseconds)


def commits_of(table: JsonTable, versions: Iterable[int]) -> list[Commit]:
    """Completed versions, in the order asked for.

    Args:
        table: holds the log.
        versions: which ones; those that aren't there are left out.
    """
    return [commit_of(document.content) for document in table.get(*map(commit_key, versions)) if document is not None]


def first_commit(table: JsonTable, last: int) -> Commit | None:
    """The first version that is still known; None when there is none.

    The oldest go first, so it is searched for: a server takes a second to begin a list of some 100,000 keys.

    Args:
        table: holds the log.
        last: the last version.
    """
    low, high, first = 1, last, None
    while low < high or (first is None and low == high):
        numbers = sorted({low + (high - low) * step // _PROBES for step in range(_PROBES + 1)})
        known = commits_of(table, numbers)
        if not known:
            return None
        first = known[0]
        low, high = max((number + 1 for number in numbers if number < first.version), default=low), first.version
    return first


def sweep_versions(table: JsonTable, stream: Stream, version: int, history: str | None, kept: int) -> None:
    """Remove the versions that aren't kept any more.

    Args:
        table: holds the log.
        stream: whose log it is.
        version: the last one.
        history: the table's property of that name; None where it has none.
        kept: how many are kept then.
    """
    try:
        wanted = History(versions=kept) if history is None else History.parse(history)
    except ConfigurationError as error:
        # A later release may have set it. The version is made, and nothing is lost with more of them.
        _log.warning('no versions of stream "%s" are removed: %s', stream, error)
    else:
        forget_versions(table, version, wanted)


def forget_versions(table: JsonTable, last: int, history: History) -> None:
    """Remove the oldest versions. Others may do it at the same time.

    Args:
        table: holds the log.
        last: the last version.
        history: what is kept.
    """
    oldest = first_commit(table, last)
    begin = last if oldest is None else oldest.version
    stop = last + 1 - (LEAST_VERSIONS if history.versions is None else history.versions)
    for first in range(begin, min(stop, begin + _MOST_SWEPT), _SWEPT_AT_ONCE):
        gone = range(first, min(stop, begin + _MOST_SWEPT, first + _SWEPT_AT_ONCE))
        if history.milliseconds is not None:
            since = now_ms() - history.milliseconds
            kept = next((one.version for one in commits_of(table, gone) if one.committed_at >= since), None)
            gone = gone if kept is None else range(first, kept)
        if gone:
            table.remove(*((key(version), ANY_VERSION) for key in (commit_key, index_key) for version in gone))
        if len(gone) < _SWEPT_AT_ONCE:
            return


@dataclass(frozen=True, kw_only=True)
class Holders:
    """Who needs the events of old versions, as they were before the log's state was looked at."""

    cuts: Mapping[str, NamedCut]
    """The stream cuts that have names, by these."""
    subscribers: Mapping[str, int]
    """The last version that each subscriber has read, of those who have said so."""
    state: State
    """The log's."""
    stored_as: tuple[int, int]
    """The versions of both entries in the key-value table."""


class HolderLog:
    """Who needs the events of old versions. Safe for use by several threads."""

    def __init__(self, table: JsonTable) -> None:
        """Use an opened log; see `Ledger.holders`."""
        self._table = table

    def look(self) -> Holders:
        """Who there is, and then the log's state."""
        entries = self._table.get(CUTS, SUBSCRIBERS)
        cuts, subscribers = (None if entry is None else entry.content for entry in entries)
        stored_as = [NOT_EXISTS if entry is None else entry.version for entry in entries]
        # Looked at behind them: a removal that these entries don't show is noted there.
        return Holders(
            cuts=cuts_of(cuts),
            subscribers=_versions(subscribers),
            state=state_of(self._table.get(STATE)[0]),
            stored_as=(stored_as[0], stored_as[1]),
        )

    def release(self, holders: Holders, old: State, new: State) -> State:
        """Note that events are going to be removed.

        Args:
            holders: those for whom others stay.
            old: the state on which that is based.
            new: it as it is to be.

        Returns:
            The new state.

        Raises:
            ConflictError: the log has changed since, or there are other holders.
        """
        cuts, subscribers = holders.stored_as
        stored_as, *_ = self._table.put(
            (STATE, old.stored_as, state_content(new)),
            (CUTS, cuts, _cuts(holders.cuts)),
            (SUBSCRIBERS, subscribers, {"versions": dict(holders.subscribers)}),
        )
        return replace(new, stored_as=stored_as)

    def note_lake(self, old: State, lake: Tiered) -> State:
        """Note what lies in the lake; events stay.

        Args:
            old: the state on which that is based.
            lake: as of `State.lake`.

        Returns:
            The new state.

        Raises:
            ConflictError: the log has changed since.
        """
        return self._changed(old, replace(old, lake=lake))

    def note_closing(self, old: State, closing: Closing) -> State:
        """Note that the stream is going to be sealed.

        Args:
            old: the state on which that is based.
            closing: as of `State.closing`.

        Returns:
            The new state.

        Raises:
            ConflictError: the log has changed since.
        """
        return self._changed(old, replace(old, closing=closing))

    def _changed(self, old: State, new: State) -> State:
        (stored_as,) = self._table.put((STATE, old.stored_as, state_content(new)))
        return replace(new, stored_as=stored_as)

    def cuts(self) -> dict[str, NamedCut]:
        """The stream cuts that have names, by these."""
        return cuts_of(self._table.content(CUTS))

    def add_cut(self, holders: Holders, name: str, cut: NamedCut) -> None:
        """Give a stream cut a name.

        Args:
            holders: those who were there when it was found that its events stay.
            name: a name that none of them has.
            cut: the cut.

        Raises:
            ConflictError: there are other ones now, or events were removed meanwhile.
        """
        self._table.put((CUTS, holders.stored_as[0], _cuts({**holders.cuts, name: cut})))

    def drop_cut(self, name: str) -> bool:
        """Forget a cut's name.

        Returns:
            False when there was none of that name.
        """

        def without(before: Content | None) -> Content | None:
            return before and _cuts({other: cut for other, cut in cuts_of(before).items() if other != name})

        return name in cuts_of(self._table.change(CUTS, without))

    def subscribers(self) -> dict[str, int]:
        """The last version that each subscriber has read, of those who have said so."""
        return _versions(self._table.content(SUBSCRIBERS))

    def note_subscriber(self, name: str, version: int | None) -> None:
        """Note how far a subscriber has read.

        Args:
            name: the subscriber, `scope/group`.
            version: the last version that it has read; None when it is a subscriber no more.
        """

        def changed(before: Content | None) -> Content:
            versions = {**_versions(before), name: version}
            return {"versions": {one: number for one, number in versions.items() if number is not None}}

        self._table.repeated(lambda: self._table.change(SUBSCRIBERS, changed))

    def note_joined(self) -> None:
        """Note that there is another subscriber: who has looked for them before looks again."""
        self._table.repeated(lambda: self._table.change(SUBSCRIBERS, lambda before: before or {"versions": {}}))


def _cuts(cuts: Mapping[str, NamedCut]) -> Content:
    return {"cuts": {name: vars(cut) for name, cut in cuts.items()}}


def _versions(content: Content | None) -> dict[str, int]:
    return {} if content is None else dict(content["versions"])
