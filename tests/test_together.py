"""Calls that are made at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from pyspark_pravega.deadlines import Limit, deadline
from pyspark_pravega.errors import ConflictError, DeadlineExceededError
from pyspark_pravega.together import Begun, together


def test_both_calls_are_under_way_at_once() -> None:
    meeting = threading.Barrier(2)

    def meet(answer: str) -> str:
        meeting.wait(600)
        return answer

    assert together(lambda: meet("one"), lambda: meet("other")) == ("one", "other")


def test_the_first_call_s_error_is_told_when_both_have_ended() -> None:
    ended = threading.Event()

    def fail(error: Exception) -> None:
        raise error

    def end() -> None:
        ended.set()
        fail(ConflictError("the other"))

    with pytest.raises(ConflictError, match="one"):
        together(lambda: fail(ConflictError("one")), end)
    assert ended.is_set()
    with pytest.raises(ConflictError, match="the other"):
        together(lambda: None, end)


def test_a_caller_s_deadline_holds_in_the_other_thread() -> None:
    with deadline(0), pytest.raises(DeadlineExceededError):
        Begun(lambda: Limit(600).cap(600)).result()


def test_who_waits_for_a_while_is_told_whether_it_has_ended() -> None:
    gate = threading.Event()
    begun = Begun(lambda: gate.wait(600))
    assert not wait([begun], timeout=0).done
    gate.set()
    assert wait([begun], timeout=600).done
    assert begun.result() is True
