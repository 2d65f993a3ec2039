"""Statistics of a table's columns in its commit log.

There are two entries, which change together. One has the id of the statistics, so whoever looks the table up learns
cheaply whether it knows them already. The other one has them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.connector.log.entry_keys import STATISTICS, STATISTICS_KEPT
from pyspark_pravega.connector.log.json_table import Content, Document, JsonTable
from pyspark_pravega.errors import ConflictError


def statistics_id(noted: Document | None) -> str | None:
    """The id of the statistics that a table has; None where it has none.

    Args:
        noted: the entry that says so.
    """
    return None if noted is None else noted.content["id"]


class StatisticsLog:
    """Statistics of columns in a commit log. Safe for use by several threads."""

    def __init__(self, table: JsonTable) -> None:
        """Use an opened log; see `Ledger.statistics`."""
        self._table = table

    def read(self) -> tuple[str, Content] | None:
        """The id of the statistics, and these; None where there are none."""
        content = self._table.content(STATISTICS_KEPT)
        return None if content is None else (content["id"], content["statistics"])

    def change(self, change: Callable[[Content | None], dict[str, Any]]) -> None:
        """Change the statistics, however many do so at once.

        Args:
            change: makes the new ones of those that are there, None for none; it may be called several times.
        """
        while True:
            noted, kept = self._table.get(STATISTICS, STATISTICS_KEPT)
            changed = change(None if kept is None else kept.content["statistics"])
            id = uuid.uuid4().hex
            stored_as = NOT_EXISTS if noted is None else noted.version
            try:
                # Where the first try was made after all, the second one is a conflict, and the next look goes on.
                self._table.put(
                    (STATISTICS, stored_as, {"id": id}),
                    (STATISTICS_KEPT, ANY_VERSION, {"id": id, "statistics": changed}),
                )
                return
            except ConflictError:
                continue
