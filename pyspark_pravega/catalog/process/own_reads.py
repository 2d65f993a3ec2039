"""Which reads of a statement are of the very table that it writes to, by whatever name or address."""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod

from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.connector.key_value import KeyValueDefinition
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.options import STREAM
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import UnsupportedOperationError


class OwnReads(ABC):
    """Those methods of the catalog process that are about them; see `protocol.Methods`."""

    @abstractmethod
    def relation(
        self, namespace: list[str], table: str, options: dict[str, str]
    ) -> TableDefinition | KeyValueDefinition:
        """A table as the statement's analysis has found it, with the options of a read or a write."""

    def has_job(self, namespace: list[str], table: str, options: dict[str, str], job: str) -> bool:
        """Only the commit log of the table that a write writes to knows its job."""
        read = self.relation(namespace, table, options)
        if isinstance(read, KeyValueDefinition):
            return False
        ledger = open_ledger(shared_client(read.settings), read.stream)
        return ledger is not None and ledger.job(uuid.UUID(job)).is_open()

    def refuse_unknown(self, namespace: list[str], table: str, reads: list[dict[str, str]]) -> None:
        """A read without the catalog doesn't tell what it has seen. Whose cluster's stream it is isn't asked: its
        credentials are its own."""
        written = str(stream_of(namespace, table))
        for options in reads:
            given = {key.lower(): value.strip() for key, value in options.items()}
            scope = given.get("scope") or os.environ.get("PRAVEGA_SCOPE", "")
            named = [name.strip() for name in given.get(STREAM, "").split(",")]
            if written in [name if "/" in name else f"{scope}/{name}" for name in named]:
                raise UnsupportedOperationError(
                    f'stream "{written}" can\'t be replaced or changed by a statement that reads a stream of this name '
                    'by format("pravega"), which doesn\'t tell what it has read: read it as a table of a catalog, by '
                    "spark.table or FROM, or write the rows to another table first"
                )
