"""Rows that the page shows: `cells` (values as texts), `searching` (a table at a moment, with a filter; what a version
has changed), `letters` (dead ones, counted), `differences` (of schemas). It uses what the catalog knows of wanted keys,
the connector and below.
"""

from pyspark_pravega.live.rows.cells import MOST_ROWS, Cells, definition_of, shown_rows
from pyspark_pravega.live.rows.differences import difference
from pyspark_pravega.live.rows.letters import COLUMNS, LetterCounts, WaitingLetters
from pyspark_pravega.live.rows.searching import Wanted, changes, search

__all__ = [
    "COLUMNS",
    "MOST_ROWS",
    "Cells",
    "LetterCounts",
    "WaitingLetters",
    "Wanted",
    "changes",
    "definition_of",
    "difference",
    "search",
    "shown_rows",
]
