"""Commits that are decided, and come to their end.

`completing` makes that of one table a version. `decisions` has the records of transactions over several tables,
`forward` brings these to their end in all of them, and `turns` says who asks Pravega for that.
"""

from pyspark_pravega.connector.log.decided.completing import (
    COMMIT_TIMEOUT_S,
    COMMITTING_OR_DONE,
    POLL_S,
    TERMINAL,
    commit_all,
    completed,
    transaction_states,
)
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
from pyspark_pravega.connector.log.decided.forward import (
    bring_forward,
    commit_followers,
    roll_forward,
    withdraw_together,
)
from pyspark_pravega.connector.log.decided.turns import Turn, Turns

__all__ = [
    "COMMITTING_OR_DONE",
    "COMMIT_TIMEOUT_S",
    "DECISIONS_TABLE",
    "POLL_S",
    "TERMINAL",
    "Decision",
    "Decisions",
    "Member",
    "Turn",
    "Turns",
    "Verdict",
    "bring_forward",
    "commit_all",
    "commit_followers",
    "completed",
    "decision_of",
    "make_decisions",
    "open_decisions",
    "roll_forward",
    "transaction_states",
    "withdraw_together",
]
