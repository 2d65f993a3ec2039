"""Servers that are waited for: what isn't there, since when, and until when it is tried. One line for each outage."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark_pravega.errors import UnavailableError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A server that is waited for at this time."""

    gone: str
    """What doesn't answer, such as `segment store 10.0.0.1:12345`."""
    since: datetime
    """When it was first missed, by this machine's clock."""
    reason: str
    """The error of the last attempt."""


_lock = threading.Lock()
_outages: dict[str, Outage] = {}
_unnamed: list[datetime] = []
"""When something without a name was said last."""
_UNNAMED_S = timedelta(minutes=1)


def say(error: UnavailableError, *, seconds_left: float) -> None:
    """Log that something is waited for, once until it is there again.

    Args:
        error: why it must be waited for.
        seconds_left: how long it will be tried.
    """
    now = datetime.now()
    since = now if error.since is None else now - timedelta(seconds=time.monotonic() - error.since)
    until = (now + timedelta(seconds=seconds_left)).strftime("%H:%M:%S")
    with _lock:
        if not error.gone:
            # Somebody answers, as a store that a segment has moved from does: nobody will say when that is over.
            if _unnamed and now < _unnamed[-1] + _UNNAMED_S:
                return
            _unnamed[:] = [now]
            _log.warning("%s; it is tried until %s (setting timeout), and Ctrl-C ends that", error, until)
            return
        if error.gone in _outages:
            return
        _outages[error.gone] = Outage(gone=error.gone, since=since, reason=error.reason or str(error))
    _log.warning(
        "%s doesn't answer since %s; it is tried until %s (setting timeout), and Ctrl-C ends that%s",
        error.gone, since.strftime("%H:%M:%S"), until, f" ({error.reason})" if error.reason else "",
    )  # fmt: skip


def over(gone: str) -> None:
    """Note that something answers, and log it where its absence was logged.

    Args:
        gone: what it is, as errors name it.
    """
    if not _outages:
        return
    with _lock:
        outage = _outages.pop(gone, None)
    if outage is not None:
        _log.warning("%s answers again, after %.0f s", gone, (datetime.now() - outage.since).total_seconds())


def current() -> list[Outage]:
    """What this process waits for at this time, or had to give up; the oldest first."""
    with _lock:
        return sorted(_outages.values(), key=lambda outage: outage.since)


def clock(since: float) -> str:
    """When something was, as messages say it.

    Args:
        since: by `time.monotonic`.

    Returns:
        Such as `12:03:44, for 20 s`.
    """
    seconds = time.monotonic() - since
    return f"{(datetime.now() - timedelta(seconds=seconds)).strftime('%H:%M:%S')}, for {seconds:.0f} s"
