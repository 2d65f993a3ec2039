"""Statements over several tables that become versions together: `transaction` prepares and commits them."""

from pyspark_pravega.connector.write.together.transaction import (
    Prepared,
    TableRead,
    commit_together,
    forget_together,
    prepare,
    withdraw_together,
)

__all__ = ["Prepared", "TableRead", "commit_together", "forget_together", "prepare", "withdraw_together"]
