"""Calls to the controller over gRPC, each with a deadline, and what its failures mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import grpc
from google.protobuf.message import Message

from pyspark_pravega.client import controller_pb2 as pb
from pyspark_pravega.errors import (
    AuthenticationError,
    ControllerUnavailableError,
    NotFoundError,
    OperationFailedError,
)

_SERVICE = "/io.pravega.controller.stream.api.grpc.v1.ControllerService/"
_MAX_REPLY_BYTES = 64 << 20

Reply = TypeVar("Reply", bound=Message)


class ControllerRpc:
    """The transport below `Controller`. Safe for use by several threads."""

    def __init__(self, uri: str, *, timeout: float) -> None:
        """Connect lazily.

        Args:
            uri: `tcp://host:port`.
            timeout: deadline of each call, in seconds.
        """
        self.uri = uri
        self.timeout = timeout
        self._channel = grpc.insecure_channel(
            urlsplit(uri).netloc, options=[("grpc.max_receive_message_length", _MAX_REPLY_BYTES)]
        )
        self._methods: dict[str, Callable[..., Any]] = {}

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def status(self, method: str, request: Message, *, missing: NotFoundError | None = None) -> int:
        """Call a method whose answer is a status number; arguments as `call`."""
        return self.call(method, request, pb.StatusReply, missing=missing).status

    def call(self, method: str, request: Message, reply: type[Reply], *, missing: NotFoundError | None = None) -> Reply:
        """Call a method.

        Args:
            method: its name in the controller's service.
            request: its request.
            reply: the class of its answer.
            missing: what to raise when the controller answers NOT_FOUND.

        Raises:
            ControllerUnavailableError: nobody answers in time.
            AuthenticationError: the credentials were refused.
            OperationFailedError: the call failed for another reason.
        """
        stub = self._methods.get(method)
        if stub is None:
            stub = self._channel.unary_unary(
                _SERVICE + method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=reply.FromString,
            )
            self._methods[method] = stub
        try:
            answer: Reply = stub(request, timeout=self.timeout)
        except grpc.RpcError as error:
            self._fail(method, error, missing)
        return answer

    def _fail(self, method: str, error: Any, missing: NotFoundError | None) -> NoReturn:
        code = error.code()
        if code is grpc.StatusCode.NOT_FOUND and missing is not None:
            raise missing from None
        if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            raise AuthenticationError(
                f"the Pravega controller at {self.uri} refused the credentials for {method}"
            ) from None
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            waited = f" within {self.timeout:g} s" if code is grpc.StatusCode.DEADLINE_EXCEEDED else ""
            raise ControllerUnavailableError(
                f"no Pravega controller answers at {self.uri}{waited}: "
                "check the address (option controller-uri, or PRAVEGA_CONTROLLER_URI) and that the server is up"
            ) from None
        raise OperationFailedError(
            f"the Pravega controller at {self.uri} failed in {method}: {code.name} {error.details()}"
        ) from None
