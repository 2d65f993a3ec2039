"""A proxy that delivers what one connection has sent last only when the next connection is about to send the same."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Self


class LateProxy:
    """Holds back what the first connection sends after some bytes, and delivers it later.

    The first connection is cut. What it sent is delivered when the second one sends something after as many bytes, and
    `more`.
    `before` and `after` are called right before and after this delivery. A context manager.
    """

    def __init__(
        self,
        target: tuple[str, int],
        passes: int,
        *,
        before: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
        more: int = 0,
    ) -> None:
        self.delivered = False
        self._more = more
        self._target, self._passes, self._before, self._after = target, passes, before, after
        self._held: tuple[socket.socket, bytes] | None = None
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._open += [client, server]
            threading.Thread(target=self._back, args=(server, client), daemon=True).start()
            threading.Thread(target=self._forth, args=(client, server), daemon=True).start()

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        try:
            while data := server.recv(1 << 16):
                client.sendall(data)
        except OSError:
            pass

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        left = self._passes if self._held is None else self._passes + self._more
        try:
            # Not a byte beyond the border at once, wherever the sender's pieces end.
            while data := client.recv(min(1 << 16, left) or 1 << 16):
                if left == 0 and not self.delivered:
                    if self._held is None:
                        self._held = server, data + _what_comes(client)
                        client.shutdown(socket.SHUT_RDWR)
                        return
                    self._deliver(*self._held)
                server.sendall(data)
                left = max(0, left - len(data))
        except OSError:
            pass

    def _deliver(self, server: socket.socket, held: bytes) -> None:
        self.delivered = True
        self._before()
        server.sendall(held)
        time.sleep(0.2)
        self._after()


def _what_comes(end: socket.socket) -> bytes:
    """All that arrives until nothing does for a moment."""
    end.settimeout(0.2)
    content = b""
    try:
        while data := end.recv(1 << 16):
            content += data
    except TimeoutError:
        pass
    return content
