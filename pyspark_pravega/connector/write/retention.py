"""Retention of the events that a compaction has written once more: what named cuts and subscribers still need.

Readers leave these events out in any case, as the commit log says where the rows begin. Kept are whole eras
(`connector.read.eras`): old versions, named cuts and changes are told by all events of theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark_pravega.client import Client, StreamCut
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import (
    Holders,
    Ledger,
    NamedCut,
    clean,
    is_empty_before,
    take_snapshot,
    truncate_at,
)
from pyspark_pravega.connector.read import (
    Era,
    Moment,
    era_at,
    era_of,
    eras,
    events_of,
    moment_of,
    parts_until,
    reaches,
    replaced,
    rows_at,
    snapshot_until,
    truncated,
)
from pyspark_pravega.errors import ConfigurationError, ConflictError, PravegaError, SegmentTruncatedError

_log = logging.getLogger(__name__)


def create_cut(client: Client, ledger: Ledger, name: str, version: str | None, *, keyed: bool) -> StreamCut:
    """Give a version a name, so that no compaction removes what it needs.

    Args:
        client: the cluster.
        ledger: the table's commit log.
        name: the name.
        version: as of `moment_of`; None for the table as it is now.
        keyed: whether the table has a key.

    Returns:
        The version's stream cut.

    Raises:
        ConfigurationError: there is a cut of that name.
        SegmentTruncatedError: events that the version needs are gone, or are being removed.
        VersionNotFoundError: there is no such version.
        InvalidStreamCutError: it is a cut that isn't one of the stream.
    """
    stream = ledger.stream
    while True:
        holders = ledger.holders().look()
        if name in holders.cuts:
            raise ConfigurationError(
                f'stream "{stream}" has a cut "{name}" already: drop it first, CALL drop_cut, or take another name'
            )
        if version is None:
            moment = Moment(offsets=take_snapshot(client, stream, ledger).cut, name="the end")
        else:
            moment = moment_of(client, stream, version)
        cut = proper_cut(client, stream, moment.offsets)
        try:
            _check_retained(client, ledger, holders, moment, keyed=keyed)
            ledger.holders().add_cut(holders, name, NamedCut(created_at=now_ms(), offsets=dict(cut)))
        except ConflictError:
            continue
        except SegmentTruncatedError:
            # What was the end a moment ago may be gone: another version has come.
            if version is None:
                continue
            raise
        return cut


def _check_retained(client: Client, ledger: Ledger, holders: Holders, moment: Moment, *, keyed: bool) -> None:
    """Refuse a moment whose events are gone, or are being removed.

    Raises:
        SegmentTruncatedError: they are.
    """
    stream, oldest = ledger.stream, holders.state.oldest_kept
    if keyed:
        era = era_at(client, stream, moment, eras(ledger))
        if era is not None and era.version < oldest:
            raise truncated(stream, moment.name) if moment.version is None else replaced(stream, moment.name, oldest)
        rows_at(client, stream, moment)
        return
    # What a cut needs it finds in the stream, whatever else is in the lake.
    snapshot_until(client, stream, replace(moment, version=None) if holders.state.has_lake else moment)
    begins = {} if holders.state.cleaning is None else holders.state.cleaning.begins
    if begins and not reaches(parts_until(client, stream, None, moment), begins):
        raise replaced(stream, moment.name, oldest)


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
    """Whether all that may be removed is; False when another commit came meanwhile, or another cut or subscriber."""
    holders = ledger.holders().look()
    cleaning = holders.state.cleaning
    if cleaning is None or not cleaning.begins or not cleaning.held:
        return True
    known = list(eras(ledger))
    oldest = min(1 if one_more else 0, len(known) - 1)
    for era in _needed(client, ledger, holders, known):
        before = [] if era is None else [i for i, one in enumerate(known) if one.version <= era.version]
        oldest = max(oldest, min(before, default=len(known)))
    if oldest and (oldest == len(known) or not known[oldest].begins):
        return True
    cut = StreamCut(ledger.stream, dict(known[oldest].begins or {}))
    if oldest and is_empty_before(client, ledger.stream, cut):
        return True
    # Commits of others that came meanwhile change nothing of this.
    state = ledger.state()
    if state.cleaning != cleaning:
        return False
    noted = replace(state, released=known[oldest].version, cleaning=replace(cleaning, held=oldest > 0))
    try:
        noted = ledger.holders().release(holders, state, noted)
    except ConflictError:
        return False
    if oldest:
        truncate_at(client, cut)
    else:
        clean(client, ledger, noted)
    return True


def _needed(client: Client, ledger: Ledger, holders: Holders, known: Sequence[Era]) -> Iterator[Era | None]:
    """The eras of which named cuts and subscribers need events; None for all that there are."""
    for name, cut in holders.cuts.items():
        moment = Moment(offsets=cut.offsets, name=f'cut "{name}"')
        era = era_at(client, ledger.stream, moment, known)
        try:
            if era is not None:
                events_of(client, ledger.stream, era, moment)
            elif all(one.reached is not None for one in known if one.version):
                # It is one of a table that this one has replaced.
                continue
        except SegmentTruncatedError:
            # It is gone already.
            continue
        yield era
    versions = holders.subscribers
    for subscriber in client.controller.subscribers(ledger.stream):
        # Of others, as of those who read the log of events, nobody can be asked how far they are.
        yield era_of(known, versions[subscriber]) if subscriber in versions else None
