"""Who may do what in a sandbox: Pravega's file of accounts, which the schema registry reads, too."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark_pravega.errors import SandboxError

USERNAME = "admin"
"""Who may do everything, unless another name is given."""
EVERYTHING = "prn::*,READ_UPDATE"
SERVERS = "sandbox-servers"
"""The account with which the servers speak to each other."""
_ENTRY = re.compile(r"prn::[^,;\s]+,(READ|READ_UPDATE)")
_SALT_BYTES, _KEY_BYTES = 32, 64
# Each call costs the server these rounds, and a random password of 144 bits needs none. Who chooses a password for a
# sandbox gets Pravega's own number.
_ROUNDS, _ROUNDS_RANDOM = 5000, 1


def random_password() -> str:
    """A password that nobody guesses: 144 bits, safe in shells and URLs."""
    return secrets.token_urlsafe(18)


@dataclass(frozen=True)
class Account:
    """A user of a sandbox with authentication."""

    username: str
    """Without `:`."""
    acl: str = EVERYTHING
    """What the user may do: `resource,PERMISSION` with `;` between several, as Pravega's own file of accounts has
    them: `prn::/scope:shop,READ;prn::/scope:shop/*,READ_UPDATE`; the permissions are READ and READ_UPDATE."""
    password: str | None = field(default=None, repr=False)
    """A random one when None."""

    def __post_init__(self) -> None:
        if not self.username or not self.username.isprintable() or re.search(r"[:#\s]", self.username):
            raise SandboxError(f'"{self.username}" can\'t be a user\'s name: it must not be empty, nor hold ":" or "#"')
        for entry in filter(None, self.acl.split(";")):
            if not _ENTRY.fullmatch(entry):
                raise SandboxError(
                    f'the ACL of user "{self.username}" must be made of "prn::...,READ" and "prn::...,READ_UPDATE" '
                    f'with ";" between them, not "{entry}"'
                )
        if self.password == "" or (self.password is not None and "\0" in self.password):
            raise SandboxError(f'the password of user "{self.username}" must not be empty')


def passwords_of(accounts: Iterable[Account]) -> dict[str, str]:
    """Choose the passwords that weren't given.

    Args:
        accounts: the users.

    Returns:
        Username to password.

    Raises:
        SandboxError: two accounts have one name, or the servers' own.
    """
    passwords: dict[str, str] = {}
    for account in accounts:
        if account.username in passwords or account.username == SERVERS:
            raise SandboxError(f'there are two accounts of the name "{account.username}"')
        passwords[account.username] = account.password or random_password()
    return passwords


def lines(accounts: Iterable[Account], passwords: dict[str, str]) -> str:
    """The file of accounts: `user:hash:ACL`.

    Args:
        accounts: the users.
        passwords: username to password.

    Returns:
        Its text. The hash is PBKDF2 with HMAC-SHA-256, written as hexadecimal of `rounds:salt:key`, with salt and key
        in hexadecimal themselves (StrongPasswordProcessor of Pravega 0.13).
    """
    return "".join(
        f"{account.username}:{_hash(passwords[account.username], is_own=account.password is not None)}:{account.acl}\n"
        for account in accounts
    )


def _hash(password: str, *, is_own: bool) -> str:
    rounds = _ROUNDS if is_own else _ROUNDS_RANDOM
    salt = secrets.token_bytes(_SALT_BYTES)
    key = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds, _KEY_BYTES)
    return f"{rounds}:{salt.hex()}:{key.hex()}".encode().hex()
