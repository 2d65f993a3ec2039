"""Where a commit log is: the name of its key-value table, and the keys of its entries, which `ledger.py` shows."""

from __future__ import annotations

import hashlib
import struct
import uuid

from pyspark_pravega.client import Stream
from pyspark_pravega.client.names import MAX_TABLE_NAME_LENGTH

KEY_BYTES = 16
_SUFFIX = ".ledger"
SHARED = (1 << 64) - 1
"""The number, among a job's entries, of the transaction that its tasks share."""
COMMITTED = SHARED - 1
"""The number, among a job's entries, of what tells that it was committed."""
FIGURES = COMMITTED - 1
"""The number, among a job's entries, of the figures of what its tasks have written."""
_COMMITS, _INDEXES, _READ_INDEXES = 1, 2, 3
_JOBS, _QUERIES, _COPIES, _REDELIVERIES = 1 << 63, 1 << 62, 1 << 61, 1 << 60
"""What the first half of the keys of jobs, queries, copies and redeliveries has beside the hash or id."""


def ledger_name(stream: Stream) -> str:
    """The name of the key-value table beside a stream.

    Args:
        stream: the stream.

    Returns:
        The stream's name with a suffix, shortened by a hash where that would be too long.
    """
    name = stream.name + _SUFFIX
    if len(name) <= MAX_TABLE_NAME_LENGTH:
        return name
    digest = hashlib.blake2b(stream.name.encode(), digest_size=16).hexdigest()
    return f"{stream.name[: MAX_TABLE_NAME_LENGTH - len(_SUFFIX) - len(digest) - 1]}.{digest}{_SUFFIX}"


def is_ledger_name(table: str) -> bool:
    """Whether a key-value table of this name is a stream's commit log."""
    return table.endswith(_SUFFIX)


def _key(space: int, number: int) -> bytes:
    return struct.pack(">QQ", space, number)


STATE, PROPERTIES, CUTS, SCHEMAS, SUBSCRIBERS, ABANDONED, READ_INDEXES = (_key(0, number) for number in range(7))
STATISTICS, STATISTICS_KEPT = _key(0, 7), _key(0, 8)
COMMITS = struct.pack(">Q", _COMMITS)
"""What the keys of all versions begin with."""
FIRST_COPY, FIRST_QUERY, FIRST_JOB = _key(_COPIES, 0), _key(_QUERIES, 0), _key(_JOBS, 0)
"""From the first to the second all keys are of copies, to the third of queries, and behind that of jobs."""


def commit_key(version: int) -> bytes:
    """Where a version is."""
    return _key(_COMMITS, version)


def index_key(version: int) -> bytes:
    """Where the figures of a version's rows are."""
    return _key(_INDEXES, version)


def read_index_key(number: int) -> bytes:
    """Where figures of events are that `CALL index` has read."""
    return _key(_READ_INDEXES, number)


def query_key(query: str) -> bytes:
    """Where a streaming query's progress is."""
    return _hashed(query, _QUERIES)


def copy_key(name: str) -> bytes:
    """Where it stands what a copy has done."""
    return _hashed(name, _COPIES)


def redelivery_key(query: str) -> bytes:
    """Where it stands which dead letters are being brought in."""
    return _hashed(query, _REDELIVERIES)


def job_key(job: uuid.UUID, number: int) -> bytes:
    """Where something of a job is: 0 while it is open, 1 + partition for attempts, and the numbers above."""
    # The upper bit keeps jobs apart from the log's own spaces.
    return _key(job.int >> 64 | _JOBS, number)


def _hashed(text: str, space: int) -> bytes:
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest())
    return _key(digest >> 64 & space - 1 | space, digest & (1 << 64) - 1)
