"""HTTP calls to the schema registry: one place for time-outs, lost connections, and what a status means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from pyspark_pravega.errors import (
    AuthenticationError,
    InvalidNameError,
    OperationFailedError,
    PravegaError,
    RegistryUnavailableError,
)

# What a status means for one endpoint: the error to raise, and its message; `{text}` is the server's own.
Refusals = Mapping[int, tuple[type[PravegaError], str]]


T = TypeVar("T")


class Transport:
    """Makes calls to one registry. Threads may share it.

    Args:
        uri: `http://host:port`.
        timeout: how long connecting, and each wait for an answer, may take, in seconds.
    """

    def __init__(self, uri: str, timeout: float) -> None:
        self.uri = uri.rstrip("/")
        self.timeout = timeout
        # No proxy from the environment: Pravega, beside it, isn't reached through one either.
        self._http = httpx.Client(
            base_url=self.uri,
            timeout=httpx.Timeout(timeout),
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=16),
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

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

        Returns:
            The answer; its status is one of `expect`.

        Raises:
            RegistryUnavailableError: there's no answer in time, or a gateway says so.
            AuthenticationError: the registry wants (other) credentials.
            OperationFailedError: any other status that `refusals` doesn't name.
        """
        response = self._send(doing, method, path, params, json)
        status = response.status_code
        if status in expect:
            return response
        text = response.text.strip()[:500]
        if refusals and status in refusals:
            error, message = refusals[status]
            raise error(message.replace("{text}", text or "no reason given"))
        raise self._unexpected(doing, status, text)

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
    ) -> httpx.Response:
        # A kept connection may have been closed by the server just now; every call here is idempotent.
        for last in (False, True):
            try:
                return self._http.request(method, path, params=params, json=json)
            except httpx.TimeoutException:
                raise RegistryUnavailableError(
                    f"can't {doing}: the schema registry at {self.uri} didn't answer within "
                    f"{self.timeout:g} s; check the address and that the registry is healthy, or raise the "
                    "timeout setting"
                ) from None
            except (httpx.TransportError, httpx.InvalidURL) as error:
                if not last and isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)):
                    continue
                raise RegistryUnavailableError(
                    f"can't {doing}: the schema registry at {self.uri} can't be reached ({error}); "
                    "check the schema-registry-uri setting and that the registry runs"
                ) from None
        raise AssertionError("unreachable")

    def _unexpected(self, doing: str, status: int, text: str) -> PravegaError:
        said = f" ({text})" if text else ""
        if status in (401, 403):
            return AuthenticationError(f"can't {doing}: the schema registry at {self.uri} refused the credentials")
        if status in (502, 503, 504):
            return RegistryUnavailableError(
                f"can't {doing}: the schema registry at {self.uri} is unavailable, status {status}{said}"
            )
        return OperationFailedError(f"can't {doing}: the schema registry at {self.uri} answered {status}{said}")


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
