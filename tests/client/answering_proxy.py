"""A proxy between this package and a controller that puts other answers in the place of the controller's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import grpc

_TIMEOUT_S = 60.0


@dataclass
class Substitution:
    """What becomes of the next calls of a method."""

    code: grpc.StatusCode
    """What its caller is told."""
    times: int = 1
    """Of so many calls."""
    skip: int = 0
    """How many calls before them are answered as ever."""
    done: bool = True
    """Whether the controller is asked all the same."""
    reply: bytes | None = None
    """An answer that its caller gets, in place of that failure."""
    then: Callable[[], object] | None = None
    """What is done behind that, before its caller is told."""
    details: str = "io.pravega.common.ObjectClosedException: Object 'EventStreamWriterImpl' has been closed"


class AnsweringProxy(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Hands calls on as they are; of some the caller is told that they have failed. A context manager."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.substituted: list[str] = []
        """The methods of the calls whose callers were told something else, in their order."""
        self._channel = grpc.insecure_channel("{}:{}".format(*target))
        self._substitutions: dict[str, Substitution] = {}
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", 64 << 20)])
        self._server.add_generic_rpc_handlers((self,))
        self.uri = f"tcp://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
        self._channel.close()

    def substitute(self, method: str, code: grpc.StatusCode, **more: Any) -> None:
        """Tell the callers of a method something else from now on; arguments as `Substitution`."""
        with self._lock:
            self._substitutions[method] = Substitution(code, **more)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        """As gRPC asks: what answers a call."""
        path, metadata = handler_call_details.method, handler_call_details.invocation_metadata
        method = path.rsplit("/", 1)[1]
        call: Callable[..., bytes] = self._channel.unary_unary(path)

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            instead = self._next(method)
            given = [(key, value) for key, value in metadata or () if key == "authorization"]
            if instead is None or instead.done:
                try:
                    reply = call(request, timeout=_TIMEOUT_S, metadata=given)
                except grpc.RpcError as error:
                    context.abort(error.code(), error.details() or "")
            if instead is not None and instead.then is not None:
                instead.then()
            if instead is not None and instead.reply is not None:
                return instead.reply
            if instead is not None:
                context.abort(instead.code, instead.details)
            return reply

        return grpc.unary_unary_rpc_method_handler(answer)

    def _next(self, method: str) -> Substitution | None:
        with self._lock:
            instead = self._substitutions.get(method)
            if instead is None or not instead.times:
                return None
            if instead.skip:
                instead.skip -= 1
                return None
            instead.times -= 1
            self.substituted.append(method)
            return instead
