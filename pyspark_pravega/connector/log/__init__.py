"""The commit log of a table: which transactions are its versions, and which jobs still write.

`ledger` holds versions and queries, `opening` makes it, `entries` what is said of each, `job_log` what is being
written, `entry_keys` where each entry is, `json_table` how they are kept, `history` for how long, and who needs old
events, `indexes` which blocks of events have figures, `analyzed` statistics of columns, `others` notes what others
have written, `copies` and `redeliveries` what those procedures have done. `decided` brings decided commits to their
end, also over several tables, `recovery` ends those of dead writers, `cleaning` removes what was replaced, `tail` and
`snapshot` look at a stream with and without commits in progress. `tiered` is what lies in the lake. It uses the client
only.
"""

from pyspark_pravega.connector.log.cleaning import clean, is_empty_before, truncate_at
from pyspark_pravega.connector.log.copies import Copy, CopyLog, Letters, Piece, Redelivery, RedeliveryLog
from pyspark_pravega.connector.log.decided import (
    DECISIONS_TABLE,
    Decision,
    Decisions,
    Member,
    Turn,
    Verdict,
    bring_forward,
    decision_of,
    make_decisions,
    open_decisions,
    roll_forward,
)
from pyspark_pravega.connector.log.entries import (
    Cleaning,
    Closing,
    Commit,
    Intent,
    NamedCut,
    Numbered,
    Progress,
    Replacement,
    State,
    Together,
)
from pyspark_pravega.connector.log.entry_keys import is_ledger_name
from pyspark_pravega.connector.log.history import HISTORY, History, Holders
from pyspark_pravega.connector.log.job_log import JobCommit, JobLog, Joined, OpenJob, known_endpoints
from pyspark_pravega.connector.log.json_table import Content, JsonTable
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.connector.log.opening import (
    claim_ledger,
    create_ledger,
    delete_ledger,
    delete_left_over_logs,
    open_ledger,
)
from pyspark_pravega.connector.log.others import VERSION_EVERY, Taken, note_others, take_version, version_every
from pyspark_pravega.connector.log.recovery import (
    GRACE_S,
    commit_state_unknown,
    finish,
    is_any_committed,
    is_committing,
    settle,
    settled_table,
    withdraw,
)
from pyspark_pravega.connector.log.sealing import close, seal
from pyspark_pravega.connector.log.snapshot import (
    check_in_stream,
    consistently,
    only_in_lake,
    take_snapshot,
    take_snapshots,
    visible_begin,
    visible_head,
)
from pyspark_pravega.connector.log.tail import (
    LakePart,
    Snapshot,
    behind,
    behind_base,
    comes_after,
    lies_behind,
    take_tail,
)
from pyspark_pravega.connector.log.tiered import Base, Tiered, base_of, offsets_of, tiered_content, tiered_of

__all__ = [
    "DECISIONS_TABLE",
    "GRACE_S",
    "HISTORY",
    "VERSION_EVERY",
    "Base",
    "Cleaning",
    "Closing",
    "Commit",
    "Content",
    "Copy",
    "CopyLog",
    "Decision",
    "Decisions",
    "History",
    "Holders",
    "Intent",
    "JobCommit",
    "JobLog",
    "Joined",
    "JsonTable",
    "LakePart",
    "Ledger",
    "Letters",
    "Member",
    "NamedCut",
    "Numbered",
    "OpenJob",
    "Piece",
    "Progress",
    "Redelivery",
    "RedeliveryLog",
    "Replacement",
    "Snapshot",
    "State",
    "Taken",
    "Tiered",
    "Together",
    "Turn",
    "Verdict",
    "base_of",
    "behind",
    "behind_base",
    "bring_forward",
    "check_in_stream",
    "claim_ledger",
    "clean",
    "close",
    "comes_after",
    "commit_state_unknown",
    "consistently",
    "create_ledger",
    "decision_of",
    "delete_ledger",
    "delete_left_over_logs",
    "finish",
    "is_any_committed",
    "is_committing",
    "is_empty_before",
    "is_ledger_name",
    "known_endpoints",
    "lies_behind",
    "make_decisions",
    "note_others",
    "offsets_of",
    "only_in_lake",
    "open_decisions",
    "open_ledger",
    "roll_forward",
    "seal",
    "settle",
    "settled_table",
    "take_snapshot",
    "take_snapshots",
    "take_tail",
    "take_version",
    "tiered_content",
    "tiered_of",
    "truncate_at",
    "version_every",
    "visible_begin",
    "visible_head",
    "withdraw",
]
