"""Removing what a replacement of all rows has left: until that is done readers leave it out by the log."""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.client.positions import parts_between
from pyspark_pravega.client.segments import segment_states
from pyspark_pravega.connector.log.entries import State
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.deadlines import Limit
from pyspark_pravega.errors import ConflictError, InvalidStreamCutError, PravegaError, UnclearAnswerError

_PATIENCE_S, _POLL_S = 5.0, 0.05
_log = logging.getLogger(__name__)


def clean(client: Client, ledger: Ledger, state: State) -> State:
    """Truncate the stream where the table's rows begin, if that is still to be done. Doing it twice is harmless.

    What a compaction has left isn't removed here. Where it can't be done now the next writer tries again: no read
    sees what lies before that cut.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        state: its state.

    Returns:
        Its new state.
    """
    cleaning = state.cleaning
    if cleaning is None or not cleaning.begins or cleaning.held:
        return state
    try:
        truncate_at(client, StreamCut(ledger.stream, cleaning.begins))
        return ledger.cleaned(state, replace(cleaning, begins={}))
    except ConflictError:
        return ledger.state()
    except PravegaError as error:
        _log.warning(
            'what version %d of stream "%s" has replaced could not be removed yet, the next writer will: %s',
            cleaning.version,
            ledger.stream,
            error,
        )
        return state


def truncate_at(client: Client, cut: StreamCut) -> None:
    """Truncate a stream, which other processes may do at the same time.

    Args:
        client: the cluster.
        cut: where.

    Raises:
        InvalidStreamCutError: it isn't a cut of the stream.
    """
    limit = Limit(_PATIENCE_S)
    while True:
        try:
            client.truncate(cut)
            return
        except (InvalidStreamCutError, UnclearAnswerError):
            if not limit.wait(_POLL_S):
                raise
            # Another process has done it, or is doing it: the head moves before the segments do. Who asks for the
            # same once more is told when it is done.
            if is_empty_before(client, cut.stream, cut):
                cut = client.controller.head(cut.stream)


def is_empty_before(client: Client, stream: Stream, cut: StreamCut) -> bool:
    """Whether nothing lies between a stream's head and a cut.

    Args:
        client: the cluster.
        stream: the stream.
        cut: the cut.
    """
    head = client.controller.head(stream)
    try:
        segment_ids = client.controller.segments_between(stream, head, cut)
        states = segment_states(client.pool, stream, segment_ids)
        return not any(part.size for part in parts_between(stream, states, head, cut).parts)
    except InvalidStreamCutError:
        # The head lies behind it.
        return True
