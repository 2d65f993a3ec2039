"""A proxy that freezes: its connections stay open, new ones are taken, and nothing comes through any more."""

from __future__ import annotations

import socket
import threading

from client_tools import Proxy


class FreezingProxy(Proxy):
    """Between a client and a server that hangs, or whose machine has lost its power, from `freeze` to `thaw`."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._runs = threading.Event()
        self._runs.set()
        super().__init__(target)

    def freeze(self) -> None:
        """Let nothing through."""
        self._runs.clear()

    def thaw(self) -> None:
        """Let through what has come meanwhile, and what comes."""
        self._runs.set()

    def close(self) -> None:
        """As `Proxy.close`."""
        super().close()
        self.thaw()

    def _pump(self, source: socket.socket, sink: socket.socket, allowance: list[int]) -> None:
        super()._pump(_Gated(source, self._runs), sink, allowance)  # type: ignore[arg-type]


class _Gated:
    """A socket whose bytes wait for an event."""

    def __init__(self, inner: socket.socket, runs: threading.Event) -> None:
        self._inner, self._runs = inner, runs

    def recv(self, size: int) -> bytes:
        """The next bytes, once the event is set."""
        data = self._inner.recv(size)
        self._runs.wait()
        return data

    def shutdown(self, how: int) -> None:
        """As a socket's."""
        self._inner.shutdown(how)

    def close(self) -> None:
        """As a socket's."""
        self._inner.close()
