"""A sandbox with authentication and TLS: `accounts`, `certificates`, and both settled together (`secured`).

It uses `security`, settings and errors.
"""

from pyspark_pravega.sandbox.security.accounts import USERNAME, Account, passwords_of
from pyspark_pravega.sandbox.security.certificates import Authority
from pyspark_pravega.sandbox.security.secured import Authentication, Encryption, Secured, folder_of, write_private

__all__ = [
    "USERNAME",
    "Account",
    "Authentication",
    "Authority",
    "Encryption",
    "Secured",
    "folder_of",
    "passwords_of",
    "write_private",
]
