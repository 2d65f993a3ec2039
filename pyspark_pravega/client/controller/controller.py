"""Pravega's controller over gRPC: scopes, streams, segments, transactions, key-value tables and reader groups.

Every call has a deadline. Status numbers are the server's (Pravega 0.13).
"""

from __future__ import annotations

from typing import Self

from pyspark_pravega.client.controller.rpc import ControllerRpc
from pyspark_pravega.client.controller.scaling import ControllerScaling
from pyspark_pravega.client.controller.scopes import ControllerScopes
from pyspark_pravega.client.controller.transactions import ControllerTransactions
from pyspark_pravega.security import Credentials, Tls
from pyspark_pravega.settings import DEFAULT_TIMEOUT_S


class Controller(ControllerScopes, ControllerScaling, ControllerTransactions):
    """A connection to the controller. Safe for use by several threads; a context manager.

    Its calls are in `scopes.py`, `streams.py`, `segments.py`, `scaling.py`, `transactions.py`, `key_value_tables.py`
    and `reader_groups.py`, beside this file.
    """

    def __init__(
        self,
        uri: str,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        presumed: bool = False,
    ) -> None:
        """Connect lazily: the first call finds out whether the controller is there.

        Args:
            uri: `tcp://host:port` or `tls://host:port`; several controllers as `tcp://a:9090,b:9090`.
            timeout: how long a call is tried again where the caller sets no deadline, in seconds.
            credentials: who asks, if authentication is on.
            tls: which servers to believe, for `tls:`.
            presumed: whether the address is right for sure, because others have reached a controller there: it is then
                waited for from the beginning.
        """
        self._rpc = ControllerRpc(uri, timeout=timeout, credentials=credentials, tls=tls, presumed=presumed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def has_answered(self) -> bool:
        """Whether a controller has ever answered a call of this object's: if not, its address may be wrong."""
        return self._rpc.has_answered

    def close(self) -> None:
        """Close the connection."""
        self._rpc.close()
