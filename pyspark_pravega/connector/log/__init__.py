"""The commit log of a table: which transactions are its versions, and which jobs still write.

`ledger` holds versions and queries, `jobs` what is being written, `keys` where each entry is, `json_table` how they are
kept; `recovery` ends commits of the dead, `tail` and `snapshot` look at a stream with and without commits in progress.
It uses the client only.
"""

from pyspark_pravega.connector.log.jobs import JobLog
from pyspark_pravega.connector.log.json_table import Content, JsonTable
from pyspark_pravega.connector.log.ledger import (
    Commit,
    Intent,
    Ledger,
    NamedCut,
    Progress,
    State,
    claim_ledger,
    create_ledger,
    delete_ledger,
    is_ledger_name,
    open_ledger,
)
from pyspark_pravega.connector.log.recovery import finish, settle, withdraw
from pyspark_pravega.connector.log.snapshot import consistently, take_snapshot
from pyspark_pravega.connector.log.tail import Snapshot

__all__ = [
    "Commit",
    "Content",
    "Intent",
    "JobLog",
    "JsonTable",
    "Ledger",
    "NamedCut",
    "Progress",
    "Snapshot",
    "State",
    "claim_ledger",
    "consistently",
    "create_ledger",
    "delete_ledger",
    "finish",
    "is_ledger_name",
    "open_ledger",
    "settle",
    "take_snapshot",
    "withdraw",
]
