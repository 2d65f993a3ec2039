"""What of the events that a compaction has written once more stays, and for whom.

Readers leave these events out in any case, as the commit log says where the rows begin. Kept are whole eras
(`connector.read.eras`): old versions, named cuts and changes are told by all events of theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from pyspark_pravega.client import Client, StreamCut
from pyspark_pravega.connector.log import Ledger, clean, is_empty_before, truncate_at
from pyspark_pravega.connector.read import Era, Moment, era_at, era_of, eras, parts_until
from pyspark_pravega.errors import ConflictError, PravegaError, SegmentTruncatedError

_log = logging.getLogger(__name__)


def release(client: Client, ledger: Ledger, *, one_more: bool = False) -> None:
    """Truncate a compacted table's stream down to what named cuts and subscribers need. Doing it again is harmless.

    Where it can't be done now the next compaction does it.

    Args:
        client: the cluster.
        ledger: the table's commit log.
        one_more: whether the events of the era before stay, too, for queries that are under way.
    """
    try:
        while not _is_released(client, ledger, one_more=one_more):
            pass
    except PravegaError as error:
        _log.warning(
            'what the compaction of stream "%s" has left could not be removed yet, the next one will: %s',
            ledger.stream,
            error,
        )


def _is_released(client: Client, ledger: Ledger, *, one_more: bool) -> bool:
    """Whether all that may be removed is; False when somebody has committed meanwhile."""
    state = ledger.state()
    if state.cleaning is None or not state.cleaning.begins or not state.cleaning.held:
        return True
    known = list(eras(ledger))
    oldest = min(1 if one_more else 0, len(known) - 1)
    for era in _needed(client, ledger):
        before = [] if era is None else [i for i, one in enumerate(known) if one.version <= era.version]
        oldest = max(oldest, min(before, default=len(known)))
    if oldest and (oldest == len(known) or not known[oldest].begins):
        return True
    if oldest:
        cut = StreamCut(ledger.stream, dict(known[oldest].begins or {}))
        if not is_empty_before(client, ledger.stream, cut):
            truncate_at(client, cut)
        return True
    try:
        clean(client, ledger, ledger.cleaned(state, replace(state.cleaning, held=False)))
    except ConflictError:
        return False
    return True


def _needed(client: Client, ledger: Ledger) -> Iterator[Era | None]:
    """The eras of whose events somebody needs some; None for all that there are."""
    for name, cut in ledger.cuts().items():
        moment = Moment(offsets=cut.offsets, name=f'cut "{name}"')
        try:
            parts_until(client, ledger.stream, None, moment)
        except SegmentTruncatedError:
            # It is gone already.
            continue
        yield era_at(client, ledger, moment)
    versions = ledger.subscribers()
    for subscriber in client.controller.subscribers(ledger.stream):
        # Of others, as of those who read the log of events, nobody can be asked how far they are.
        yield era_of(ledger, versions[subscriber]) if subscriber in versions else None
