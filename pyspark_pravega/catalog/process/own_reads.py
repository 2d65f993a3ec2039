"""Which reads of a statement are of the very table that it writes to, by whatever name or address."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.options import STREAM
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import UnsupportedOperationError


def has_job(definition: TableDefinition, job: str) -> bool:
    """Whether a write is noted in a table's commit log: only in that of the table that it writes to.

    Args:
        definition: what the read stream is as a table.
        job: the write's id.
    """
    ledger = open_ledger(shared_client(definition.settings), definition.stream)
    return ledger is not None and ledger.job(uuid.UUID(job)).is_open()


def refuse_unknown(written: Stream, reads: Iterable[Mapping[str, str]]) -> None:
    """Refuse to replace or change rows that are read without the catalog.

    Such a read doesn't tell what it has seen. Whose cluster's stream it is isn't asked: its credentials are its own.

    Args:
        written: the stream that is written.
        reads: the options of each read by `format("pravega")`.

    Raises:
        UnsupportedOperationError: one of them reads a stream of this name.
    """
    for options in reads:
        given = {key.lower(): value.strip() for key, value in options.items()}
        scope = given.get("scope") or os.environ.get("PRAVEGA_SCOPE", "")
        for name in given.get(STREAM, "").split(","):
            named = name.strip()
            if str(written) == (named if "/" in named else f"{scope}/{named}"):
                raise UnsupportedOperationError(
                    f'stream "{written}" can\'t be replaced or changed by a statement that reads a stream of this name '
                    'by format("pravega"), which doesn\'t tell what it has read: read it as a table of a catalog, by '
                    "spark.table or FROM, or write the rows to another table first"
                )
