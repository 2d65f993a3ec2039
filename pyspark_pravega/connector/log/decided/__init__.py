"""What decides transactions over several tables: `decisions` has their records."""

from pyspark_pravega.connector.log.decided.decisions import (
    DECISIONS_TABLE,
    Decision,
    Decisions,
    Member,
    Verdict,
    decision_of,
    make_decisions,
    open_decisions,
)

__all__ = [
    "DECISIONS_TABLE",
    "Decision",
    "Decisions",
    "Member",
    "Verdict",
    "decision_of",
    "make_decisions",
    "open_decisions",
]
