"""Times of a stream that others write, where no version tells them: by Pravega's own watermarks."""

from __future__ import annotations

import datetime as dt

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.positions import Watermark, watermarks
from pyspark_pravega.errors import VersionNotFoundError


def mark_before(client: Client, stream: Stream, milliseconds: int) -> tuple[Watermark | None, bool]:
    """The last watermark before which all events are older than a time.

    Args:
        client: the cluster.
        stream: the stream.
        milliseconds: the time, since 1970.

    Returns:
        The watermark, None when the stream has none, as its writers note no time; and whether it stays the last one, as
        there is one behind the time.

    Raises:
        VersionNotFoundError: all watermarks that are kept are newer.
    """
    first = last = None
    is_behind = False
    for mark in watermarks(client.pool, stream):
        first = first or mark
        if mark.upper_ms >= milliseconds:
            is_behind = True
            break
        last = mark
    if first is not None and last is None:
        raise VersionNotFoundError(
            f'what stream "{stream}" held at {shown_time(milliseconds * 1000)} isn\'t known: it has no versions, and '
            f"its first watermark is of {shown_time(first.upper_ms * 1000)}; take a later time, or a stream cut"
        )
    return last, is_behind


def shown_time(microseconds: int) -> str:
    """A time as errors show it.

    Args:
        microseconds: since 1970; what no calendar has is shown as it is.
    """
    try:
        return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=microseconds)).isoformat(sep=" ") + " UTC"
    except OverflowError:
        return f"{microseconds // 1000} ms since 1970"
