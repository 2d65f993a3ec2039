"""Where Pravega and its schema registry are: resolved here, and only here, for every entry point.

From the strongest to the weakest: an explicit option of a read or write (or a program argument), the catalog's
configuration (`spark.sql.catalog.<name>.*`), the session's (`spark.pravega.*`), the environment (`PRAVEGA_*`),
a default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pyspark_pravega.errors import ConfigurationError, did_you_mean

DEFAULT_CONTROLLER_URI = "tcp://localhost:9090"
DEFAULT_TIMEOUT_S = 10.0
SESSION_PREFIX = "spark.pravega."

_ENVIRONMENT = {
    "controller-uri": "PRAVEGA_CONTROLLER_URI",
    "schema-registry-uri": "PRAVEGA_SCHEMA_REGISTRY_URI",
    "scope": "PRAVEGA_SCOPE",
    "timeout": "PRAVEGA_TIMEOUT",
}
_ALIASES = {"controller": "controller-uri", "schema-registry": "schema-registry-uri"}
KEYS = frozenset(_ENVIRONMENT)
"""The names of the connection settings, as options and catalog configuration spell them."""


def canonical_key(key: str) -> str:
    """The one spelling of a setting's key: `controller_uri`, `controller.uri` and `controller` are `controller-uri`.

    Args:
        key: a key as a user wrote it, without prefix.

    Returns:
        The key in lower case with dashes.
    """
    dashed = re.sub(r"[._]", "-", key.strip().lower())
    return _ALIASES.get(dashed, dashed)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Resolved connection settings."""

    controller_uri: str
    """`tcp://host:port`."""
    schema_registry_uri: str | None = None
    """`http://host:port`, or None: then streams are tables of raw events only."""
    scope: str | None = None
    """The scope of streams that are named without one."""
    timeout: float = DEFAULT_TIMEOUT_S
    """How long a call to a server may take, in seconds."""

    @classmethod
    def resolve(
        cls,
        options: Mapping[str, str] | None = None,
        *,
        catalog: Mapping[str, str] | None = None,
        session: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        """Settle the connection from every place where a user may have put it.

        Args:
            options: explicit options or program arguments; keys that aren't connection settings are passed over.
            catalog: the catalog's configuration, keys without `spark.sql.catalog.<name>.`; likewise.
            session: the session's configuration; keys begin with `spark.pravega.`, others are passed over.
            environ: the environment; `os.environ` when None.

        Returns:
            The settings.

        Raises:
            ConfigurationError: a URI or a number is malformed, or a `spark.pravega.` key is unknown.
        """
        environ = os.environ if environ is None else environ
        from_session = {}
        for key, value in (session or {}).items():
            if key.startswith(SESSION_PREFIX):
                name = canonical_key(key.removeprefix(SESSION_PREFIX))
                if name not in KEYS:
                    raise ConfigurationError(f'unknown configuration "{key}"{did_you_mean(name, KEYS)}')
                from_session[name] = value
        layers = [_known(options), _known(catalog), from_session, _from_environment(environ)]
        found: dict[str, str] = {}
        for layer in reversed(layers):
            found.update({key: value.strip() for key, value in layer.items() if value.strip()})
        registry = found.get("schema-registry-uri")
        return cls(
            controller_uri=_controller_uri(found.get("controller-uri", DEFAULT_CONTROLLER_URI)),
            schema_registry_uri=_registry_uri(registry) if registry else None,
            scope=found.get("scope"),
            timeout=_seconds("timeout", found.get("timeout")),
        )

    def to_options(self) -> dict[str, str]:
        """The settings as options, from which `resolve` makes the same settings again on another machine.

        Returns:
            Option key to value; absent settings are left out.
        """
        options = {"controller-uri": self.controller_uri, "timeout": repr(self.timeout)}
        if self.schema_registry_uri:
            options["schema-registry-uri"] = self.schema_registry_uri
        if self.scope:
            options["scope"] = self.scope
        return options

    def to_environment(self) -> dict[str, str]:
        """The settings as the environment variables that `resolve` reads.

        Returns:
            Variable to value; absent settings are left out.
        """
        return {_ENVIRONMENT[key]: value for key, value in self.to_options().items()}


def _known(layer: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for key, value in (layer or {}).items() if (name := canonical_key(key)) in KEYS}


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: environ[variable] for key, variable in _ENVIRONMENT.items() if variable in environ}


def _controller_uri(text: str) -> str:
    uri = text if "://" in text else f"tcp://{text}"
    _check_uri("controller-uri", uri, ("tcp",), "tcp://localhost:9090")
    return uri


def _registry_uri(text: str) -> str:
    _check_uri("schema-registry-uri", text, ("http",), "http://localhost:9092")
    return text.rstrip("/")


def _check_uri(key: str, uri: str, schemes: tuple[str, ...], example: str) -> None:
    try:
        parts = urlsplit(uri)
        valid = parts.scheme in schemes and bool(parts.hostname) and parts.port is not None
    except ValueError:
        valid = False
    if not valid or parts.username is not None or parts.password is not None:
        raise ConfigurationError(f'{key} must look like "{example}" (scheme, host and port; no credentials in it)')


def _seconds(key: str, text: str | None) -> float:
    if text is None:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise ConfigurationError(f'{key} must be a number of seconds between 0 and 3600, not "{text}"')
    return seconds
