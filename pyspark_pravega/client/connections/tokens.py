"""Delegation tokens: what segment stores want to see where authentication is on."""

from __future__ import annotations

import base64
import binascii
import json
import threading
import time

from pyspark_pravega.client.controller import Controller
from pyspark_pravega.client.names import Access, Stream

_RENEW_AT = 0.75
"""Of a token's life: then it is replaced, so that it doesn't expire on its way."""


class Tokens:
    """The tokens of one user, asked for when they are needed and again before they expire. Safe for several threads."""

    def __init__(self, controller: Controller, *, enabled: bool) -> None:
        """Remember where to ask.

        Args:
            controller: gives tokens.
            enabled: whether authentication is on; every token is empty otherwise, and nobody is asked.
        """
        self._controller, self._enabled = controller, enabled
        self._cache: dict[tuple[Stream, bool], tuple[str, float]] = {}
        self._lock = threading.Lock()

    def get(self, stream: Stream, *, write: bool = False) -> str:
        """A token.

        Args:
            stream: what it is for.
            write: for reading and writing, not for reading alone.

        Raises:
            AuthenticationError: the user may not do this.
        """
        if not self._enabled:
            return ""
        entry = self._cache.get((stream, write))
        if entry is not None and time.time() < entry[1]:
            return entry[0]
        # Also for key-value tables, under the name of their segments: the token that the controller gives with a
        # table's segments is for `scope/key-value-table:name`, which Pravega 0.13's segment store compares with
        # `scope/name_kvtable/...` and refuses.
        token = self._controller.delegation_token(stream, Access.READ_WRITE if write else Access.READ)
        with self._lock:
            self._cache[stream, write] = token, _renewal(token)
        return token

    def forget(self, stream: Stream) -> None:
        """Let go of a stream's tokens: a segment store didn't take them."""
        with self._lock:
            for write in (False, True):
                self._cache.pop((stream, write), None)


def _renewal(token: str) -> float:
    """When to ask for another token, in seconds since 1970: well before this one, a JWT, expires."""
    now = time.time()
    try:
        payload = token.split(".")[1]
        expires = float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return float("inf")
    return now + (expires - now) * _RENEW_AT
