"""A way to a real controller on which answers are exchanged: a call has been done, and its caller is told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

FAILURE = b"\x08\x01"
"""A status of 1 in each of the controller's answers."""
DISCONNECTED = b"\x08\x04"
"""The answer to a ping of a controller that shuts down."""
Answer = Callable[[str, Callable[[], bytes]], bytes]
"""Makes an answer of a method's name and the call itself, which may be left out."""


class ControllerRelay(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Hands calls over as bytes."""

    def __init__(self, controller_uri: str) -> None:
        """Go to a controller, and change nothing until `answer` is set.

        Args:
            controller_uri: `tcp://host:port`.
        """
        self._channel = grpc.insecure_channel(controller_uri.removeprefix("tcp://"))
        self.answer: Answer = lambda _, call: call()
        self.uri = ""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """See grpc."""
        path = handler_call_details.method
        forward = self._channel.unary_unary(path)

        def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                return self.answer(path.rpartition("/")[2], lambda: forward(request, timeout=60))
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
                raise

        return grpc.unary_unary_rpc_method_handler(handle)


@contextmanager
def relayed(controller_uri: str) -> Iterator[ControllerRelay]:
    """A relay that runs meanwhile.

    Args:
        controller_uri: where the controller is.
    """
    relay = ControllerRelay(controller_uri)
    server = grpc.server(ThreadPoolExecutor(16), handlers=(relay,))
    relay.uri = f"tcp://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield relay
    finally:
        server.stop(None).wait()
