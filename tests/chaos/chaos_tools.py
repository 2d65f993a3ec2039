"""A proxy that treats connections badly, in ways that a seed decides."""

from __future__ import annotations

import random
import socket
import threading
import time
from typing import Self

from client_tools import cut

BITE = 1 << 16


class Mood:
    """What is done to one connection."""

    def __init__(self, chance: random.Random) -> None:
        self.cut_after = chance.choice(
            [None, chance.randint(1, 300), chance.randint(1, 20_000), chance.randint(1, 1 << 20)]
        )
        """Bytes in both directions together, after which it is cut; None for never."""
        self.whole_answers_lost = chance.random() < 0.3
        """Whether a cut swallows what the server has sent already: then requests were carried out, but nobody knows."""
        self.largest_piece = chance.choice([BITE, BITE, chance.randint(1, 9), chance.randint(1, 3000)])
        """Bytes that travel at a time."""
        self.pieces_slowly = chance.randint(0, 200)
        """How many pieces are delayed."""
        self.delay_s = chance.choice([0.0, 0.0, 0.001, 0.02])
        self.pause_s = chance.choice([0.0] * 6 + [0.3, 1.0])
        """One long pause, somewhere."""
        self.pause_after = chance.randint(1, 50_000)

    @classmethod
    def good(cls) -> Mood:
        """Nothing is done."""
        mood = cls(random.Random(0))
        mood.cut_after, mood.largest_piece, mood.delay_s, mood.pause_s = None, BITE, 0.0, 0.0
        return mood


class ChaosProxy:
    """Passes bytes on between clients and a server, in a mood of its own for each connection. A context manager.

    After `bad_connections` it treats all others well, so that whatever goes on behind it comes to an end.
    """

    def __init__(self, target: tuple[str, int], seed: str, *, bad_connections: int) -> None:
        self.connections = self.cuts = 0
        self._target, self._seed, self._bad = target, seed, bad_connections
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            cut(end)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            with self._lock:
                self.connections += 1
                number = self.connections
                self._open += [client, server]
            mood = Mood(random.Random(f"{self._seed}/{number}")) if number <= self._bad else Mood.good()
            passage = _Passage(self, mood)
            for source, sink, answers in ((client, server, False), (server, client, True)):
                threading.Thread(target=passage.pump, args=(source, sink, answers), daemon=True).start()


class _Passage:
    """One connection's two directions."""

    def __init__(self, proxy: ChaosProxy, mood: Mood) -> None:
        self._proxy, self._mood = proxy, mood
        self._left = mood.cut_after
        self._passed = self._pieces = 0
        self._lock = threading.Lock()

    def pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(BITE):
                for start in range(0, len(data), self._mood.largest_piece):
                    piece = data[start : start + self._mood.largest_piece]
                    allowed = self._allow(len(piece))
                    if allowed < len(piece) and not (answers and self._mood.whole_answers_lost):
                        sink.sendall(piece[:allowed])
                    if allowed < len(piece):
                        raise OSError
                    sink.sendall(piece)
        except OSError:
            pass
        cut(source)
        cut(sink)

    def _allow(self, size: int) -> int:
        """How much of a piece may pass, after the wait that it has to make."""
        mood = self._mood
        with self._lock:
            self._pieces += 1
            delay = mood.delay_s if self._pieces <= mood.pieces_slowly else 0.0
            if self._passed <= mood.pause_after < self._passed + size:
                delay += mood.pause_s
            self._passed += size
            allowed = size
            if self._left is not None:
                allowed = min(size, self._left)
                self._left -= allowed
                if allowed < size:
                    self._proxy.cuts += 1
        if delay:
            time.sleep(delay)
        return allowed
