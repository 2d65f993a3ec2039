"""HTTP calls to the schema registry: one place for time-outs, lost connections, and what a status means."""

from __future__ import annotations

import re
import socket
import ssl
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from pyspark_pravega import outages
from pyspark_pravega.deadlines import ATTEMPT_S, CONNECT_S, Limit, Retries
from pyspark_pravega.errors import (
    AuthenticationError,
    CertificateError,
    ConfigurationError,
    InvalidNameError,
    OperationFailedError,
    PravegaError,
    RegistryUnavailableError,
)
from pyspark_pravega.security import Credentials, Tls

# What a status means for one endpoint: the error to raise, and its message; `{text}` is the server's own.
Refusals = Mapping[int, tuple[type[PravegaError], str]]


T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

MAX_FAILURES = 6
"""How often a call fails before it isn't tried again, even where there is time left, if the registry has answered it,
or who is there doesn't speak as one."""
_LONGEST_ATTEMPT_S = 40.0
"""The first attempt takes `ATTEMPT_S` at most, and each further one twice as long, but no longer than this."""
_AWAY = (502, 503, 504)
"""A gateway's words for a registry that isn't there."""


_PASSING = (500, 502, 503, 504)
"""Statuses that another try may not meet. Of 0.6.0 these are answered with 500, and with success afterwards:

- The first change after the registry's own token for Pravega has expired (its client then sends a buffer that is gone).
- Creating a group that others create in the same instant ("UPDATE_TABLE_ENTRIES").
"""
_WITHOUT_PRAVEGA = re.compile(r"_schemaregistry/|Failed to create scope")
"""What 0.6.0 says in such an answer when Pravega doesn't answer it: it names a table of its own, in which its schemas
lie (`TableStore`: "updateEntries in table: _schemaregistry/groups/0")."""


class _NoAnswerError(Exception):
    """The registry couldn't be reached, or the connection ended before an answer came, or none came in time."""

    def __init__(self, reason: str, *, is_away: bool = True) -> None:
        super().__init__(reason)
        self.is_away = is_away
        """Whether nobody is there, or says anything."""


class Transport:
    """Makes calls to one registry. Threads may share it.

    Args:
        uri: `http://host:port` or `https://host:port`.
        timeout: for how long a registry that is gone is waited for, in seconds.
        credentials: who asks, if the registry wants to know.
        tls: which servers to believe, for `https:`.
        presumed: whether the address is right for sure, because another process has reached the registry there: it is
            then waited for from the beginning.

    Raises:
        ConfigurationError: the file of trusted authorities can't be used.
    """

    def __init__(
        self,
        uri: str,
        timeout: float,
        *,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        presumed: bool = False,
    ) -> None:
        self.uri = uri.rstrip("/")
        self.gone = f"the schema registry at {self.uri}"
        self.timeout = timeout
        self._contact = outages.Contact(self.gone, _hosts(self.uri), known=presumed)
        self._credentials = credentials
        # No proxy from the environment: Pravega, beside it, isn't reached through one either.
        self._http = httpx.Client(
            base_url=self.uri,
            verify=(tls or Tls()).ssl_context() if self.uri.startswith("https:") else False,
            timeout=httpx.Timeout(min(timeout, ATTEMPT_S)),
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=16),
            trust_env=False,
        )
        # Who forgets to close, or ends with the process, leaves no connections behind.
        self._end = weakref.finalize(self, self._http.close)

    @property
    def has_answered(self) -> bool:
        """Whether the registry has ever answered, this process or one that this one has it from."""
        return self._contact.known

    def close(self) -> None:
        """Close the connections."""
        self._end()

    def call(
        self,
        doing: str,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        expect: tuple[int, ...] = (200,),
        refusals: Refusals | None = None,
        look: Callable[[], None] | None = None,
    ) -> httpx.Response:
        """Make a call.

        Args:
            doing: what the call does, with its object, for messages: `read group "a/b"`.
            method: the HTTP method.
            path: with its parts quoted.
            params: query parameters.
            json: the body.
            expect: the statuses that are answers.
            refusals: what this endpoint's other statuses mean.
            look: is called before the call is made again; what it raises ends it.

        Returns:
            The answer; its status is one of `expect`.

        Raises:
            RegistryUnavailableError: there's no answer in time, or a gateway says so.
            DeadlineExceededError: the caller's deadline is over.
            AuthenticationError: the registry wants (other) credentials.
            CertificateError: the registry's certificate isn't trusted.
            OperationFailedError: any other status that `refusals` doesn't name.
        """
        headers = self._headers()
        retries, begun = Retries(self.timeout), time.monotonic()
        while True:
            if retries.failures and look is not None:
                look()
            seconds = min(ATTEMPT_S * 2**retries.failures, _LONGEST_ATTEMPT_S, max(retries.left, 0.001))
            try:
                response = self._send(doing, method, path, params, json, headers, seconds)
            except _NoAnswerError as lost:
                # Every call here can be repeated. Who ends connections again and again speaks something else.
                is_registry = lost.is_away or self.has_answered
                if (is_registry or retries.failures < MAX_FAILURES) and self._again(retries, begun):
                    continue
                raise self._unreachable(doing, str(lost), begun) from None
            status = response.status_code
            without_pravega = _is_without_pravega(status, response.text)
            if (status in _AWAY or without_pravega) and self._again(retries, begun):
                continue
            self._contact.heard()
            if status in expect:
                return response
            if refusals and status in refusals:
                break
            if without_pravega or status not in _PASSING or retries.failures >= MAX_FAILURES or not retries.again():
                break
        text = _without_secrets(response.text.strip(), headers)[:500]
        if refusals and status in refusals:
            error, message = refusals[status]
            raise error(message.replace("{text}", text or "no reason given"))
        raise self._unexpected(doing, status, text)

    def _again(self, retries: Retries, begun: float) -> bool:
        """Wait for the next attempt, in the name of a registry that isn't there."""
        try:
            raise self._unavailable("it can't be reached", begun)
        except RegistryUnavailableError:
            return retries.again()

    def _unavailable(self, message: str, begun: float) -> RegistryUnavailableError:
        return self._contact.missed(RegistryUnavailableError(message), begun)

    def answer(self, parse: Callable[[Any], T], doing: str, method: str, path: str, **arguments: Any) -> T:
        """Make a call and understand its answer.

        Args:
            parse: makes the result from the answer's JSON.
            doing: as in `call`, and so are the others.
            method: the HTTP method.
            path: the path.
            arguments: the rest of `call`'s.

        Returns:
            What `parse` made.

        Raises:
            OperationFailedError: the answer isn't what a schema registry says; or as `call`.
        """
        response = self.call(doing, method, path, **arguments)
        try:
            return parse(response.json())
        except (ValueError, KeyError, TypeError, AttributeError):
            raise OperationFailedError(
                f"can't {doing}: {self.uri} answered something unexpected; is it a Pravega schema registry?"
            ) from None

    def _send(
        self,
        doing: str,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        json: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        seconds: float,
    ) -> httpx.Response:
        limit = Limit(self.timeout).cap(seconds)
        timeout = httpx.Timeout(limit, connect=min(limit, CONNECT_S))
        try:
            return self._http.request(method, path, params=params, json=json, headers=headers, timeout=timeout)
        except httpx.TimeoutException:
            Limit(self.timeout).cap(self.timeout)  # The caller's own deadline has an error of its own.
            raise _NoAnswerError("no answer in time") from None
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            raise _NoAnswerError(str(error), is_away=False) from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            if refusal := _certificate_refusal(error):
                raise CertificateError(
                    f"can't {doing}: the certificate of the schema registry at {self.uri} isn't trusted "
                    f"({refusal}): set tls-ca (or PRAVEGA_TLS_CA) to the PEM file of the authority that signed "
                    "it, and use the host name that it was made for"
                ) from None
            if self._is_worth_waiting(error):
                raise _NoAnswerError(str(error)) from error
            raise self._unreachable(doing, str(error), time.monotonic()) from None

    def _is_worth_waiting(self, error: Exception) -> bool:
        """Whether an error to connect may be over soon."""
        if not isinstance(error, httpx.ConnectError):
            return False
        is_unknown = not self.has_answered and _origin(error, socket.gaierror) is not None
        refused = _origin(error, ConnectionRefusedError) is not None
        return not is_unknown and self._contact.is_worth_waiting(refused=refused)

    def _unreachable(self, doing: str, reason: str, begun: float) -> RegistryUnavailableError:
        if not self.has_answered:
            return self._unavailable(
                f"can't {doing}: the schema registry at {self.uri} can't be reached ({reason}); "
                "check the schema-registry-uri setting, and that the registry runs and is healthy",
                begun,
            )
        return self._unavailable(
            f"can't {doing}: the schema registry at {self.uri} can't be reached since {outages.clock(begun)} ({reason})"
            ": it could before, so it has died, or hangs",
            begun,
        )

    def _headers(self) -> dict[str, str]:
        if self._credentials is None:
            return {}
        value = self._credentials.authorization()
        # What isn't a header's value would be shown by the error of whoever tries to send it.
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError("the credentials can't be sent: a token must be of printable ASCII characters")
        return {"Authorization": value}

    def _unexpected(self, doing: str, status: int, text: str) -> PravegaError:
        reason = f" ({text})" if text else ""
        if status == 401 and self._credentials is None:
            return AuthenticationError(
                f"can't {doing}: the schema registry at {self.uri} wants credentials: set username and password (or "
                "PRAVEGA_USERNAME and PRAVEGA_PASSWORD)"
            )
        if status == 401:
            return AuthenticationError(
                f"can't {doing}: the schema registry at {self.uri} refused the credentials: check username and "
                "password, or the token"
            )
        if status == 403:
            return AuthenticationError(
                f"can't {doing}: the user has no permission for it from the schema registry at {self.uri}"
            )
        if _is_without_pravega(status, text):
            return RegistryUnavailableError(
                f"can't {doing}: Pravega, in which it keeps its schemas, doesn't answer the schema registry at "
                f"{self.uri}{reason}: see to Pravega's segment stores and controllers, and try again"
            )
        if status in _AWAY:
            return RegistryUnavailableError(
                f"can't {doing}: the schema registry at {self.uri} is unavailable, status {status}{reason}"
            )
        return OperationFailedError(f"can't {doing}: the schema registry at {self.uri} answered {status}{reason}")


def _is_without_pravega(status: int, text: str) -> bool:
    """Whether an answer says that Pravega doesn't answer the registry."""
    return status == httpx.codes.INTERNAL_SERVER_ERROR and _WITHOUT_PRAVEGA.search(text) is not None


def _certificate_refusal(error: BaseException | None) -> str | None:
    """Why a certificate wasn't believed, if that is what an error comes from."""
    refusal = _origin(error, ssl.SSLCertVerificationError)
    return None if refusal is None else refusal.verify_message


def _origin(error: BaseException | None, kind: type[E]) -> E | None:
    """The error of some kind that another one comes from."""
    while error is not None:
        if isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None


def _hosts(uri: str) -> list[str]:
    try:
        return [httpx.URL(uri).host]
    except httpx.InvalidURL:
        return []


def _without_secrets(text: str, headers: Mapping[str, str]) -> str:
    """A server's words, should it repeat what it was sent."""
    for value in headers.values():
        for secret in (value, value.partition(" ")[2]):
            text = text.replace(secret, "...") if secret else text
    return text


def part(name: str) -> str:
    """A name as one part of a path.

    Args:
        name: a group, type or format.

    Returns:
        The name, quoted.

    Raises:
        InvalidNameError: it's empty, or `.` or `..`, which no path can hold.
    """
    if name in ("", ".", ".."):
        raise InvalidNameError(f'"{name}" can\'t be the name of a schema registry group')
    return quote(name, safe="")
