"""Waits that come to their end, on a cluster in memory: there nobody has to wait for them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cluster_model import STREAM, ClusterModel
from history import Kind
from model_patches import modelled, played_in
from scaling_model import Scale
from simulation import History
from world import Profile

from pyspark_pravega.client import TransactionState
from pyspark_pravega.connector.log import Ledger, Snapshot, State, opening, snapshot
from pyspark_pravega.connector.log.decided import COMMIT_TIMEOUT_S, completing
from pyspark_pravega.connector.log.entry_keys import STATE
from pyspark_pravega.connector.write.commit import promise
from pyspark_pravega.errors import SegmentStoreUnavailableError, UnavailableError


class HaltedScale:
    """A scale that begins when the first commit is made, and is halted when its first segment is sealed.

    So the segments that the controller calls current can't be read to an end that stays.
    """

    def __init__(self, cluster: ClusterModel) -> None:
        self._cluster, self._work = cluster, cluster.work
        self._scale: Scale | None = None
        cluster.world.server = self.work

    def work(self) -> bool:
        """What the servers do by themselves."""
        cluster = self._cluster
        done = self._work()
        if self._scale is None and any(
            one.state is TransactionState.COMMITTED for one in cluster.transactions.values()
        ):
            self._scale = Scale()
            while not any(one.sealed for one in cluster.segments.values()):
                self._scale.go_on(cluster)
        return done

    def goes_on(self) -> None:
        """Let the scale come to its end."""
        assert self._scale is not None
        self._cluster.scale = self._scale


@pytest.mark.parametrize("seed", range(5))
def test_a_commit_whose_cut_can_t_be_taken_is_finished_by_the_next_writer(seed: int) -> None:
    history = History(seed, Profile())
    world, cluster = history.world, history.cluster
    halted = HaltedScale(cluster)
    told: list[UnavailableError] = []
    states: list[State] = []

    def insert() -> None:
        history._statement("driver", Kind.INSERT)

    def insert_in_vain() -> None:
        with pytest.raises(UnavailableError) as caught:
            insert()
        told.append(caught.value)

    with modelled(), played_in(world, cluster):
        _run(history, insert_in_vain)
        assert "the commit is made, and the next writer finishes it" in str(told[0])
        assert world.now >= COMMIT_TIMEOUT_S
        log = cast(Ledger, opening.open_ledger(cluster.client, STREAM))
        _run(history, lambda: states.append(log.state()))
        assert states[0].version == 0
        assert states[0].pending is not None
        halted.goes_on()
        _run(history, insert)
        history._judge()
    content = history.operations[-1].seen
    assert content == {0, 1}
    assert history.by_version.keys() == {2}


class HaltedCommits:
    """Servers that do nothing of what they have accepted, until they are told to go on."""

    def __init__(self, cluster: ClusterModel) -> None:
        self._cluster, self._work = cluster, cluster.work
        self.halted = True
        cluster.world.server = self.work

    def work(self) -> bool:
        """What the servers do by themselves."""
        return self._cluster.table.index() if self.halted else self._work()


@pytest.mark.parametrize("seed", range(5))
def test_a_commit_that_is_not_made_in_time_is_finished_by_the_next_writer(seed: int) -> None:
    history = History(seed, Profile())
    world, cluster = history.world, history.cluster
    servers = HaltedCommits(cluster)
    told: list[str] = []

    def insert() -> None:
        history._statement("driver", Kind.INSERT)

    def in_vain(what: Callable[[], object]) -> None:
        with pytest.raises(UnavailableError) as caught:
            what()
        told.append(str(caught.value))

    with modelled(), played_in(world, cluster):
        _run(history, lambda: in_vain(insert))
        assert "was accepted, but not finished within 300 s; it will be: don't write the same rows again" in told[0]
        assert world.now >= COMMIT_TIMEOUT_S
        for timeout, patience in ((10.0, 60), (90.0, 90)):
            begun, cluster.client.settings.timeout = world.now, timeout
            _run(history, lambda: in_vain(lambda: snapshot.take_snapshot(cluster.client, STREAM)))
            says = f"did not come to rest for {patience} s, so no consistent view of it could be taken"
            assert says in told[-1]
            assert world.now >= begun + patience
        servers.halted = False
        _run(history, insert)
        history._judge()
    assert history.operations[-1].seen == {0, 1}


class ForgetfulController:
    """A controller that forgets the first commits that it has accepted, until it is asked for them again."""

    def __init__(self, cluster: ClusterModel, forgets: int) -> None:
        self._cluster, self._commit, self._forgets = cluster, cluster.commit, forgets
        self.asked = 0
        cluster.commit = self.commit  # type: ignore[method-assign]

    def commit(self, transaction: uuid.UUID) -> int:
        """As `ClusterModel.commit`."""
        self.asked += 1
        committing = self._cluster.committing
        status = self._commit(transaction)
        one = self._cluster.transactions[transaction]
        if self.asked <= self._forgets:
            committing.clear()
        elif one.state is TransactionState.COMMITTING and one not in committing:
            committing.append(one)
        return status


@pytest.mark.parametrize("seed", range(5))
def test_a_commit_that_the_controller_forgets_is_asked_for_again(seed: int) -> None:
    history = History(seed, Profile())
    controller = ForgetfulController(history.cluster, forgets=1)
    with modelled(), played_in(history.world, history.cluster):
        _run(history, lambda: history._statement("driver", Kind.INSERT))
        assert history.world.now < COMMIT_TIMEOUT_S
        history._judge()
    assert controller.asked >= 2
    assert history.operations[-1].seen == {0}


@pytest.mark.parametrize("seed", range(5))
def test_a_reader_asks_again_for_a_commit_whose_writer_has_died(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(seed, Profile())
    cluster = history.cluster
    ForgetfulController(cluster, forgets=1)

    def dies(*_: object) -> None:
        raise UnavailableError("it is killed")

    with modelled(), played_in(history.world, cluster):
        with monkeypatch.context() as patch:
            patch.setattr(completing, "_await_rest", dies)
            patch.setattr(promise, "Retries", lambda _: SimpleNamespace(again=lambda: False))
            _run(history, lambda: _in_vain(lambda: history._statement("driver", Kind.INSERT)))
        begun = history.world.now
        snapshots: list[Snapshot] = []
        _run(history, lambda: snapshots.append(snapshot.take_snapshot(cluster.client, STREAM)))
        assert history.world.now < begun + snapshot.PATIENCE_S
    assert sum(snapshots[0].cut.values()) > 0


@pytest.mark.parametrize("seed", range(5))
def test_a_commit_that_an_outage_holds_up_is_not_taken_back(seed: int) -> None:
    """Nobody could tell whether the committer makes progress while no controller answered, and it couldn't make any."""
    history = History(seed, Profile())
    world, cluster = history.world, history.cluster
    ends, call = {"first": 31.0, "second": 30.0}, world.call

    def is_pending() -> bool:
        state = cluster.table.readable.get(STATE)
        return state is not None and json.loads(state.value).get("pending") is not None

    def silent(what: str, action: Callable[[], Any], **more: Any) -> Any:
        assert world.current is not None
        if what in ("commitTransaction", "checkTransactionState") and is_pending():
            world.sleep(max(0.0, ends[world.current.name] - world.now))
        return call(what, action, **more)

    def second() -> None:
        while not is_pending():
            world.sleep(0.01)
        history._statement("second", Kind.INSERT)

    world.call = silent  # type: ignore[method-assign]
    with modelled(), played_in(world, cluster):
        world.add("first", lambda: history._statement("first", Kind.INSERT))
        world.add("second", second)
        world.run()
        assert world.now > ends["first"]
        history._judge()
    assert [operation.failed for operation in history.operations] == [False] * len(history.operations)


@pytest.mark.parametrize("seed", range(3))
def test_what_a_job_notes_is_noted_again_when_an_outage_is_over(seed: int) -> None:
    """Its answer is lost twice: when the segment store dies, and when the segments go back to it."""
    history = History(seed, Profile())
    world, cluster = history.world, history.cluster
    call, lost = world.call, iter((7.0, 40.0))
    cluster.table.timeout = 60.0

    def loses_answers(what: str, action: Callable[[], Any], **more: Any) -> Any:
        answer = call(what, action, **more)
        if what == "put" and (seconds := next(lost, None)):
            world.sleep(seconds)
            raise SegmentStoreUnavailableError("closed by the server")
        return answer

    world.call = loses_answers  # type: ignore[method-assign]
    with modelled(), played_in(world, cluster):
        _run(history, lambda: history._statement("driver", Kind.INSERT))
        assert world.now > 47
        history._judge()
    assert history.operations[-1].seen == {0}


def _in_vain(what: Callable[[], object]) -> None:
    with pytest.raises(UnavailableError):
        what()


def _run(history: History, what: Callable[[], None]) -> None:
    history.world.add("driver", what)
    history.world.run()
