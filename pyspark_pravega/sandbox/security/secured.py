"""Authentication and TLS of a sandbox: the files that its servers read, and how its clients get in.

The files hold secrets. They lie in a folder of their own, for this user only, and are removed with the sandbox's end.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark_pravega.sandbox.security import accounts
from pyspark_pravega.sandbox.security.accounts import SERVERS, Account
from pyspark_pravega.sandbox.security.certificates import Authority
from pyspark_pravega.security import PasswordCredentials

FOLDER = "private"
CA = "ca.pem"
HOSTS = ("localhost", "127.0.0.1", "::1")
"""What the certificates are made out to."""
# The standalone server has this one built in, for its connection to ZooKeeper; it protects nothing here, as the stores
# are this user's only, like the file that holds it.
_STORE_PASSWORD = "1111_aaaa"


@dataclass(frozen=True, kw_only=True)
class Authentication:
    """Users, and the account with which the servers speak to each other."""

    accounts_file: Path
    passwords: Mapping[str, str] = field(repr=False)
    """Username to password."""
    servers: PasswordCredentials
    signing_key: Path
    """A file that holds what delegation tokens are signed with."""
    token_ttl_s: int
    """How long a delegation token is valid, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Encryption:
    """Files of keys and certificates, all of one authority."""

    ca: Path
    """The authority's certificate, PEM."""
    certificate: Path
    """The servers' certificate and the authority's, PEM."""
    key: Path
    """Its private key, PEM."""
    key_store: Path
    """A key and certificate of the servers' for Java."""
    trust_store: Path
    """The authority's certificate for Java."""
    store_password: Path
    """A file that holds the stores' password."""


@dataclass(frozen=True, kw_only=True)
class Secured:
    """What is switched on."""

    authentication: Authentication | None
    encryption: Encryption | None


def folder_of(data_dir: Path) -> Path:
    """Where the files lie.

    Args:
        data_dir: the sandbox's folder.
    """
    return data_dir / FOLDER


def forget(data_dir: Path) -> None:
    """Remove the files.

    Args:
        data_dir: the sandbox's folder.
    """
    shutil.rmtree(folder_of(data_dir), ignore_errors=True)


def write_private(file: Path, content: str | bytes) -> Path:
    """Write a file that only this user may read, at no moment anybody else.

    Args:
        file: where; what is there is replaced.
        content: text or bytes.

    Returns:
        The file.
    """
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
    return file


def renewed(
    data_dir: Path,
    users: list[Account],
    passwords: dict[str, str],
    token_ttl_s: int,
    authority: Authority | None,
) -> Secured:
    """Write keys and passwords anew.

    Args:
        data_dir: the sandbox's folder.
        users: the accounts; none where nobody is asked who they are.
        passwords: username to password.
        token_ttl_s: how long a delegation token is valid, in seconds.
        authority: who signs certificates; None where it is spoken without TLS.
    """
    forget(data_dir)
    asking = encrypted = None
    if users or authority:
        place = folder_of(data_dir)
        place.mkdir(mode=0o700)
        asking = authentication(place, users, passwords, token_ttl_s) if users else None
        encrypted = encryption(place, authority) if authority else None
    return Secured(authentication=asking, encryption=encrypted)


def authentication(folder: Path, users: list[Account], passwords: dict[str, str], token_ttl_s: int) -> Authentication:
    """Write what authentication needs.

    Args:
        folder: where the files go.
        users: the accounts.
        passwords: username to password.
        token_ttl_s: how long a delegation token is valid, in seconds.
    """
    servers = Account(SERVERS)
    own = {SERVERS: accounts.random_password()}
    text = accounts.lines([*users, servers], {**passwords, **own})
    return Authentication(
        accounts_file=write_private(folder / "accounts", text),
        passwords=passwords,
        servers=PasswordCredentials(username=SERVERS, password=own[SERVERS]),
        signing_key=write_private(folder / "signing-key", secrets.token_hex(32)),
        token_ttl_s=token_ttl_s,
    )


def encryption(folder: Path, authority: Authority) -> Encryption:
    """Write what TLS needs.

    Args:
        folder: where the files go.
        authority: who signs the servers' certificates.
    """
    certificate = authority.issue(*HOSTS)
    return Encryption(
        ca=write_private(folder / CA, authority.certificate),
        certificate=write_private(folder / "certificate.pem", certificate.chain),
        key=write_private(folder / "key.pem", certificate.key),
        key_store=write_private(folder / "keystore.jks", authority.key_store(*HOSTS, password=_STORE_PASSWORD)),
        trust_store=write_private(folder / "truststore.jks", authority.trust_store(password=_STORE_PASSWORD)),
        store_password=write_private(folder / "store-password", _STORE_PASSWORD),
    )
