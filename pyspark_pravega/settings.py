"""Where Pravega and its schema registry are, and who asks: resolved here, and only here, for every entry point.

From the strongest to the weakest: an explicit option of a read or write (or a program argument), the catalog's
configuration (`spark.sql.catalog.<name>.*`), the session's (`spark.pravega.*`), the environment (`PRAVEGA_*`),
the running sandbox where none of these names a controller, a default.

An option may be part of a statement that somebody else has stored, as in a view. So options neither send the
configuration's credentials to another address, nor say what is trusted, called or opened (`Settings.for_statement`).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import urlsplit

from pyspark_pravega import security
from pyspark_pravega.declared import Declared
from pyspark_pravega.errors import ConfigurationError, did_you_mean
from pyspark_pravega.security import Credentials, Tls
from pyspark_pravega.values import flag, seconds, size

DEFAULT_CONTROLLER_URI = "tcp://localhost:9090"
DEFAULT_TIMEOUT_S = 180.0
"""Longer than Pravega takes to move a dead segment store's segments: 20 to 30 s, and again when it comes back."""
MAX_TIMEOUT_S = 3600.0
GLANCE_S = 10.0
"""How long who only looks waits for a server that is gone."""
DEFAULT_SHARED_MEMORY, LEAST_SHARED_MEMORY, MOST_SHARED_MEMORY = 16 << 20, 1 << 20, 1 << 30
SESSION_PREFIX = "spark.pravega."
SHARED_MEMORY_VARIABLE = "PRAVEGA_SHARED_MEMORY"


@dataclass(frozen=True, kw_only=True)
class Setting(Declared):
    """A connection setting."""

    environment: str
    """The variable that gives it, too."""


SETTINGS = (
    Setting(
        name="controller-uri",
        environment="PRAVEGA_CONTROLLER_URI",
        value="`tcp://host:port` or `tls://...`, or several",
        unset=f"the running sandbox's, else `{DEFAULT_CONTROLLER_URI}`",
        about="where the controller is",
    ),
    Setting(
        name="schema-registry-uri",
        environment="PRAVEGA_SCHEMA_REGISTRY_URI",
        value="`http://` or `https://host:port`",
        unset="none",
        about="where the schema registry is",
    ),
    Setting(
        name="scope",
        environment="PRAVEGA_SCOPE",
        value="a scope",
        unset="none",
        about="the scope of streams that are named without one",
    ),
    Setting(
        name="timeout",
        environment="PRAVEGA_TIMEOUT",
        value="seconds, or a time: `90s`",
        unset=f"{DEFAULT_TIMEOUT_S:g}",
        about="how long a server that is gone is waited for",
    ),
    Setting(name="username", environment="PRAVEGA_USERNAME", value="a name", unset="none", about="who asks"),
    Setting(name="password", environment="PRAVEGA_PASSWORD", value="a text", unset="none", about="the user's password"),
    Setting(
        name="auth-method",
        environment="PRAVEGA_AUTH_METHOD",
        value="a word",
        unset="`Bearer`",
        about="the token's method",
    ),
    Setting(
        name="auth-token", environment="PRAVEGA_AUTH_TOKEN", value="a token", unset="none", about="is sent as it is"
    ),
    Setting(
        name="credentials-file",
        environment="PRAVEGA_CREDENTIALS_FILE",
        value="a file",
        unset="none",
        about="holds credentials",
    ),
    Setting(
        name="credentials-provider",
        environment="PRAVEGA_CREDENTIALS_PROVIDER",
        value="`module:callable`",
        unset="none",
        about="a plug-in that gives credentials",
    ),
    Setting(
        name="tls-ca",
        environment="PRAVEGA_TLS_CA",
        value="a PEM file",
        unset="the system's",
        about="the authorities to trust",
    ),
    Setting(
        name="validate-hostname",
        environment="PRAVEGA_VALIDATE_HOSTNAME",
        value="`true`, `false`",
        unset="`true`",
        about="whether a certificate must bear the server's name",
    ),
    Setting(
        name="shared-memory",
        environment=SHARED_MEMORY_VARIABLE,
        value="a size; `0` for none",
        unset="`16m`",
        about="what a reading task shares with its Python worker",
    ),
    Setting(
        name="format-classes",
        environment="PRAVEGA_FORMAT_CLASSES",
        value="`package.module:*`, ...",
        unset="none",
        about="classes that tables may name as their format",
    ),
)
"""All of them."""
_ENVIRONMENT = {setting.name: setting.environment for setting in SETTINGS}
_JAVA_ENVIRONMENT = {"auth-method": "pravega_client_auth_method", "auth-token": "pravega_client_auth_token"}
"""What Pravega's Java and Rust clients read; weaker than our own variables."""
_ALIASES = {"controller": "controller-uri", "schema-registry": "schema-registry-uri"}
KEYS = frozenset(_ENVIRONMENT)
"""The names of the connection settings, as options and catalog configuration spell them."""
SECRET_KEYS = frozenset({"password", "auth-token"})
"""Those of them that must not be shown, nor put on a command line."""
CONFIGURED_KEYS = frozenset(
    {"credentials-file", "credentials-provider", "tls-ca", "validate-hostname", "format-classes"}
)
"""Those of them that options can't say: whom to trust, what is opened and what is called."""
_ADDRESSES = ("controller-uri", "schema-registry-uri")
_RUN_TOGETHER = {key.replace("-", ""): key for key in KEYS}
_CREDENTIALS = (
    frozenset({"username", "password"}),
    frozenset({"auth-method", "auth-token"}),
    frozenset({"credentials-file"}),
    frozenset({"credentials-provider"}),
)
"""The ways to give credentials, of which a stronger place's replaces a weaker place's."""
CREDENTIAL_KEYS = frozenset[str]().union(*_CREDENTIALS)
"""The settings that say who asks."""
_SCHEMES = {"tcp": "tcp", "pravega": "tcp", "tls": "tls", "ssl": "tls", "pravegas": "tls"}


def canonical_key(key: str) -> str:
    """The one spelling of a setting's key: `controller_uri`, `controllerUri` and `controller` are `controller-uri`.

    Args:
        key: a key as a user wrote it, without prefix.

    Returns:
        The key in lower case with dashes.
    """
    dashed = re.sub(r"[._]", "-", key.strip().lower())
    return _ALIASES.get(dashed) or _RUN_TOGETHER.get(dashed, dashed)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Resolved connection settings."""

    controller_uri: str
    """`tcp://host:port` or `tls://host:port`; several controllers as `tcp://a:9090,b:9090`."""
    schema_registry_uri: str | None = None
    """`http://host:port` or `https://host:port`, or None: then streams are tables of raw events only."""
    scope: str | None = None
    """The scope of streams that are named without one."""
    timeout: float = DEFAULT_TIMEOUT_S
    """How long a call goes on where a server is gone, in seconds: it is tried again and again meanwhile."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    auth_method: str | None = None
    """The method of `auth_token`; `Bearer` when None."""
    auth_token: str | None = field(default=None, repr=False)
    credentials_file: str | None = None
    """A file with credentials, on every machine that connects."""
    credentials_provider: str | None = None
    """`module:callable` of a plug-in that gives credentials."""
    tls_ca: str | None = None
    """A PEM file with the authorities to trust, on every machine that connects; the system's when None."""
    validate_hostname: bool = True
    """Whether a server's certificate must bear the name that it was reached by."""
    shared_memory: int = DEFAULT_SHARED_MEMORY
    """How many bytes a Spark task that reads shares with its Python worker at most; 0 for none."""
    format_classes: str | None = None
    """Which classes may be imported as tables' formats: patterns such as `package.module:*`, with commas between."""
    lake: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """How files of a lake are reached, as its catalog's configuration says; it may hold credentials."""

    @property
    def controllers(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each controller."""
        return controller_addresses(self.controller_uri)

    @property
    def uses_tls(self) -> bool:
        """Whether Pravega is spoken to over TLS."""
        return self.controller_uri.startswith("tls:")

    @property
    def tls(self) -> Tls:
        """Which servers are believed, where TLS is used."""
        return Tls(ca=self.tls_ca, validate_hostname=self.validate_hostname)

    @property
    def at_a_glance(self) -> Settings:
        """These settings for who only looks at how things are: that a server is gone is what it wants to see, soon."""
        return replace(self, timeout=min(self.timeout, GLANCE_S))

    def allows_format(self, name: str) -> bool:
        """Whether a class may be imported because a table names it as its format.

        Args:
            name: `package.module:Class`.
        """
        return any(fnmatchcase(name, pattern.strip()) for pattern in (self.format_classes or "").split(","))

    def credentials(self) -> Credentials | None:
        """Who asks.

        Returns:
            The credentials, or None for a cluster without authentication.

        Raises:
            ConfigurationError: they are incomplete, or their file or plug-in can't be used on this machine.
        """
        if self.credentials_provider:
            return security.from_provider(self.credentials_provider)
        if self.credentials_file:
            return security.FileCredentials(self.credentials_file)
        values = {
            "username": self.username,
            "password": self.password,
            "auth-method": self.auth_method,
            "auth-token": self.auth_token,
        }
        return security.from_values({k: v for k, v in values.items() if v is not None}, origin="the configuration")

    @classmethod
    def resolve(
        cls,
        options: Mapping[str, str] | None = None,
        *,
        catalog: Mapping[str, str] | None = None,
        session: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        otherwise: Callable[[], Mapping[str, str]] | None = None,
    ) -> Settings:
        """Settle the connection from every place where a user may have put it.

        Args:
            options: explicit options or program arguments; keys that aren't connection settings are passed over.
            catalog: the catalog's configuration, keys without `spark.sql.catalog.<name>.`; likewise.
            session: the session's configuration; keys begin with `spark.pravega.`, others are passed over.
            environ: the environment; `os.environ` when None.
            otherwise: asked where no place names a controller; gives variables as of the environment, or none.

        Returns:
            The settings.

        Raises:
            ConfigurationError: a value is malformed, credentials are incomplete or given in two ways at one place, or
                a `spark.pravega.` key is unknown.
        """
        environ = os.environ if environ is None else environ
        from_session = {}
        for key, value in (session or {}).items():
            if key.startswith(SESSION_PREFIX):
                name = canonical_key(key.removeprefix(SESSION_PREFIX))
                if name not in KEYS:
                    raise ConfigurationError(f'unknown configuration "{key}"{did_you_mean(name, KEYS)}')
                from_session[name] = value
        environments = [_from_environment(environ, names) for names in (_ENVIRONMENT, _JAVA_ENVIRONMENT)]
        layers = [_canonical(options), _canonical(catalog), from_session, *environments]
        if otherwise is not None and not any(layer.get("controller-uri", "").strip() for layer in layers):
            layers.append(_from_environment(otherwise(), _ENVIRONMENT))
        values = _strongest(layers)
        registry = values.get("schema-registry-uri")
        settings = cls(
            controller_uri=_controller_uri(values.get("controller-uri", DEFAULT_CONTROLLER_URI)),
            schema_registry_uri=_registry_uri(registry) if registry else None,
            scope=values.get("scope"),
            timeout=seconds("timeout", values["timeout"], most=MAX_TIMEOUT_S)
            if values.get("timeout") is not None
            else DEFAULT_TIMEOUT_S,
            username=values.get("username"),
            password=values.get("password"),
            auth_method=values.get("auth-method"),
            auth_token=values.get("auth-token"),
            credentials_file=values.get("credentials-file"),
            credentials_provider=values.get("credentials-provider"),
            tls_ca=values.get("tls-ca"),
            validate_hostname=flag("validate-hostname", values.get("validate-hostname", "true")),
            shared_memory=_shared_memory(values.get("shared-memory")),
            format_classes=values.get("format-classes"),
        )
        if not (settings.credentials_file or settings.credentials_provider):
            settings.credentials()
        return settings

    def for_statement(self, options: Mapping[str, str]) -> Settings:
        """These settings with the options of a statement, or of a read or write: they are the configuration's.

        Args:
            options: keys that aren't connection settings are passed over.

        Returns:
            The settings.

        Raises:
            ConfigurationError: a value is malformed; the options say what only a configuration can; or they name
                another address, which would get the configuration's credentials.
        """
        given = {key: value.strip() for key, value in _canonical(options).items() if value.strip()}
        if not given:
            return self
        configured = self.to_options() | {"validate-hostname": str(self.validate_hostname).lower()}
        for key in sorted(given.keys() & CONFIGURED_KEYS):
            if given[key] != configured.get(key):
                raise ConfigurationError(
                    f'"{key}" can\'t be an option of a statement, a read or a write, which somebody else may have '
                    f"stored: set it in the catalog's configuration (spark.sql.catalog.NAME.{key}), or "
                    f"{_ENVIRONMENT[key]} where Spark's driver runs"
                )
        settings = replace(Settings.resolve(given, catalog=configured, environ={}), lake=self.lake)
        if settings.has_credentials and not ({"username", "password"} <= given.keys() or "auth-token" in given):
            for key in _ADDRESSES:
                if key in given and not _addresses(settings, key) <= _addresses(self, key):
                    raise ConfigurationError(
                        f'option "{key}" ({given[key]}) isn\'t the address that the configuration has its credentials '
                        "for, and they are sent nowhere else: give username and password, or auth-token, as options "
                        f"beside it, or set the address where the credentials are set (such as {_ENVIRONMENT[key]})"
                    )
        return settings

    @property
    def has_credentials(self) -> bool:
        """Whether any are given."""
        ways = (self.username, self.password, self.auth_token, self.credentials_file, self.credentials_provider)
        return any(way is not None for way in ways)

    def to_options(self, *, secrets: bool = True) -> dict[str, str]:
        """The settings as options, from which `resolve` makes the same settings again on another machine.

        Args:
            secrets: with password and token; without them the options may be shown.

        Returns:
            Option key to value; absent settings are left out.
        """
        values = {key: getattr(self, key.replace("-", "_")) for key in _ENVIRONMENT}
        values["timeout"] = repr(self.timeout)
        values["shared-memory"] = str(self.shared_memory)
        # Said aloud wherever it matters, so that a weaker place can't switch it off.
        matters = self.uses_tls or (self.schema_registry_uri or "").startswith("https:") or not self.validate_hostname
        values["validate-hostname"] = str(self.validate_hostname).lower() if matters else None
        return {
            key: value for key, value in values.items() if value is not None and (secrets or key not in SECRET_KEYS)
        }

    def to_environment(self) -> dict[str, str]:
        """The settings, with their secrets, as the environment variables that `resolve` reads.

        Returns:
            Variable to value; absent settings are left out.
        """
        return {_ENVIRONMENT[key]: value for key, value in self.to_options().items()}


def controller_addresses(uri: str) -> tuple[tuple[str, int], ...]:
    """The addresses in a controller's URI.

    Args:
        uri: `tcp://host:port` or `tls://host:port`, with more `,host:port` behind it for several controllers.

    Returns:
        Host and port of each.
    """
    parts = [urlsplit(f"//{address}") for address in uri.partition("://")[2].split(",")]
    return tuple((part.hostname or "", part.port or 0) for part in parts)


def name_one_cluster(first: str, second: str) -> bool:
    """Whether controllers' URIs name one cluster: as texts, or by an address that both have, as a name or a number.

    Args:
        first: as `controller_addresses` takes it.
        second: the same.
    """
    return first == second or not _reached(first).isdisjoint(_reached(second))


@lru_cache(maxsize=256)
def _reached(uri: str) -> frozenset[tuple[str, int]]:
    """The addresses in a controller's URI, and those that their names stand for at this time."""
    named = controller_addresses(uri)
    reached = set(named)
    for host, port in named:
        with suppress(OSError):
            reached |= {(str(info[4][0]), port) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    return frozenset(reached)


def _addresses(settings: Settings, key: str) -> set[str]:
    scheme, _, rest = (getattr(settings, key.replace("-", "_")) or "").partition("://")
    return {f"{scheme}://{address}".lower() for address in rest.split(",")}


def _canonical(layer: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for key, value in (layer or {}).items() if (name := canonical_key(key)) in KEYS}


def _from_environment(environ: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    return {key: environ[variable] for key, variable in variables.items() if variable in environ}


def _strongest(layers: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The value of each key in the first layer that has it; one way of credentials replaces the others below it."""
    values: dict[str, str] = {}
    for layer in reversed(layers):
        layer_values = {key: value.strip() for key, value in layer.items() if value.strip()}
        way = _way_of_credentials(layer_values)
        weaker = [key for other in _CREDENTIALS if way and other is not way for key in other]
        values = {key: value for key, value in values.items() if key not in weaker} | layer_values
    return values


def _shared_memory(text: str | None) -> int:
    if text is None:
        return DEFAULT_SHARED_MEMORY
    if text.strip() == "0":
        return 0
    value = size("shared-memory", text)
    if not LEAST_SHARED_MEMORY <= value <= MOST_SHARED_MEMORY:
        raise ConfigurationError(f'"shared-memory" must be 0, or between 1m and 1g, not "{text[:60]}"')
    return value


def _way_of_credentials(values: Mapping[str, str]) -> frozenset[str] | None:
    ways = [way for way in _CREDENTIALS if way & values.keys()]
    if len(ways) > 1:
        both = " and ".join(sorted(way & values.keys())[0] for way in ways[:2])
        raise ConfigurationError(f"{both} are set at one place: give credentials in one way")
    return ways[0] if ways else None


def _controller_uri(text: str) -> str:
    example = "tcp://localhost:9090"
    schemes: set[str] = set()
    addresses = []
    for address in text.split(","):
        uri = address.strip() if "://" in address else f"{next(iter(schemes), 'tcp')}://{address.strip()}"
        _check_uri("controller-uri", uri, tuple(_SCHEMES), example)
        scheme, _, rest = uri.partition("://")
        schemes.add(_SCHEMES[scheme.lower()])
        addresses.append(rest.rstrip("/"))
    if len(schemes) > 1:
        raise ConfigurationError(f'controller-uri mixes addresses with and without TLS; it must look like "{example}"')
    return f"{schemes.pop()}://{','.join(addresses)}"


def _registry_uri(text: str) -> str:
    _check_uri("schema-registry-uri", text, ("http", "https"), "http://localhost:9092")
    return text.rstrip("/")


def _check_uri(key: str, uri: str, schemes: tuple[str, ...], example: str) -> None:
    try:
        parts = urlsplit(uri)
        valid = parts.scheme in schemes and bool(parts.hostname) and parts.port is not None
    except ValueError:
        valid = False
    if not valid or parts.username is not None or parts.password is not None:
        raise ConfigurationError(f'{key} must look like "{example}" (scheme, host and port; no credentials in it)')
