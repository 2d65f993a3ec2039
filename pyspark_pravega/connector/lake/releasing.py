"""What a stream needn't hold any more, as it lies in the lake: all before the last version that nobody needs there."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark_pravega.client import Client, StreamCut
from pyspark_pravega.client.positions import CutOrder, compare_cuts, proper_cut
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import Commit, Holders, Ledger, Tiered, is_empty_before, truncate_at
from pyspark_pravega.connector.read import last_commit
from pyspark_pravega.errors import ConflictError, PravegaError

_log = logging.getLogger(__name__)


def release_tiered(client: Client, ledger: Ledger, keep_ms: int | None) -> int:
    """Truncate a table's stream down to what named cuts and subscribers need, and what is young. Doing it again is
    harmless.

    Args:
        client: the cluster.
        ledger: the table's commit log.
        keep_ms: how long a version's events stay; None for ever.

    Returns:
        The last version whose events needn't be there any more; 0 for none.
    """
    while True:
        holders = ledger.holders().look()
        lake = holders.state.lake
        if lake is not None and lake.by_key:
            if _is_released_by_key(client, ledger, holders, lake, keep_ms):
                return lake.kept
            continue
        lake = holders.state.tiered
        if lake is None:
            return 0
        wanted = None if keep_ms is None else _last_needless(client, ledger, holders, lake, now_ms() - keep_ms)
        if wanted is not None and wanted.version > lake.kept:
            cut = dict(proper_cut(client, ledger.stream, wanted.cut))
            # Commits of others that came meanwhile change nothing of this.
            state = ledger.state()
            if state.lake != lake or state.replaced_rows != holders.state.replaced_rows:
                continue
            lake = replace(lake, kept=wanted.version, kept_cut=cut)
            try:
                ledger.holders().release(holders, state, replace(state, lake=lake))
            except ConflictError:
                # Another cut, or another subscriber, may need these events.
                continue
        if lake.kept:
            _truncate(client, StreamCut(ledger.stream, lake.kept_cut))
        return lake.kept


def _is_released_by_key(client: Client, ledger: Ledger, holders: Holders, lake: Tiered, keep_ms: int | None) -> bool:
    """Truncate the stream of a table with a key; False where others have changed something meanwhile.

    It begins at the cut of rows that are in the lake as a whole, so that these, and the events behind them, tell all
    later versions: of the last tiering, or of one that was waited for (`next_base`). So two of Iceberg's snapshots are
    needed beside the last one, however often it is tiered.
    """
    if not lake.releases or lake.version < holders.state.replaced_rows:
        return True
    noted = lake if keep_ms is None else _released_by_key(client, ledger, holders, lake, now_ms() - keep_ms)
    if noted != lake:
        state = ledger.state()
        if state.pending is not None and state.pending.replacement is not None:
            # A compaction may need events that it hasn't read.
            return True
        if state.lake != lake or state.replaced_rows != holders.state.replaced_rows:
            return False
        try:
            ledger.holders().release(holders, state, replace(state, lake=noted))
        except ConflictError:
            return False
    if noted.kept:
        _truncate(client, StreamCut(ledger.stream, noted.kept_cut))
    return True


def _released_by_key(client: Client, ledger: Ledger, holders: Holders, lake: Tiered, until_ms: int) -> Tiered:
    """What the log is to say of a lake: from which rows on events are needed, and which rows are waited for."""
    last, next_base, first = lake.base, lake.next_base, max(lake.kept + 1, holders.state.replaced_rows)
    if last.version < first:
        return lake
    if next_base is None or next_base.version < first:
        next_base = last
    old, subscribers = last_commit(ledger, until_ms), client.controller.subscribers(ledger.stream)
    if old is not None and all(one in holders.subscribers for one in subscribers):
        most = min([old.version, *(holders.subscribers[one] for one in subscribers)])
        cuts = _cuts(client, ledger, holders, lake)
        for base in (last, next_base):
            if base.version <= most and _is_needless(client, ledger, base.cut, cuts):
                return replace(
                    lake,
                    kept=base.version,
                    kept_cut=dict(proper_cut(client, ledger.stream, base.cut)),
                    kept_base=base,
                    next_base=None if base == last else last,
                )
    return replace(lake, next_base=next_base)


def _truncate(client: Client, cut: StreamCut) -> None:
    try:
        if not is_empty_before(client, cut.stream, cut):
            truncate_at(client, cut)
    except PravegaError as error:
        _log.warning(
            'what is in the lake of stream "%s" could not be removed from the stream yet, the next tiering will: %s',
            cut.stream,
            error,
        )


def _last_needless(client: Client, ledger: Ledger, holders: Holders, lake: Tiered, until_ms: int) -> Commit | None:
    """The last version in the lake that nobody needs in the stream; None for none."""
    old = last_commit(ledger, until_ms)
    last = lake.version if old is None else min(old.version, lake.version)
    subscribers = client.controller.subscribers(ledger.stream)
    if old is None or any(one not in holders.subscribers for one in subscribers):
        # Of a subscriber that doesn't say so it isn't known how far it is.
        return None
    last = min([last, *(holders.subscribers[one] for one in subscribers)])
    cuts = _cuts(client, ledger, holders, lake)
    low, needless = max(1, holders.state.replaced_rows, lake.kept + 1), None
    while low <= last:
        middle = (low + last) // 2
        commits = list(ledger.commits([middle]))
        if not commits:
            # It is forgotten, as are those before.
            low = middle + 1
        elif _is_needless(client, ledger, commits[0].cut, cuts):
            low, needless = middle + 1, commits[0]
        else:
            last = middle - 1
    return needless


def _cuts(client: Client, ledger: Ledger, holders: Holders, lake: Tiered) -> list[StreamCut]:
    """The named cuts whose events are there."""
    cuts = [StreamCut(ledger.stream, cut.offsets) for cut in holders.cuts.values()]
    if lake.kept:
        # What they need is gone already.
        begin = StreamCut(ledger.stream, lake.kept_cut)
        cuts = [cut for cut in cuts if compare_cuts(client.controller, cut, begin) is not CutOrder.BEFORE]
    return cuts


def _is_needless(client: Client, ledger: Ledger, begin: Mapping[int, int], cuts: Sequence[StreamCut]) -> bool:
    end = proper_cut(client, ledger.stream, begin)
    return all(compare_cuts(client.controller, end, cut) in (CutOrder.BEFORE, CutOrder.SAME) for cut in cuts)
