"""Pravega's controller over gRPC: scopes, streams, segments, transactions, key-value tables and reader groups.

Every call has a deadline. Status numbers are the server's (Pravega 0.13).
"""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pyspark_pravega.client.controller_rpc import ControllerRpc
from pyspark_pravega.client.controller_scaling import ControllerScaling
from pyspark_pravega.client.controller_scopes import ControllerScopes
from pyspark_pravega.client.controller_transactions import ControllerTransactions


class Controller(ControllerScopes, ControllerScaling, ControllerTransactions):
    """A connection to the controller. Safe for use by several threads; a context manager.

    Its calls are in `controller_scopes.py`, `controller_streams.py`, `controller_segments.py`, `controller_scaling.py`,
    `controller_transactions.py`, `controller_tables.py` and `controller_reader_groups.py`.
    """

    def __init__(self, uri: str, *, timeout: float = 10.0) -> None:
        """Connect lazily: the first call finds out whether the controller is there.

        Args:
            uri: `tcp://host:port`.
            timeout: deadline of each call, in seconds.
        """
        self.host = urlsplit(uri).hostname or "localhost"
        self._rpc = ControllerRpc(uri, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._rpc.close()
