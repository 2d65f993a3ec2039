"""Who asks, and whom to believe: credentials for Pravega and its schema registry, and trust in their certificates.

The secrets are kept out of every `repr` and message.
"""

from __future__ import annotations

import base64
import importlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from pyspark_pravega.errors import ConfigurationError, did_you_mean

_FILE_KEYS = frozenset({"username", "password", "auth-method", "auth-token"})


@runtime_checkable
class Credentials(Protocol):
    """What a plug-in offers: an object that knows what to say to a server now."""

    def authorization(self) -> str:
        """The value of the `Authorization` header: a method, a space, and its token.

        It is asked for before each call, from any thread, so that a token can be renewed in time: keep it quick, and
        fetch only when needed.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class PasswordCredentials:
    """A user and a password, as Pravega's own password handler takes them."""

    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if ":" in self.username:
            raise ConfigurationError(f'username "{self.username}" must not hold a ":"')

    def authorization(self) -> str:
        """`Basic` and both in base64."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True, kw_only=True)
class TokenCredentials:
    """A token of any method, handed on as it is."""

    token: str = field(repr=False)
    method: str = "Bearer"

    def authorization(self) -> str:
        """The method and the token."""
        return f"{self.method} {self.token}"


def from_values(values: Mapping[str, str], *, origin: str) -> Credentials | None:
    """Credentials from their parts.

    Args:
        values: any of `username`, `password`, `auth-method`, `auth-token`.
        origin: where they come from, for messages.

    Returns:
        The credentials, or None when there are none.

    Raises:
        ConfigurationError: a part is missing.
    """
    username, password, token = values.get("username"), values.get("password"), values.get("auth-token")
    if token is not None:
        return TokenCredentials(token=token, method=values.get("auth-method", "Bearer"))
    if "auth-method" in values:
        raise ConfigurationError(f"{origin}: auth-method is set, but auth-token is not (or PRAVEGA_AUTH_TOKEN)")
    if username is None and password is None:
        return None
    if username is None or password is None:
        present, missing = ("password", "username") if username is None else ("username", "password")
        variable = f"PRAVEGA_{missing.upper()}"
        raise ConfigurationError(f"{origin}: {present} is set, but {missing} is not: set {missing} or {variable}")
    return PasswordCredentials(username=username, password=password)


class FileCredentials:
    """Credentials in a file on this machine, read again when the file has changed."""

    def __init__(self, path: str) -> None:
        """Read the file.

        Args:
            path: a file with lines `key = value`; the keys are `username` and `password`, or `auth-method` and
                `auth-token`; lines that begin with `#` are passed over.

        Raises:
            ConfigurationError: the file can't be read, or doesn't hold credentials.
        """
        self.path = path
        self._file_state, self._read = self._state(), _read(path)

    def authorization(self) -> str:
        """What the file says now; what it said before, while it can't be read."""
        state = self._state()
        if state != self._file_state:
            try:
                self._read = _read(self.path)
                self._file_state = state
            except ConfigurationError:
                # Somebody is just writing it.
                pass
        return self._read.authorization()

    def _state(self) -> tuple[int, int] | None:
        try:
            status = Path(self.path).expanduser().stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size


def _read(path: str) -> Credentials:
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise ConfigurationError(f"credentials-file {path} can't be read on this machine: {reason}") from None
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, separator, value = line.partition("=")
        name = key.strip().lower().replace("_", "-")
        # The line itself isn't shown: it may be a secret.
        if not separator:
            raise ConfigurationError(f'credentials-file {path}: line {number} is not "key = value"')
        if name not in _FILE_KEYS:
            raise ConfigurationError(f'credentials-file {path}: line {number}: unknown key "{key.strip()}"'
                                     + did_you_mean(name, _FILE_KEYS))  # fmt: skip
        values[name] = value.strip()
    credentials = from_values(values, origin=f"credentials-file {path}")
    if credentials is None:
        raise ConfigurationError(f"credentials-file {path} holds no credentials: write username and password into it")
    return credentials


def from_provider(name: str) -> Credentials:
    """Credentials from a plug-in.

    Args:
        name: `module:callable`; the callable takes nothing and returns `Credentials`.

    Raises:
        ConfigurationError: there is no such plug-in, or it doesn't give credentials.
    """
    module, separator, attribute = name.partition(":")
    if not separator or not module or not attribute:
        raise ConfigurationError(f'credentials-provider must look like "module:callable", not "{name}"')
    try:
        credentials = getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        # What a plug-in says may hold a secret: its error's class has to do.
        raise ConfigurationError(f'credentials-provider "{name}" failed with {type(error).__name__}') from None
    if not isinstance(credentials, Credentials):
        raise ConfigurationError(f'credentials-provider "{name}" gave no object with an authorization() method')
    return credentials


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Which servers are believed."""

    ca: str | None = None
    """A PEM file with the certificates of the authorities to trust, on this machine; the system's when None."""
    validate_hostname: bool = True
    """Whether a server's certificate must bear the name that it was reached by."""

    def ssl_context(self) -> ssl.SSLContext:
        """A context for connections to these servers.

        Raises:
            ConfigurationError: the file can't be used.
        """
        try:
            context = ssl.create_default_context(cafile=self._ca_path())
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(_unusable(self.ca, error)) from None
        context.check_hostname = self.validate_hostname
        return context

    def root_certificates(self) -> bytes | None:
        """The trusted authorities' certificates as PEM; None means the system's.

        Raises:
            ConfigurationError: the file can't be used.
        """
        path = self._ca_path()
        if path is None:
            return None
        self.ssl_context()
        return Path(path).read_bytes()

    def _ca_path(self) -> str | None:
        return None if self.ca is None else str(Path(self.ca).expanduser())


def _unusable(ca: str | None, error: OSError) -> str:
    reason = "it holds no PEM certificates" if isinstance(error, ssl.SSLError) else error.strerror
    return f"tls-ca {ca} can't be used on this machine: {reason}"
