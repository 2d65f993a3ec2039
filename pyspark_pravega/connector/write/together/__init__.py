"""Statements over several tables that become versions together: `transaction` prepares and commits them."""

from pyspark_pravega.connector.write.together.transaction import (
    Prepared,
    TableRead,
    check_unchanged,
    commit_together,
    forget_together,
    joined,
    prepare,
    withdraw_together,
)

__all__ = [
    "Prepared",
    "TableRead",
    "check_unchanged",
    "commit_together",
    "forget_together",
    "joined",
    "prepare",
    "withdraw_together",
]
