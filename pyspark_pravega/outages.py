"""Servers that are waited for: whether they are worth it, and one line for each outage, which says until when."""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from pyspark_pravega.errors import UnavailableError

FIRST_CONTACT_S = 60.0
"""How long a server is waited for that has never answered: its address may be wrong, or a fail-over is under way, which
takes Pravega half a minute."""
_NEVER = "it has never answered this process: the address may be wrong"

Error = TypeVar("Error", bound=UnavailableError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Outage:
    """A server that doesn't answer, since it was first missed, and until when it is tried as the log says."""

    since: datetime
    until: datetime


_lock = threading.Lock()
_outages: dict[str, _Outage] = {}
"""By what doesn't answer, such as `segment store 10.0.0.1:12345`."""
_answered: dict[str, datetime] = {}
"""When the log has last said that something answers again."""
QUIET_S = timedelta(seconds=20)
"""How long it isn't said that it is missed again: a store that lacks a bookie comes and goes each second."""
_unnamed: list[datetime] = []
"""When something without a name was said last."""
_UNNAMED_S = timedelta(minutes=1)


class Contact:
    """Whether a server has ever answered at its address: this decides how long one that doesn't is waited for.

    One that has, or that others have reached, is waited for as long as the caller likes. An address that isn't known
    may be wrong: it is tried for `FIRST_CONTACT_S`, and that is said at once. Where nobody listens on this machine, or
    a name has no address, nothing is waited for.
    """

    def __init__(self, gone: str, hosts: Iterable[str] = (), *, known: bool = False) -> None:
        """Nobody has answered yet.

        Args:
            gone: how messages name the server.
            hosts: where users say that it is; none where another server says so.
            known: whether the address is right for sure, because others have reached it.
        """
        self.gone = gone
        self.known = known
        """Whether the address is right for sure."""
        hosts = list(hosts)
        self._is_here = bool(hosts) and all(map(_is_of_this_machine, hosts))

    def heard(self) -> None:
        """Note that it has answered."""
        self.known = True
        over(self.gone)

    def is_worth_waiting(self, *, refused: bool) -> bool:
        """Whether to try again.

        Args:
            refused: whether nobody listens there; else there is no answer.
        """
        return self.known or not (refused and self._is_here)

    def missed(self, error: Error, since: float) -> Error:
        """Let an error tell what is missed, and how long that is worth trying.

        Args:
            error: what an attempt has met.
            since: when it was first missed, by `time.monotonic`.

        Returns:
            The error.
        """
        error.gone, error.since = self.gone, since
        if not self.known:
            error.patience, error.reason = FIRST_CONTACT_S, error.reason or _NEVER
        return error


def _is_of_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def say(error: UnavailableError, *, seconds_left: float) -> None:
    """Log that something is waited for: once until it is there again or is given up, and anew by who tries it then.

    What comes and goes is logged each 20 s.

    Args:
        error: why it must be waited for.
        seconds_left: how long it will be tried.
    """
    now = datetime.now()
    since = now if error.since is None else now - timedelta(seconds=time.monotonic() - error.since)
    end = now + timedelta(seconds=seconds_left)
    until = end.strftime("%H:%M:%S")
    with _lock:
        if not error.gone:
            # Somebody answers, as a store that a segment has moved from does: nobody will say when that is over.
            if _unnamed and now < _unnamed[-1] + _UNNAMED_S:
                return
            _unnamed[:] = [now]
            _log.warning("%s; it is tried until %s (setting timeout), and Ctrl-C ends that", error, until)
            return
        if (said := _outages.get(error.gone)) is not None:
            if now < said.until:
                return
            since = said.since
        elif error.gone in _answered and now < _answered[error.gone] + QUIET_S:
            return
        _outages[error.gone] = _Outage(since=since, until=end)
    _log.warning(
        "%s doesn't answer since %s; it is tried until %s (setting timeout), and Ctrl-C ends that%s",
        error.gone, since.strftime("%H:%M:%S"), until, f" ({error.reason})" if error.reason else "",
    )  # fmt: skip


def given_up(gone: str) -> None:
    """Note that somebody doesn't wait any longer. Who still does says so anew.

    Args:
        gone: what doesn't answer, as errors name it.
    """
    with _lock:
        if (said := _outages.get(gone)) is not None:
            _outages[gone] = _Outage(since=said.since, until=datetime.now())


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
            _answered[gone] = datetime.now()
    if outage is not None:
        _log.warning("%s answers again, after %.0f s", gone, (datetime.now() - outage.since).total_seconds())


def clock(since: float) -> str:
    """When something was, as messages say it.

    Args:
        since: by `time.monotonic`.

    Returns:
        Such as `12:03:44, for 20 s`.
    """
    seconds = time.monotonic() - since
    return f"{(datetime.now() - timedelta(seconds=seconds)).strftime('%H:%M:%S')}, for {seconds:.0f} s"
