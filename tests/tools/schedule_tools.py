"""Which of two processes runs which tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from server_tools import kinds_named, wants_thrift
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController


class BothEnds(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out whole files: to the first process from the beginning of the list, to others from its end.

    So a Spark session and its warm JVM are the first one's, until what needs none is done. Files that share servers
    with authentication stay together, and so do those that share a Thrift server.
    """

    def schedule(self) -> None:
        """Hand out the first files; later calls hand out more."""
        self.config.option.loadscopereorder = False
        super().schedule()

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node is not self.nodes[0] and self.workqueue:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        # A test runs when it is known which one is next: so a process takes a file when it has one test left, and no
        # sooner. Else, at the end of a run, a file would wait for one process while the other has nothing to do.
        if not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        return _scope(self.config.rootpath / nodeid.partition("::")[0])


@cache
def _scope(file: Path) -> str:
    if kinds_named(file) - {"sandbox"}:
        return "authentication"
    return "thrift" if wants_thrift(file) else str(file)
