"""The servers of a test process: started when a test wants them, kept from module to module while they are sound."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyspark_pravega.sandbox import Account, Sandbox

READER = Account("reader", "prn::*,READ")
ANALYST = Account("analyst", "prn::*key-value-table:*,READ_UPDATE;prn::*,READ")
"""Who may read tables: Pravega 0.13 tells where a table's commit log is only to who may change it."""
NOBODY = Account("nobody", "")
SHORT_TOKEN_TTL_S = 5
OF_TABLE = "prn::/scope:rights/stream:t,{0};prn::/scope:rights/stream:t.ledger_kvtable,{0};"
RIGHTS = {
    "rights-reader": OF_TABLE.format("READ")
    + "prn::/scope:rights/key-value-table:t.ledger,READ_UPDATE;prn::/namespace:rights/group:t*,READ",
    "rights-writer": OF_TABLE.format("READ_UPDATE")
    + "prn::/scope:rights/key-value-table:t.ledger,READ_UPDATE;prn::/namespace:rights/group:t*,READ",
    "rights-maker": "prn::/scope:rights,READ_UPDATE;prn::/scope:rights/*,READ_UPDATE;"
    "prn::/namespace:rights*,READ_UPDATE",
    "rights-lister": "prn::/,READ;prn::/scope:rights,READ;prn::/scope:rights/stream:t,READ",
    "rights-namespaces": "prn::/,READ_UPDATE;prn::/scope:rights-new,READ",
    "rights-analyst": "prn::/scope:rights/key-value-table:*,READ_UPDATE;prn::/scope:rights*,READ;"
    "prn::/namespace:rights*,READ",
    "rights-teller": OF_TABLE.format("READ_UPDATE")
    + "prn::/scope:rights/stream:-.transactions.ledger_kvtable,READ_UPDATE;prn::/scope:rights/stream:other*,READ;"
    "prn::/scope:rights/key-value-table:*,READ_UPDATE;prn::/namespace:rights/group:*,READ",
}
"""The least that docs/security.md says is needed, for a table `t` in the scope `rights`: user to ACL. The teller writes
to it in transactions that read the tables `other`, too."""

FORMAT_CLASSES = "ini_format:*, shop_formats:Pairs, nowhere.formats:*, no_such_package:*"
"""The formats of one's own that tests and pages use, and those that there are none of."""
SUSPECT = 0.5
"""Of a core: a Pravega that used more while a module ran is looked at when it should be idle."""
_LOOK_S = 0.5
_LOOKS = 6
_TICKS = os.sysconf("SC_CLK_TCK")


def plain() -> Sandbox:
    """Without authentication and TLS; all events are in its heap."""
    return Sandbox(heap="4g")


def roomy() -> Sandbox:
    """As `plain`, for tests that write much."""
    return Sandbox(heap="6g")


def authenticated() -> Sandbox:
    """With authentication; delegation tokens are valid for some seconds only. All is logged, but for secrets."""
    narrow = [Account(user, acl) for user, acl in RIGHTS.items()]
    accounts = [READER, NOBODY, *narrow]
    return Sandbox(heap="1g", auth=True, accounts=accounts, token_ttl_s=SHORT_TOKEN_TTL_S, log_level="DEBUG")


def secured() -> Sandbox:
    """With authentication and TLS; the users are `admin`, `analyst`, `reader` and `nobody`."""
    return Sandbox(heap="1g", auth=True, tls=True, accounts=[ANALYST, READER, NOBODY])


KINDS: dict[str, Callable[[], Sandbox]] = {
    "sandbox": plain,
    "roomy_sandbox": roomy,
    "auth_sandbox": authenticated,
    "secure_sandbox": secured,
}
"""Fixture to servers."""


@dataclass
class _Seen:
    """What a Pravega had used of its cores at a moment."""

    cpu_s: float
    at_s: float

    @classmethod
    def now(cls, pid: int) -> _Seen:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cls((int(fields[11]) + int(fields[12])) / _TICKS, time.monotonic())

    def since(self, pid: int) -> float:
        """Cores used since then."""
        now = self.now(pid)
        return (now.cpu_s - self.cpu_s) / max(now.at_s - self.at_s, 0.001)


def memory_used(pid: int) -> int:
    """Bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Servers:
    """The servers of this process, by the fixture that gives them."""

    def __init__(self) -> None:
        self._running: dict[str, Sandbox] = {}
        self._first_looks: dict[str, _Seen] = {}
        self._modules: dict[str, int] = {}

    def get(self, kind: str) -> Sandbox:
        """The servers of a kind; the same ones until `between_modules` ends them.

        Args:
            kind: one of `KINDS`.
        """
        if kind not in self._running:
            self._running[kind] = KINDS[kind]().start()
            self._modules[kind] = 0
        self._first_looks.setdefault(kind, _Seen.now(self._running[kind].pravega_pid))
        return self._running[kind]

    def between_modules(self, kinds: set[str]) -> list[str]:
        """End servers that the next module doesn't want, or that are worn out.

        Those with authentication, left to themselves, soon keep a core busy with nothing; so does a plain one now and
        then (docs/pravega-facts.md: an append of no bytes). And all that is written stays in the
        heap of a server.

        Args:
            kinds: kinds that the next module uses.

        Returns:
            A sentence for each that was worn out.
        """
        sentences = []
        for kind, sandbox in list(self._running.items()):
            if why := self._worn(kind, sandbox):
                sentences.append(f"{kind}: {why}")
            if why or (kind not in kinds and kind != "sandbox"):
                self.end(kind)
        return sentences

    def end(self, kind: str) -> None:
        """End the servers of a kind, when they run.

        At the end the log must not tell of transactions that Pravega fails to move to long-term storage again and
        again, as it does when transactions are merged into each other (docs/internals/writes.md, "Why a copy").

        Args:
            kind: one of `KINDS`.
        """
        self._first_looks.pop(kind, None)
        sandbox = self._running.pop(kind, None)
        if sandbox is None:
            return
        log = sandbox.pravega_log.read_text(errors="replace")
        sandbox.stop()
        assert "SegmentAggregator.mergeWith" not in log

    def _worn(self, kind: str, sandbox: Sandbox) -> str:
        """Why servers should not be used further; nothing when they should."""
        pid, first_look = sandbox.pravega_pid, self._first_looks.pop(kind, None)
        if sandbox.ended():
            return f"ended by itself: {sandbox.ended()}"
        if memory_used(pid) > self._memory_limit(kind):
            return f"{memory_used(pid) >> 20} MB of memory are in use"
        if first_look is None or first_look.since(pid) < SUSPECT:
            return ""
        # What was busy with work becomes idle soon; what goes round and round doesn't.
        for _ in range(_LOOKS):
            look = _Seen.now(pid)
            time.sleep(_LOOK_S)
            if look.since(pid) < SUSPECT:
                return ""
        return f"still busy {_LOOKS * _LOOK_S:.0f} s after the last request"

    def _memory_limit(self, kind: str) -> int:
        """Well below the heap: a server whose heap is full ends, and what talks to it waits for nothing. One module of
        tests/chaos may write 4 GB.
        """
        return 3 << 29 if kind == "roomy_sandbox" else 3 << 30

    def ended(self) -> list[str]:
        """A sentence for each server that has ended by itself: all that fails afterwards may have that cause."""
        return [
            f"{name} of {kind} has ended by itself: {sandbox.pravega_log.read_text(errors='replace')[-500:]}"
            for kind, sandbox in self._running.items()
            for name in sandbox.ended()
        ]


@cache
def kinds_named(file: Path) -> set[str]:
    """The kinds of servers that a file of tests names: some are asked for by name only, through parameters."""
    text = file.read_text()
    return {kind for kind in KINDS if re.search(rf"\b{kind}\b", text)}


@cache
def wants_thrift(file: Path) -> bool:
    """Whether a test module takes the Thrift server that such files share."""
    return "thrift: ThriftServer" in file.read_text()
