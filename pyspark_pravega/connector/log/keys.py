"""The keys of a commit log's entries; `ledger.py` shows them all."""

from __future__ import annotations

import hashlib
import struct
import uuid

KEY_BYTES = 16
SHARED = (1 << 64) - 1
"""The number, among a job's entries, of the transaction that its tasks share."""
_COMMITS = 1
_JOBS, _QUERIES = 1 << 63, 1 << 62
"""What the first half of a job's keys and of a query's key has beside the hash or id."""


def _key(space: int, number: int) -> bytes:
    return struct.pack(">QQ", space, number)


STATE, PROPERTIES, CUTS, SCHEMAS = _key(0, 0), _key(0, 1), _key(0, 2), _key(0, 3)
COMMITS = struct.pack(">Q", _COMMITS)
"""What the keys of all versions begin with."""
FIRST_JOB = _key(_JOBS, 0)
"""From here on all keys are of jobs."""


def commit_key(version: int) -> bytes:
    """Where a version is."""
    return _key(_COMMITS, version)


def query_key(query: str) -> bytes:
    """Where a streaming query's progress is."""
    digest = int.from_bytes(hashlib.blake2b(query.encode(), digest_size=KEY_BYTES).digest())
    return _key(digest >> 64 & _QUERIES - 1 | _QUERIES, digest & (1 << 64) - 1)


def job_key(job: uuid.UUID, number: int) -> bytes:
    """Where something of a job is: 0 while it is open, 1 + partition for attempts, `SHARED`."""
    # The upper bit keeps jobs apart from the log's own spaces.
    return _key(job.int >> 64 | _JOBS, number)
