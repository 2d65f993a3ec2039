"""Which process runs which tests."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from server_tools import KINDS, kinds_named, wants_thrift
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController


class BothEnds(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out whole files: to the first process from the beginning of the list, to others from its end.

    So a Spark session and its warm JVM are the first one's, until what needs none is done. Files that share servers
    with authentication stay together, and so do those that share a Thrift server.

    With `--beside` the last process takes only files that want nothing of what is shared. Others leave those to it, and
    take them when there is nothing else to do.
    """

    def schedule(self) -> None:
        """Hand out the first files; later calls hand out more."""
        self.config.option.loadscopereorder = False
        super().schedule()

    def _assign_work_unit(self, node: WorkerController) -> None:
        if scope := self._next_scope(node):
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)
        else:
            node.shutdown()

    def _next_scope(self, node: WorkerController) -> str | None:
        scopes: list[str] = list(self.workqueue)
        if self.config.option.beside:
            light = [scope for scope in scopes if self._is_light(scope)]
            heavy = [scope for scope in scopes if not self._is_light(scope)]
            scopes = light if is_beside(node.gateway.id, self.numnodes) else heavy or light
        if not scopes:
            return None
        return scopes[0 if node is self.nodes[0] else -1]

    def _reschedule(self, node: WorkerController) -> None:
        # A test runs when it is known which one is next: so a process takes a file when it has one test left, and no
        # sooner. Else, at the end of a run, a file would wait for one process while the other has nothing to do.
        if not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)

    def _is_light(self, scope: str) -> bool:
        file = self.config.rootpath / scope
        return file.is_file() and wants_nothing_shared(file)

    def _split_scope(self, nodeid: str) -> str:
        return _scope(self.config.rootpath / nodeid.partition("::")[0])


@cache
def _scope(file: Path) -> str:
    if kinds_named(file) - {"sandbox"}:
        return "authentication"
    return "thrift" if wants_thrift(file) else str(file)


def is_beside(worker: str, processes: int) -> bool:
    """Whether a process is the last one: with `--beside` it runs what needs no servers, when a core has nothing to do.

    Args:
        worker: xdist's name of it, `gw0` and so on.
        processes: how many there are.
    """
    return processes > 1 and worker == f"gw{processes - 1}"


_SHARED = {
    *KINDS,
    "settings",
    "client",
    "registry",
    "catalog",
    "scope",
    "module_scope",
    "java",
    "thrift",
    "sessions",
    "spark",
}
"""Fixtures of tests/conftest.py that start servers or a session, which other files of the process then use, too."""


@cache
def wants_nothing_shared(file: Path) -> bool:
    """Whether no test and no fixture of a file takes servers or a session that files share."""
    return not any(
        parameter.arg in _SHARED
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef)
        for parameter in function.args.args
    )
