"""Transactions over several tables that are decided, brought to their end in all of their tables.

First the leader's transaction is committed, and then the others. Then each intent becomes a version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from pyspark_pravega.client import Client, TransactionState
from pyspark_pravega.connector.log.decided.completing import (
    COMMITTING_OR_DONE,
    FIRST_POLL_S,
    commit_all,
    completed,
    transaction_states,
)
from pyspark_pravega.connector.log.decided.decisions import Decision, Decisions, Member, Verdict, open_decisions
from pyspark_pravega.connector.log.decided.turns import Turn, Turns
from pyspark_pravega.connector.log.entries import State, Together
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.connector.log.opening import open_ledger
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import (
    ConflictError,
    DeadlineExceededError,
    NotFoundError,
    PravegaError,
    TableBeingDroppedError,
    TransactionError,
)
from pyspark_pravega.together import all_together

LONGEST_POLL_S = 0.1
_log = logging.getLogger(__name__)
Left: TypeAlias = tuple[Member, Ledger, State]
"""A table whose log has a transaction's intent, and that log as it was seen."""


def roll_forward(client: Client, together: Together, own: Turn | None = None) -> None:
    """Bring a transaction over several tables to its end in all of them, if it is decided that it is there.

    Another process that does so just now is waited for.

    Args:
        client: the cluster.
        together: the transaction.
        own: the turn that this process had last.

    Raises:
        TransactionError: the leader's transaction was lost before it was committed, and all is withdrawn.
        UnavailableError: it didn't come to its end in time; it will be, by the next writer.
    """
    decisions = open_decisions(client, together.scope)
    if decisions is None:
        return
    turns, retries, pause = Turns(decisions, own), Retries(client.settings.timeout), FIRST_POLL_S
    while (decision := decisions.look(together)).verdict is Verdict.COMMITTED:
        left = _left(client, decision)
        # A log is taken back behind the record only. So where one isn't pending, and the record is what it was, it is
        # done.
        if decisions.look(together).stored_as != decision.stored_as:
            return
        rest = _without_lost_leader(client, decision, left)
        if rest is None and not _has_to_ask(client, decision, left):
            _complete(client, decisions, decision, left)
            return
        turn = turns.take(decision)
        if turn is None:
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL_S)
            continue
        if rest is not None:
            began = time.monotonic()
            with suppress(ConflictError):
                turns = Turns(decisions, Turn.since(began, decisions.commit(turn.decision, rest)))
            continue
        try:
            bring_forward(client, decisions, turn, left)
            return
        except DeadlineExceededError:
            # The turn was too short for what servers do just now. This process may have the next one, too.
            if not retries.again():
                raise


def _without_lost_leader(client: Client, decision: Decision, left: Sequence[Left]) -> tuple[Member, ...] | None:
    """The members without the leader, where that was dropped, perhaps before its transaction was committed, and another
    one can lead; else None."""
    if not left or any(one[0] == decision.leader for one in left) or _log_of(client, decision.leader) is not None:
        return None
    rest = tuple(member for member in decision.members if member != decision.leader)
    return rest if any(member.transaction is not None for member in rest) else None


def bring_forward(client: Client, decisions: Decisions, turn: Turn, left: Sequence[Left]) -> bool:
    """As `roll_forward`, by who has the turn.

    Args:
        client: the cluster.
        decisions: has the record.
        turn: with the record, which says that it is committed.
        left: the tables whose logs have its intent.

    Returns:
        Whether all of it is done; else others have done some.

    Raises:
        DeadlineExceededError: the turn is over.
    """
    decision = turn.decision
    leading = next((one for one in left if one[0] == decision.leader), None)
    if leading is not None:
        try:
            with turn.asking():
                _commit_leader(client, decisions, decision, leading)
        except NotFoundError:
            # It is dropped just now: who looks again finds another leader.
            return False
    # What has become of a follower is seen when it is completed.
    _ask_followers(client, turn, left, TransactionError)
    return _complete(client, decisions, decision, left)


def commit_followers(client: Client, decision: Decision) -> None:
    """Ask for the commit of all other transactions, where the leader's is committed: else their leases might run out.

    Nothing is waited for, and nothing asked where another process has the turn.

    Args:
        client: the cluster.
        decision: the record, which says that it is committed.
    """
    decisions, left = open_decisions(client, decision.together.scope), _left(client, decision)
    if decisions is not None and _has_to_ask(client, decision, left):
        began = time.monotonic()
        _ask_followers(client, Turn.since(began, decisions.take_turn(decision)), left, PravegaError)


def _has_to_ask(client: Client, decision: Decision, left: Sequence[Left]) -> bool:
    """Whether the commit of one of them has to be asked for, or the leader's is lost."""

    def look(member: Member, ledger: Ledger, state: State) -> bool:
        assert state.pending is not None
        states = transaction_states(client, ledger.stream, state.pending)
        return TransactionState.OPEN in states or (member == decision.leader and not states & COMMITTING_OR_DONE)

    return any(all_together([partial(look, *one) for one in left]))


def _ask_followers(client: Client, turn: Turn, left: Sequence[Left], passed: type[PravegaError]) -> None:
    """Ask for the commit of the transactions that are committed behind the leader's."""

    def ask(ledger: Ledger, state: State) -> None:
        assert state.pending is not None
        with suppress(passed, NotFoundError), turn.asking():
            commit_all(client, ledger.stream, state.pending)

    followers = [one for one in left if one[0].transaction is not None and one[0] != turn.decision.leader]
    all_together([partial(ask, ledger, state) for _, ledger, state in followers])


def _complete(client: Client, decisions: Decisions, decision: Decision, left: Sequence[Left]) -> bool:
    """Make all intents versions, when their commits were asked for; False where others have done some of it."""
    is_done = all(all_together([partial(_complete_member, client, *one) for one in left]))
    if is_done or not _left(client, decision):
        with suppress(ConflictError):
            decisions.forget(decision)
    return is_done


def _left(client: Client, decision: Decision) -> list[Left]:
    """The tables whose logs have the transaction's intent still. One that was dropped is done."""

    def look(member: Member) -> Left | None:
        ledger = _log_of(client, member)
        if ledger is None:
            return None
        with suppress(NotFoundError):
            state = ledger.state()
            if state.pending is not None and state.pending.together == decision.together:
                return member, ledger, state
        return None

    looks = all_together([partial(look, member) for member in decision.members])
    return [one for one in looks if one is not None]


def _log_of(client: Client, member: Member) -> Ledger | None:
    """A table's commit log; None where it was dropped."""
    try:
        return open_ledger(client, member.stream)
    except (NotFoundError, TableBeingDroppedError):
        return None


def _commit_leader(client: Client, decisions: Decisions, decision: Decision, one: tuple[Member, Ledger, State]) -> None:
    """Commit the first transaction. Where it is lost nobody has committed another one: all of it is withdrawn."""
    member, ledger, state = one
    assert member.transaction is not None
    assert state.pending is not None
    try:
        commit_all(client, ledger.stream, state.pending)
    except TransactionError:
        now = client.controller.transaction_state(ledger.stream, member.transaction)
        if now in COMMITTING_OR_DONE:
            return
        if now != TransactionState.OPEN and ledger.state().stored_as == state.stored_as:
            with suppress(ConflictError):
                decisions.withdraw(decision)
        raise


def _complete_member(client: Client, member: Member, ledger: Ledger, state: State) -> bool:
    """Make a table's intent a version; False where others have, or it is dropped meanwhile."""
    with suppress(ConflictError, NotFoundError, TableBeingDroppedError):
        if member.transaction is None:
            ledger.withdraw(state)
            return True
        try:
            completed(client, ledger, state)
        except TransactionError as error:
            _log.warning(
                "%s: its rows are missing from a transaction over several tables, as nobody has looked at these tables "
                "before its lease ran out",
                error,
            )
            ledger.withdraw(state)
        return True
    return False


def withdraw_together(client: Client, ledger: Ledger, state: State, together: Together) -> State | None:
    """Withdraw a transaction that isn't decided, and take its intent out of a table's log.

    Args:
        client: the cluster.
        ledger: the table's commit log.
        state: its state, with the intent.
        together: the transaction.

    Returns:
        The log's new state; None when the transaction is there, and so has to be brought forward.

    Raises:
        ConflictError: another process has completed it, or rolled it back.
    """
    assert state.pending is not None
    decisions = open_decisions(client, together.scope)
    decision = None if decisions is None else decisions.look(together)
    if decisions is not None and decision is not None:
        if decision.verdict is Verdict.COMMITTED:
            return None
        if decision.verdict is Verdict.OPEN:
            decisions.withdraw(decision)
    for transaction in state.pending.transaction_ids():
        client.controller.abort_transaction(ledger.stream, transaction)
    return ledger.withdraw(state)
