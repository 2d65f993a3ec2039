"""What decides transactions over several tables: `decisions` has their records."""

from pyspark_pravega.connector.log.decided.decisions import (
    Decision,
    Decisions,
    Member,
    Verdict,
    decision_of,
    make_decisions,
    open_decisions,
)

__all__ = ["Decision", "Decisions", "Member", "Verdict", "decision_of", "make_decisions", "open_decisions"]
